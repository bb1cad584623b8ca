"""The sockets that a server listens on, opened once: before anything else is started, and for all of its processes."""

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
_WHY = {
    errno.EADDRINUSE: "is in use; stop what listens there, or choose another port with {option} or {variable}",
    errno.EACCES: "may not be opened by this user; choose a port from 1024 on with {option} or {variable}",
    errno.EADDRNOTAVAIL: "is no address of this machine; choose another one with --host or WINDLASS_HOST",
}
HTTP = ("--port", "WINDLASS_PORT")
HEALTH = ("--health-port", "WINDLASS_HEALTH_PORT (`off` for none)")
BEDROCK = ("--bedrock-port", "WINDLASS_BEDROCK_PORT (`off` for none)")


class Sockets(NamedTuple):
    http: list[socket.socket]
    bedrock: list[socket.socket]  # none: it is not served

    @property
    def all(self) -> list[socket.socket]:
        return [*self.http, *self.bedrock]

    def close(self) -> None:
        for one in self.all:
            one.close()


def open_sockets(settings: Settings) -> Sockets:
    """On every address of the host, those of one protocol all on one port. A server that does not answer has only the
    port on which it tells how it is, if any."""
    answers = API in parse_roles(settings.roles)
    with contextlib.ExitStack() as stack:
        port = settings.port if answers else settings.health_port
        http = [] if port is None else _listen(settings, port, HTTP if answers else HEALTH, stack)
        port = settings.bedrock_port if answers else None
        bedrock = [] if port is None else _listen(settings, port, BEDROCK, stack)
        stack.pop_all()
    return Sockets(http, bedrock)


def _listen(settings: Settings, port: int, names: tuple[str, str], stack: contextlib.ExitStack) -> list[socket.socket]:
    found: list[socket.socket] = []
    for family, address in _addresses(settings):
        one = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        _bind(one, (address, port), names)
        port = one.getsockname()[1]
        found.append(one)
    return found


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


def _bind(one: socket.socket, address: tuple[str, int], names: tuple[str, str]) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        one.bind(address)
        one.listen(BACKLOG)
    except OSError as error:
        host, port = address
        why = _WHY.get(error.errno or 0, f"cannot be listened on: {os.strerror(error.errno or 0)}")
        option, variable = names
        raise BadSetting(f"Port {port} of {host} {why.format(option=option, variable=variable)}.") from error
    one.setblocking(False)


def are_local(sockets: list[socket.socket]) -> bool:
    """Whether only this machine can reach them."""
    return all(is_loopback(one.getsockname()[0]) for one in sockets)


def url_of(sockets: list[socket.socket], settings: Settings) -> str:
    return f"{'https' if settings.tls_certificate else 'http'}://{address_of(sockets)}"


def address_of(sockets: list[socket.socket]) -> str:
    host, port = sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
