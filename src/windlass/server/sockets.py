"""Listening sockets of a server. They are opened once, before anything else starts, and shared by all its processes."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import NamedTuple

from windlass.core.errors import BadSetting
from windlass.core.server_roles import API, parse_roles
from windlass.settings import Settings
from windlass.web.app.auth import is_loopback

BACKLOG = 1024
_REASONS = {
    errno.EADDRINUSE: "is in use; stop what listens there, or choose another port with {option} or {variable}",
    errno.EACCES: "may not be opened by this user; choose a port from 1024 on with {option} or {variable}",
    errno.EADDRNOTAVAIL: "is not an address of this machine; choose another address with --host or WINDLASS_HOST",
}
HTTP = ("--port", "WINDLASS_PORT")
HEALTH = ("--health-port", "WINDLASS_HEALTH_PORT (`off` for none)")
BEDROCK = ("--bedrock-port", "WINDLASS_BEDROCK_PORT (`off` for none)")


class Sockets(NamedTuple):
    """Listening sockets by protocol."""

    http: list[socket.socket]
    bedrock: list[socket.socket]  # empty: not served

    @property
    def all(self) -> list[socket.socket]:
        return [*self.http, *self.bedrock]

    def close(self) -> None:
        for listening in self.all:
            listening.close()


def open_sockets(settings: Settings) -> Sockets:
    """Listen on every address of the host, with one port for each protocol. A server without the role `api` has only
    its health port, if any."""
    has_api = API in parse_roles(settings.roles)
    with contextlib.ExitStack() as stack:
        port = settings.port if has_api else settings.health_port
        http = [] if port is None else _listen(settings, port, HTTP if has_api else HEALTH, stack)
        port = settings.bedrock_port if has_api else None
        bedrock = [] if port is None else _listen(settings, port, BEDROCK, stack)
        stack.pop_all()
    return Sockets(http, bedrock)


def _listen(settings: Settings, port: int, names: tuple[str, str], stack: contextlib.ExitStack) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    for family, address in _addresses(settings):
        listening = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        _bind(listening, (address, port), names)
        port = listening.getsockname()[1]
        sockets.append(listening)
    return sockets


def _addresses(settings: Settings) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(
            settings.host or None, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise BadSetting(
            f"The host {settings.host!r} cannot be resolved ({error}); set --host or WINDLASS_HOST to an address of "
            "this machine."
        ) from error
    return list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))


def _bind(listening: socket.socket, address: tuple[str, int], names: tuple[str, str]) -> None:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        host, port = address
        reason = _REASONS.get(error.errno or 0, f"cannot be listened on: {os.strerror(error.errno or 0)}")
        option, variable = names
        raise BadSetting(f"Port {port} of {host} {reason.format(option=option, variable=variable)}.") from error
    listening.setblocking(False)


def are_local(sockets: list[socket.socket]) -> bool:
    """Whether only this machine can reach the sockets."""
    return all(is_loopback(listening.getsockname()[0]) for listening in sockets)


def url_of(sockets: list[socket.socket], settings: Settings) -> str:
    return f"{'https' if settings.tls_certificate else 'http'}://{address_of(sockets)}"


def address_of(sockets: list[socket.socket]) -> str:
    host, port = sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
