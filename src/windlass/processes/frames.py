"""Messages between a process and its children: a length of four bytes, then MessagePack. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeVar

import msgspec

FRAME_BYTES_MAX = 1 << 30
_length = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()

Message = TypeVar("Message")


class HelloMessage(msgspec.Struct, array_like=True, tag="hello"):
    """First message to a child: the parent's module search path and, if configured, its log format and level."""

    search_path: list[str]
    logging: tuple[str, int] | None = None


class RequestMessage(msgspec.Struct, array_like=True, tag="request"):
    """A request to execute. `memory_bytes` caps the memory that the job may add to the process; 0: no cap."""

    payload: bytes
    memory_bytes: int


class ChildReadyMessage(msgspec.Struct, array_like=True, tag="ready"):
    """The target is loaded."""


class LoadFailedMessage(msgspec.Struct, array_like=True, tag="unready"):
    """The target could not be loaded; the child ends."""

    traceback: str


class AnswerMessage(msgspec.Struct, array_like=True, tag="answer"):
    """The handler's return value. After the last answer the child ends."""

    payload: bytes
    resident_bytes: int
    is_last: bool


class RaisedMessage(msgspec.Struct, array_like=True, tag="raised"):
    """An exception that the handler raised."""

    type_name: str
    traceback: str
    is_out_of_memory: bool
    resident_bytes: int
    is_last: bool


ToChild = HelloMessage | RequestMessage
ToParent = ChildReadyMessage | LoadFailedMessage | AnswerMessage | RaisedMessage


def pack(message: ToChild | ToParent) -> bytes:
    body = _encoder.encode(message)
    if len(body) > FRAME_BYTES_MAX:
        raise ValueError(
            f"{len(body):,} bytes are too many for a child process; at most {FRAME_BYTES_MAX:,} are allowed."
        )
    return _length.pack(len(body)) + body


class FrameReader:
    """Splits a byte stream, fed in any portions, into frames."""

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
