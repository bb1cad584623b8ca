"""One request and its answer, from the first line of the one to the last byte of the other, and a body on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .messages import Head, IncompleteBody, Plan, Response


class BodyStream:
    """A body as its handler reads it: what has arrived, then what arrives. The connection bounds what is held."""

    __slots__ = ("_buffer", "_is_over", "_loop", "_reason", "_taken", "_waiter")

    def __init__(self, taken: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._buffer = bytearray()
        self._taken = taken
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
        """What has arrived may still be read; then the reader is told why there is no more."""
        if not self._is_over:
            self._reason = reason
            self._wake()

    def abandon(self) -> int:
        """Nobody reads on. How many bytes were left."""
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
        self._taken()
        return data


class InFlightRequest:
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
        self.head = head  # None: what arrived was not a request
        self.is_head_request = head is not None and head.method == "HEAD"
        self.is_http10 = is_http10  # HTTP/1.0
        self.keep_alive = keep_alive  # the client wants to ask more on this connection
        self.length = length  # of the body as announced; None: chunked
        self.received = 0  # bytes of the body
        self.body: bytes | bytearray = b""
        self.stream: BodyStream | None = None
        self.plan: Plan | None = None
        self.refusal: Response | None = None
        self.is_complete = False
        self.is_answered = False  # at least its head is written
        self.is_finished = False  # the answer is; what still comes of the body is not wanted
        self.wants_continue = False
        self.started_at = 0.0

    @property
    def is_ready(self) -> bool:
        return self.is_complete or self.refusal is not None or self.stream is not None

    def append(self, piece: bytes) -> None:
        """A body that comes in one piece is not copied; one in many small pieces must not cost more than its length."""
        if not self.body:
            self.body = piece
        elif isinstance(self.body, bytes):
            self.body = bytearray(self.body + piece)
        else:
            self.body += piece
