"""Server-sent events as bytes: frames written by the server and parsed by the client."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from windlass.core.errors import TooLarge

EVENT_STREAM = "text/event-stream"
KEEP_ALIVE_S = 15.0  # shorter than the idle timeout of usual proxies
CHUNK_BYTES = 64 * 1024  # frames written together; equals the buffer for a client that does not read
FRAME_MAX = 4 * 1024 * 1024  # bytes of one event that a client accepts
_LINE_END = re.compile(rb"\r\n|\r|\n")


def is_wanted(accept: str) -> bool:
    """Report whether a client asks for server-sent events, as browsers do for an EventSource."""
    return any(part.partition(";")[0].strip().lower() == EVENT_STREAM for part in accept.split(","))


def encode_frame(kind: str, data: bytes, position: str = "") -> bytes:
    """Encode one event. Line breaks in the data start further `data` lines, so data cannot end the event."""
    return with_position(encode_body(kind, data), position)


def encode_body(kind: str, data: bytes) -> bytes:
    """Encode an event without its id. These bytes are the same for all followers."""
    if b"\n" in data or b"\r" in data:
        data = _LINE_END.sub(b"\ndata: ", data)
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def with_position(body: bytes, position: str) -> bytes:
    """Prepend the id of an event to the rest of its frame."""
    return b"id: %s\n%s" % (position.encode(), body) if position else body


def join_frames(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join frames into few writes, none much larger than CHUNK_BYTES."""
    chunk, size = list[bytes](), 0
    for frame in frames:
        chunk.append(frame)
        size += len(frame)
        if size >= CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


def encode_position(position: str) -> bytes:
    """Encode a frame that only sets the position from which a client resumes."""
    return _id_line(position) + b"\n"


def encode_keep_alive(position: str) -> bytes:
    """Encode a keep-alive: a comment, and the position."""
    return b":\n" + encode_position(position)


def _id_line(position: str) -> bytes:
    return b"id: %s\n" % position.encode() if position else b""


class EventFrame(NamedTuple):
    position: str  # empty: unchanged
    data: bytes  # empty: only a position or a keep-alive
    kind: str = ""


class FrameParser:
    """Incremental parser. Lines end with a line feed, as the Windlass server writes them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Iterator[EventFrame]:
        *complete, self._rest = (self._rest + chunk).split(b"\n\n")
        if len(self._rest) > FRAME_MAX:
            raise TooLarge(f"The server sent an event of more than {FRAME_MAX} bytes.")
        for text in complete:
            yield _parse_frame(text)


def _parse_frame(text: bytes) -> EventFrame:
    position, kind, data = "", "", []
    for line in text.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"id":
            position = value.decode(errors="replace")
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            kind = value.decode(errors="replace")
    return EventFrame(position, b"\n".join(data), kind)
