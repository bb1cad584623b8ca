"""Whether any node of an address answers, for a person who waits: one attempt each, within a time limit."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Sequence

import hiredis

from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.store.connection.connection import EngineReplyError
from windlass.store.connection.endpoint import Address, ClusterSeeds, Endpoint, SentinelGroup, host_and_port
from windlass.store.connection.sync_connection import SyncConnection

from .sentinel import Sentinel

_WITHOUT_TLS = " (an engine without TLS has a URL with redis://)"


def find_unreachable(address: Address, limit_s: float) -> str:
    """Return why no node of the address answers as an engine; empty if one does, also if it refuses the command."""
    if isinstance(address, SentinelGroup):
        return _try_any(address.sentinels, limit_s / 2) or _try_primary(address, limit_s / 2)
    return _try_any(address.seeds if isinstance(address, ClusterSeeds) else (address,), limit_s)


def _try_any(nodes: Sequence[Endpoint], limit_s: float) -> str:
    failures = [_try_node(node, limit_s / len(nodes)) for node in nodes]
    return "" if "" in failures else failures[0]


def _try_primary(group: SentinelGroup, limit_s: float) -> str:
    try:
        primary = Sentinel(group).find_sync()
    except WindlassError:
        return ""  # opening the store reports what is wrong
    failure = _try_node(primary, limit_s)
    return f"the sentinels name the primary {host_and_port(primary)}, and there: {failure}" if failure else ""


def _try_node(node: Endpoint, limit_s: float) -> str:
    try:
        with contextlib.closing(SyncConnection.open(node, limit_s)) as connection:
            connection.call("PING", timeout_s=limit_s)
    except EngineUnavailable as error:
        return "" if isinstance(error.__cause__, EngineReplyError) else _describe(error, node)
    except WindlassError:
        return ""  # it answers; opening the store reports what is wrong
    return ""


def _describe(error: EngineUnavailable, node: Endpoint) -> str:
    cause = error.__cause__
    if isinstance(cause, TimeoutError | BlockingIOError):
        return f"no answer{_WITHOUT_TLS if node.tls else ''}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS there{_WITHOUT_TLS}"
    if isinstance(cause, hiredis.ProtocolError):
        return "what answers there is no Redis or Valkey"
    if isinstance(cause, ConnectionResetError):
        return "it closed the connection at once (an engine with TLS has a URL with rediss://)"
    if isinstance(cause, socket.gaierror):
        return f"the name of the host is not known ({cause.strerror})"
    return (isinstance(cause, OSError) and cause.strerror) or str(cause or error)
