"""Whether a server answers, for a person who waits: one attempt within a time limit."""

from __future__ import annotations

import http.client
import socket
import ssl

from windlass.core.errors import WindlassError
from windlass.sdk.remote.address import ServerAddress
from windlass.sdk.remote.request import NoAnswer, NotReached, get
from windlass.sdk.remote.sync_session import SyncHttpSession


def find_unreachable(address: ServerAddress) -> str:
    """Return why nothing at the address answers as an HTTP server; empty if a server does, whatever it answers. The
    caller bounds the time."""
    session = SyncHttpSession(address, "")
    try:
        session.send(get("/info", None))
    except (NotReached, NoAnswer) as error:
        return _describe(error)
    except WindlassError:
        return ""  # it answers; opening the store reports what is wrong
    finally:
        session.close()
    return ""


def _describe(error: WindlassError) -> str:
    cause = error.__cause__
    if isinstance(cause, ssl.SSLError):
        return "no TLS there (a server without TLS has a URL with http://)"
    if isinstance(cause, http.client.RemoteDisconnected | ConnectionResetError):
        return "it closed the connection at once (a server with TLS has a URL with https://)"
    if isinstance(cause, http.client.HTTPException):
        return "what answers there is no HTTP server"
    if isinstance(cause, socket.gaierror):
        return f"the name of the host is not known ({cause.strerror})"
    return (isinstance(cause, OSError) and cause.strerror) or str(cause or error)
