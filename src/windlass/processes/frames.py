"""Messages between a process and its children: a length of four bytes, then MessagePack.

No I/O here: both sides own their end of the socket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeVar

import msgspec

FRAME_BYTES_MAX = 1 << 30
_length = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()

Message = TypeVar("Message")


class Hello(msgspec.Struct, array_like=True, tag="hello"):
    """The first thing a child hears: where its parent finds modules, and how it writes its log, if that was chosen."""

    search_path: list[str]
    logging: tuple[str, int] | None = None


class Request(msgspec.Struct, array_like=True, tag="request"):
    """Something to do. `memory_bytes` is how much the job may add to what the process uses; 0: no cap."""

    payload: bytes
    memory_bytes: int


class Ready(msgspec.Struct, array_like=True, tag="ready"):
    """The target is loaded."""


class Unready(msgspec.Struct, array_like=True, tag="unready"):
    """The target could not be loaded; the child ends."""

    traceback: str


class Answer(msgspec.Struct, array_like=True, tag="answer"):
    """What the handler returned. After the last one the child ends."""

    payload: bytes
    resident_bytes: int
    is_last: bool


class Raised(msgspec.Struct, array_like=True, tag="raised"):
    """What the handler let through instead of returning."""

    type_name: str
    traceback: str
    is_out_of_memory: bool
    resident_bytes: int
    is_last: bool


ToChild = Hello | Request
ToParent = Ready | Unready | Answer | Raised


def pack(message: ToChild | ToParent) -> bytes:
    body = _encoder.encode(message)
    if len(body) > FRAME_BYTES_MAX:
        raise ValueError(f"{len(body):,} bytes are too much for a child process: {FRAME_BYTES_MAX:,} is the most.")
    return _length.pack(len(body)) + body


class FrameReader:
    """Bytes in, in any portions; whole frames out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, portion: bytes) -> None:
        self._bytes += portion

    def frames(self) -> Iterator[bytes]:
        while len(self._bytes) >= _length.size:
            end = _length.size + _length.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                return
            frame = bytes(memoryview(self._bytes)[_length.size : end])
            del self._bytes[:end]
            yield frame
