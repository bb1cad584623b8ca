"""The sockets that a server listens on, opened once: before anything else is started, and for all of its processes."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

from ..core.errors import BadSetting
from ..settings import Settings
from ..web.guard import is_loopback

BACKLOG = 1024
_WHY = {
    errno.EADDRINUSE: "is in use; stop what listens there, or choose another port with --port or WINDLASS_PORT",
    errno.EACCES: "may not be opened by this user; choose a port from 1024 on with --port or WINDLASS_PORT",
    errno.EADDRNOTAVAIL: "is no address of this machine; choose another one with --host or WINDLASS_HOST",
}


def open_sockets(settings: Settings) -> list[socket.socket]:
    """On every address of the host, all on one port."""
    port = settings.port
    with contextlib.ExitStack() as stack:
        found: list[socket.socket] = []
        for family, address in _addresses(settings):
            one = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            _bind(one, (address, port))
            port = one.getsockname()[1]
            found.append(one)
        stack.pop_all()
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


def _bind(one: socket.socket, address: tuple[str, int]) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        one.bind(address)
        one.listen(BACKLOG)
    except OSError as error:
        host, port = address
        why = _WHY.get(error.errno or 0, f"cannot be listened on: {os.strerror(error.errno or 0)}")
        raise BadSetting(f"Port {port} of {host} {why}.") from error
    one.setblocking(False)


def are_local(sockets: list[socket.socket]) -> bool:
    """Whether only this machine can reach them."""
    return all(is_loopback(one.getsockname()[0]) for one in sockets)


def url_of(sockets: list[socket.socket], settings: Settings) -> str:
    host, port = sockets[0].getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_certificate else 'http'}://{shown}:{port}"
