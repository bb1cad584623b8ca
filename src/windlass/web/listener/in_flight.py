"""In-flight request: a request from its first line to the last byte of its answer, and its body stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .messages import Head, IncompleteBody, Plan, Response


class BodyStream:
    """Body of a request, read by its handler while it arrives. The connection bounds the buffer."""

    __slots__ = ("_buffer", "_is_over", "_loop", "_on_read", "_reason", "_waiter")

    def __init__(self, on_read: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._buffer = bytearray()
        self._on_read = on_read
        self._loop = loop
        self._is_over = False
        self._reason = ""
        self._waiter: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._buffer)

    def __bool__(self) -> bool:
        return True

    def feed(self, piece: bytes) -> None:
        self._buffer += piece
        self._wake()

    def end(self) -> None:
        self._is_over = True
        self._wake()

    def abort(self, reason: str) -> None:
        """End the stream early. Buffered bytes can still be read; the next read then raises IncompleteBody."""
        if not self._is_over:
            self._reason = reason
            self._wake()

    def abandon(self) -> int:
        """Drop the buffer because the handler has ended. Return the number of bytes it had not read."""
        self.abort("The request has been answered.")
        unread = len(self._buffer)
        self._buffer.clear()
        return unread

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> BodyStream:
        return self

    async def __anext__(self) -> bytes:
        while not self._buffer:
            if self._is_over:
                raise StopAsyncIteration
            if self._reason:
                raise IncompleteBody(self._reason)
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data = bytes(self._buffer)
        self._buffer.clear()
        self._on_read()
        return data


class InFlightRequest:
    """A request that is being received or answered."""

    __slots__ = (
        "body",
        "head",
        "is_answered",
        "is_complete",
        "is_finished",
        "is_head_request",
        "is_http10",
        "keep_alive",
        "length",
        "plan",
        "received",
        "refusal",
        "started_at",
        "stream",
        "wants_continue",
    )

    def __init__(self, head: Head | None, *, is_http10: bool, keep_alive: bool, length: int | None) -> None:
        self.head = head  # None: the input was not a valid request
        self.is_head_request = head is not None and head.method == "HEAD"
        self.is_http10 = is_http10  # HTTP/1.0
        self.keep_alive = keep_alive  # the connection stays open after the answer
        self.length = length  # announced length of the body; None: chunked
        self.received = 0  # bytes of the body
        self.body: bytes | bytearray = b""
        self.stream: BodyStream | None = None
        self.plan: Plan | None = None
        self.refusal: Response | None = None
        self.is_complete = False
        self.is_answered = False  # at least the head of the answer is written
        self.is_finished = False  # the answer is complete; the rest of the body is discarded
        self.wants_continue = False
        self.started_at = 0.0

    @property
    def is_ready(self) -> bool:
        return self.is_complete or self.refusal is not None or self.stream is not None

    def append(self, piece: bytes) -> None:
        """Append to the body. A single piece is not copied; many small pieces cost linear time."""
        if not self.body:
            self.body = piece
        elif isinstance(self.body, bytes):
            self.body = bytearray(self.body + piece)
        else:
            self.body += piece
