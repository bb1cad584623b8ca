"""Server-sent events as bytes, and an answer made of them. What is told is a dialect's."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from windlass.web.listener.messages import Streamed

EVENT_STREAM = "text/event-stream"
KEEP_ALIVE_S = 15.0  # shorter than the patience of the proxies in between
_HEADERS = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))  # a proxy must not hold back what happens
CHUNK_BYTES = 64 * 1024  # of frames that are written together: as much as is held for a client that does not read
_LINE_END = re.compile(rb"\r\n|\r|\n")


def frame(kind: str, data: bytes, position: str = "") -> bytes:
    """One event. Whatever the data hold, they stay data: a line break begins another line of them."""
    return at_position(body(kind, data), position)


def body(kind: str, data: bytes) -> bytes:
    """A frame without its id: the same for all followers, whatever their position."""
    if b"\n" in data or b"\r" in data:
        data = _LINE_END.sub(b"\ndata: ", data)
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def at_position(body: bytes, position: str) -> bytes:
    return b"id: %s\n%s" % (position.encode(), body) if position else body


def chunks(frames: Iterable[bytes]) -> Iterator[bytes]:
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


def mark(position: str) -> bytes:
    """Tells where to go on from, and nothing else."""
    return _id(position) + b"\n"


def alive(position: str) -> bytes:
    """The same as a sign of life: a comment, for whoever does not look at ids."""
    return b":\n" + mark(position)


def _id(position: str) -> bytes:
    return b"id: %s\n" % position.encode() if position else b""


class Frames:
    """What a stream says, and what it listens to meanwhile: that ends with it, also when nobody ever reads a frame."""

    def __init__(self, frames: AsyncGenerator[bytes, None], source: AbstractAsyncContextManager[Any] | None) -> None:
        self._frames = frames
        self._source = source

    def __aiter__(self) -> Frames:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._frames)

    async def aclose(self) -> None:
        source, self._source = self._source, None
        try:
            await self._frames.aclose()
        finally:
            if source is not None:
                await source.__aexit__(None, None, None)


def streamed(frames: AsyncGenerator[bytes, None], source: AbstractAsyncContextManager[Any] | None = None) -> Streamed:
    return Streamed(200, Frames(frames, source), _HEADERS, EVENT_STREAM)
