"""Server-sent events as bytes: frames written by the server and parsed by the client."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from windlass.core.errors import TooLarge

EVENT_STREAM = "text/event-stream"
KEEP_ALIVE_S = 15.0  # shorter than the patience of the proxies in between
CHUNK_BYTES = 64 * 1024  # of frames that are written together: as much as is held for a client that does not read
_LINE_END = re.compile(rb"\r\n|\r|\n")


def encode_frame(kind: str, data: bytes, position: str = "") -> bytes:
    """One event. Whatever the data hold, they stay data: a line break begins another line of them."""
    return with_position(encode_body(kind, data), position)


def encode_body(kind: str, data: bytes) -> bytes:
    """A frame without its id: the same for all followers, whatever their position."""
    if b"\n" in data or b"\r" in data:
        data = _LINE_END.sub(b"\ndata: ", data)
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def with_position(body: bytes, position: str) -> bytes:
    return b"id: %s\n%s" % (position.encode(), body) if position else body


def join_frames(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join frames to few writes, none much larger than CHUNK_BYTES."""
    gathered, size = list[bytes](), 0
    for frame in frames:
        gathered.append(frame)
        size += len(frame)
        if size >= CHUNK_BYTES:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def encode_position(position: str) -> bytes:
    """Tells where to go on from, and nothing else."""
    return _id_line(position) + b"\n"


def encode_keep_alive(position: str) -> bytes:
    """The same as a sign of life: a comment, for whoever does not look at ids."""
    return b":\n" + encode_position(position)


def _id_line(position: str) -> bytes:
    return b"id: %s\n" % position.encode() if position else b""


FRAME_MAX = 4 * 1024 * 1024  # bytes of one event


class Frame(NamedTuple):
    position: str  # empty: as before
    data: bytes  # empty: it only tells the position, or that the server lives


class FrameParser:
    """Lines end with a line feed here: it is our own server that writes them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        *complete, self._rest = (self._rest + chunk).split(b"\n\n")
        if len(self._rest) > FRAME_MAX:
            raise TooLarge("The server sent an event that is too large.")
        for text in complete:
            yield _parse_frame(text)


def _parse_frame(text: bytes) -> Frame:
    position, data = "", []
    for line in text.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"id":
            position = value.decode()
        elif field == b"data":
            data.append(value)
    return Frame(position, b"\n".join(data))
