"""State of the bytes sent to a client that has closed its sending side.

A client that only half-closed its connection still reads; a client that closed it is gone. Both look alike until bytes
are sent: the system of the first acknowledges them, the system of the second resets the connection."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from enum import Enum, auto
from typing import Final

try:
    import fcntl
    import termios

    _UNACKNOWLEDGED: int | None = termios.TIOCOUTQ
except (ImportError, AttributeError):  # another system than Linux
    _UNACKNOWLEDGED = None

_TCP_INFO: Final = getattr(socket, "TCP_INFO", None)
_STATE_CLOSED = 7  # first byte of tcp_info after a reset


class SentBytes(Enum):
    PENDING = auto()
    ACKNOWLEDGED = auto()
    RESET = auto()


def sent_bytes(transport: asyncio.Transport) -> SentBytes:
    """Return what became of the bytes written to a transport. Where the system does not know, they count as
    acknowledged."""
    peer: socket.socket = transport.get_extra_info("socket")
    if is_reset(peer):
        return SentBytes.RESET
    if transport.get_write_buffer_size() or _unacknowledged(peer):
        return SentBytes.PENDING
    return SentBytes.ACKNOWLEDGED


def is_reset(peer: socket.socket) -> bool:
    try:
        if _TCP_INFO is not None and peer.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] == _STATE_CLOSED:
            return True
        return peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
    except OSError as error:
        return error.errno not in (errno.ENOPROTOOPT, errno.EOPNOTSUPP)


def _unacknowledged(peer: socket.socket) -> int:
    if _UNACKNOWLEDGED is None:
        return 0
    (count,) = struct.unpack("i", fcntl.ioctl(peer.fileno(), _UNACKNOWLEDGED, b"\0\0\0\0"))
    return int(count)
