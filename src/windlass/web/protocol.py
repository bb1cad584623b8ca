"""One connection: requests in, answers out in their order, one handler at a time, and every bound kept. Reading bytes
is `reading`'s, writing them `writing`'s; what is answered is the application's."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, cast

from . import writing
from .exchange import BodyStream, Exchange
from .messages import BodyCut, Client, Plan, Request, Response, Streamed
from .reading import BETWEEN, BODY, HEAD, Malformed, RequestReader

if TYPE_CHECKING:
    from .listener import Listener

log = logging.getLogger("windlass.web")

# A packet is read in slices, so that thousands of small requests in one of them do not become objects all at once.
_SLICE = 4096


class Connection(asyncio.Protocol):
    __slots__ = (
        "_blocked_bytes",
        "_current",
        "_discarded",
        "_drained",
        "_gathered",
        "_has_eof",
        "_is_deaf",
        "_is_reading_paused",
        "_leaves_at",
        "_listener",
        "_loop",
        "_progress_at",
        "_progress_bytes",
        "_queue",
        "_reader",
        "_rest",
        "_task",
        "_transport",
        "client",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._loop = listener.loop
        self._transport = cast(asyncio.Transport, None)  # until the connection is made
        self._reader = cast(RequestReader, None)
        self.client = Client("", False)
        self._queue: deque[Exchange] = deque()  # begun, not yet being answered
        self._current: Exchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._rest = b""  # received, not yet read: too much waits already
        self._gathered = 0  # bytes of the bodies in the queue
        self._is_reading_paused = False
        self._is_deaf = False  # what still comes is thrown away
        self._has_eof = False
        self._discarded = 0
        self._drained: asyncio.Future[None] | None = None
        self._blocked_bytes = -1  # unsent when the client last read something; -1: not waiting for it to read
        self._progress_at = 0.0
        self._progress_bytes = 0
        self._leaves_at = 0.0  # when a connection that is closing is cut; 0: it is not closing

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        is_tls = transport.get_extra_info("sslcontext") is not None
        self.client = Client(peer[0] if isinstance(peer, tuple) else "", is_tls)
        self._progress_at = self._loop.time()
        self._reader = RequestReader(self._listener.bounds, self.client.peer, self)
        if not self._listener.welcome(self):
            self._turn_away()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._discard(len(data))
            return
        if self._reader.stage == BETWEEN:
            self._progress_at = self._loop.time()
        if self._is_reading_paused or len(data) > _SLICE:
            self._rest = self._rest + data if self._rest else data
            self._read_rest()
        else:
            self._read(data)
        if self._queue and self._task is None:
            self._advance()

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._leaves_at or self.client.is_tls:
            return False
        if self._current is not None and self._waits(self._current):
            self._leave()
            return True
        if not self._is_deaf and not self._rest:
            self._end_of_input()
        return self._task is not None or bool(self._leaves_at)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_deaf = True
        self.client.is_gone = True
        self._rest = b""
        receiving = self._reader.exchange
        if receiving is not None and receiving.stream is not None:
            receiving.stream.cut("The client has gone.")
        self._release_drained()
        self._queue.clear()
        if self._current is not None and self._waits(self._current) and self._task is not None:
            self._task.cancel()
        self._listener.lose(self)
        if self._task is None:
            self._listener.forget(self)

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()
        self._blocked_bytes = self._transport.get_write_buffer_size()
        self._progress_at = self._loop.time()

    def resume_writing(self) -> None:
        self._progress_at = self._loop.time()
        self._release_drained()

    def _release_drained(self) -> None:
        self._blocked_bytes = -1
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # Reading.

    def _read(self, data: bytes | memoryview) -> None:
        try:
            self._reader.feed(data)
        except Malformed as problem:
            self._fail(problem.status, problem.detail)
        except Exception:
            log.exception("A request could not be read.")
            self._fail(500, "The server could not read the request.")

    def _read_rest(self) -> None:
        """As much of what has been received as may wait here; with something left, or no room, reading pauses."""
        view = memoryview(self._rest)
        at = 0
        while at < len(view) and not self._is_full() and not self._is_deaf:
            self._read(view[at : at + _SLICE])
            at += _SLICE
        self._rest = b"" if self._is_deaf else self._rest[at:]
        if self._rest or self._is_full():
            self._pause_reading()
        else:
            self._resume_reading()

    def _is_full(self) -> bool:
        bounds = self._listener.bounds
        receiving = self._reader.exchange
        if receiving is not None and receiving.stream is not None and len(receiving.stream) >= bounds.stream_bytes_max:
            return True
        if self._current is None and (not self._queue or not self._queue[0].is_ready):
            return False  # nobody else is being served: this one must be read to its end
        return len(self._queue) >= bounds.pipelined_max or self._gathered >= bounds.pipelined_bytes_max

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_reading_paused and not self._transport.is_closing():
            self._is_reading_paused = False
            self._progress_at = self._loop.time()
            self._transport.resume_reading()

    def _go_on_reading(self) -> None:
        """Something that filled us has been taken."""
        if self._is_reading_paused and not self.client.is_gone:
            self._read_rest()
            if self._has_eof and not self._rest and not self._is_deaf:
                self._end_of_input()

    def begin(self, exchange: Exchange) -> None:
        self._queue.append(exchange)
        head = exchange.head
        assert head is not None  # noqa: S101 — the reader makes no other
        if self._listener.on_answer is not None:
            exchange.begun_at = perf_counter()
        try:
            plan = self._listener.application.plan(head)
        except Exception:
            log.exception("No plan for %s %s.", head.method, head.path)
            plan = self._refuse(500, "The server failed to look at the request.", exchange)
        if isinstance(plan, Response):
            exchange.refusal = plan
        elif plan.streams_body:
            exchange.plan = plan
            exchange.stream = BodyStream(self._stream_taken, self._loop)
        elif exchange.length is not None and exchange.length > plan.body_max:
            exchange.refusal = self._refuse(413, self._too_large(plan), exchange)
        else:
            exchange.plan = plan
        if exchange.length != 0:
            self._progress_at = self._loop.time()
            self._progress_bytes = 0

    def receive(self, exchange: Exchange, piece: bytes) -> None:
        if exchange.is_answered or exchange.refusal is not None:
            self._drain(exchange, len(piece))
        elif exchange.stream is not None:
            self._progress_at = self._loop.time()
            exchange.stream.feed(piece)
            if len(exchange.stream) >= self._listener.bounds.stream_bytes_max:
                self._pause_reading()
        else:
            plan = exchange.plan
            if plan is not None and exchange.received > plan.body_max:
                raise Malformed(413, self._too_large(plan))
            exchange.gather(piece)
            self._gathered += len(piece)

    def complete(self, exchange: Exchange) -> None:
        if exchange.stream is not None:
            exchange.stream.end()
        if not exchange.keeps:
            self._is_deaf = True
        if len(self._queue) > 1 and self._is_full():
            self._pause_reading()

    def _stream_taken(self) -> None:
        self._go_on_reading()

    def _drain(self, exchange: Exchange, size: int) -> None:
        """An unwanted body is read to keep the connection, if it is short."""
        self._discarded += size
        if self._discarded > self._listener.bounds.drain_bytes_max:
            exchange.keeps = False
            self._is_deaf = True
            if exchange.is_answered and self._current is None:
                self._leave()

    def _too_large(self, plan: Plan) -> str:
        return f"The body of this request may have {plan.body_max} bytes."

    def _refuse(self, status: int, detail: str, exchange: Exchange | None) -> Response:
        try:
            return self._listener.application.refuse(status, detail, exchange.head if exchange else None)
        except Exception:
            log.exception("The application failed to refuse with %d: %s", status, detail)
            return Response(status, detail.encode(), content_type="text/plain; charset=utf-8")

    def _fail(self, status: int, detail: str) -> None:
        """The last word on this connection, after the answers that are owed before it."""
        if self._is_deaf:
            return  # only what follows a request that closes the connection
        self._is_deaf = True
        exchange = self._reader.exchange
        if exchange is None:
            exchange = Exchange(None, is_old=False, keeps=False, length=None)
            self._queue.append(exchange)
        exchange.keeps = False
        if exchange.is_answered:
            if self._current is None:
                self._leave()
        elif exchange.stream is not None:
            exchange.stream.cut(detail)
        elif exchange.refusal is None:
            exchange.refusal = self._refuse(status, detail, exchange)

    def _end_of_input(self) -> None:
        """The client sends no more. What it has asked for in full is still answered."""
        if self._reader.exchange is not None:
            self._fail(400, "The connection's sending side was closed before the end of the body.")
        self._is_deaf = True
        if self._task is None and not self._advance():
            self._leave()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > self._listener.bounds.drain_bytes_max:
            self._pause_reading()
            if self._leaves_at:
                self._transport.abort()

    # Answering.

    def _waits(self, exchange: Exchange) -> bool:
        return exchange.plan is not None and exchange.plan.waits

    def _advance(self) -> bool:
        """Answers what needs no handler, and starts the handler of what does. False: nobody can be served now."""
        if not self._next():
            return False
        if self._task is None:
            self._task = self._loop.create_task(self._serve())
        return True

    def _next(self) -> bool:
        while self._queue and not self.client.is_gone and not self._leaves_at:
            exchange = self._queue[0]
            if not exchange.is_ready:
                self._send_continue(exchange)
                return False
            self._queue.popleft()
            self._gathered -= len(exchange.body)
            if exchange.refusal is not None:
                self._write(exchange, exchange.refusal)
                self._ended(exchange)
                continue
            if self._has_eof and self._waits(exchange):
                self._leave()
                return False
            self._send_continue(exchange)
            self._current = exchange
            return True
        if self._has_eof and not self._queue and not self._leaves_at and not self._rest:
            self._leave()
        return False

    def _send_continue(self, exchange: Exchange) -> None:
        if exchange.wants_continue and not exchange.is_complete and not exchange.received:
            self._transport.write(writing.CONTINUE)
        exchange.wants_continue = False

    async def _serve(self) -> None:
        listener = self._listener
        try:
            while True:
                exchange = self._current
                assert exchange is not None  # noqa: S101 — set by `_next`
                listener.under_way += 1
                try:
                    await self._answer(exchange)
                finally:
                    listener.under_way -= 1
                    self._current = None
                self._ended(exchange)
                if self._drained is not None:
                    await self._drained
                if self._is_reading_paused:
                    self._go_on_reading()
                if not self._next():
                    break
        finally:
            self._task = None
            if self.client.is_gone:
                listener.forget(self)

    async def _answer(self, exchange: Exchange) -> None:
        plan, head = exchange.plan, exchange.head
        assert plan is not None  # noqa: S101 — what has none is refused
        assert head is not None  # noqa: S101
        try:
            answer = await plan.handle(Request(head, bytes(exchange.body), self.client, exchange.stream))
            if isinstance(answer, Streamed):
                await self._write_stream(exchange, answer)
            else:
                self._write(exchange, answer)
        except asyncio.CancelledError:
            if self._is_cancelled():
                self._transport.abort()
                raise
            self._answer_failure(exchange, 500, "The request was given up inside the server.")
        except BodyCut as cut:
            exchange.keeps = False
            self._answer_failure(exchange, 400, str(cut))
        except Exception:
            log.exception("The handler of %s %s failed.", head.method, head.path)
            self._answer_failure(exchange, 500, "The server failed to answer; its log says why.")

    def _is_cancelled(self) -> bool:
        return self._task is not None and self._task.cancelling() > 0

    def _answer_failure(self, exchange: Exchange, status: int, detail: str) -> None:
        """Of an answer that is already on its way the client learns by its missing end."""
        if exchange.is_answered:
            self._transport.abort()
        else:
            self._write(exchange, self._refuse(status, detail, exchange))

    def _write(self, exchange: Exchange, answer: Response) -> None:
        body = answer.body
        keeps = self._keeps(exchange)
        connection = self._connection_line(exchange, keeps)
        head = writing.head_lines(answer.status, answer.headers, answer.content_type, len(body), connection)
        exchange.is_answered = True
        is_bare = exchange.head is not None and exchange.head.method == "HEAD"
        if is_bare or not writing.has_body(answer.status):
            body = b""
        if not self.client.is_gone:
            self._transport.write(head + body)
        self._count(exchange, answer.status, len(body))

    def _keeps(self, exchange: Exchange) -> bool:
        if exchange.keeps and self._listener.is_stopping:
            exchange.keeps = False
        if exchange.keeps and not exchange.is_complete:
            # The rest of the body stands before the next request: it is read if it is short, or may be.
            rest = 0 if exchange.length is None else exchange.length - exchange.received
            exchange.keeps = not exchange.wants_continue and rest <= self._listener.bounds.drain_bytes_max
        return exchange.keeps

    def _connection_line(self, exchange: Exchange, keeps: bool) -> bytes:
        if not keeps:
            return writing.CLOSE
        return writing.KEEP_OLD if exchange.is_old else writing.KEEP

    async def _write_stream(self, exchange: Exchange, answer: Streamed) -> None:
        chunks = answer.chunks
        size = 0
        try:
            is_chunked = not exchange.is_old
            if exchange.is_old:
                exchange.keeps = False  # its end is the connection's
            connection = self._connection_line(exchange, self._keeps(exchange))
            if is_chunked:
                connection += b"Transfer-Encoding: chunked\r\n"
            head = writing.head_lines(answer.status, answer.headers, answer.content_type, None, connection)
            exchange.is_answered = True
            self._put(head)
            if exchange.head is not None and exchange.head.method == "HEAD":
                return
            async for data in chunks:
                if data:
                    size += len(data)
                    self._put(writing.chunk(data) if is_chunked else data)
                    if self._drained is not None:
                        await self._drained
            if is_chunked:
                self._put(writing.LAST_CHUNK)
        finally:
            self._count(exchange, answer.status, size)
            with suppress(AttributeError):
                await chunks.aclose()  # type: ignore[attr-defined]

    def _put(self, data: bytes) -> None:
        if not self.client.is_gone:
            self._transport.write(data)

    def _count(self, exchange: Exchange, status: int, size: int) -> None:
        listener = self._listener
        listener.answered[status // 100] += 1
        if listener.on_answer is not None:
            duration_s = perf_counter() - exchange.begun_at if exchange.begun_at else 0.0
            listener.on_answer(exchange.head, status, size, duration_s, self.client)

    def _ended(self, exchange: Exchange) -> None:
        """The answer is written; now the connection is kept or left."""
        self._progress_at = self._loop.time()
        self._discarded = 0
        if exchange.stream is not None and not exchange.is_complete:
            self._go_on_reading()
        if not exchange.keeps:
            self._leave()

    # Leaving.

    def _turn_away(self) -> None:
        exchange = Exchange(None, is_old=False, keeps=False, length=None)
        self._write(exchange, self._refuse(503, "The server has as many connections as it may; try again.", None))
        self._leave()

    def _leave(self) -> None:
        """Says no more. A client that has not finished sending is let finish for a moment: a closed socket with unread
        bytes in it would take our last answer back."""
        if self._leaves_at or self.client.is_gone:
            return
        self._queue.clear()
        self._rest = b""
        bounds = self._listener.bounds
        is_silent = self._reader.stage == BETWEEN and not self._is_deaf
        self._is_deaf = True
        if self._has_eof or is_silent:
            self._leaves_at = self._loop.time() + bounds.write_timeout_s
            self._transport.close()
            return
        self._leaves_at = self._loop.time() + bounds.linger_timeout_s
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._resume_reading()

    def stop(self) -> None:
        """The server stops: a connection on which nothing is asked is closed, others after their answers."""
        if self._task is None and not self._queue and self._reader.stage == BETWEEN:
            self._leave()

    def cut(self) -> asyncio.Task[None] | None:
        """The end, whatever is under way."""
        if self._task is not None:
            self._task.cancel()
        if not self.client.is_gone:
            self._transport.abort()
        return self._task

    def sweep(self, now: float) -> None:
        """Called about once a second: leaves a client that keeps us waiting."""
        bounds = self._listener.bounds
        if self._leaves_at:
            if now >= self._leaves_at:
                self._transport.abort()
        elif self._blocked_bytes >= 0:
            self._sweep_writing(now)
        elif self._is_reading_paused or self._is_deaf:
            return
        elif self._reader.stage == HEAD:
            if now - self._progress_at > bounds.head_timeout_s:
                self._time_out("The head of a request must arrive within", bounds.head_timeout_s)
        elif self._reader.stage == BODY:
            self._sweep_body(now)
        elif self._task is None and now - self._progress_at > bounds.idle_timeout_s:
            self._leave()

    def _sweep_writing(self, now: float) -> None:
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._blocked_bytes:
            self._blocked_bytes = unsent
            self._progress_at = now
        elif now - self._progress_at > self._listener.bounds.write_timeout_s:
            self._transport.abort()

    def _sweep_body(self, now: float) -> None:
        exchange, bounds = self._reader.exchange, self._listener.bounds
        if exchange is None:
            return
        step = 1 if exchange.stream is not None else bounds.body_step_bytes
        if exchange.received - self._progress_bytes >= step:
            self._progress_bytes = exchange.received
            self._progress_at = now
        elif now - self._progress_at > bounds.body_timeout_s:
            self._time_out("More of the body must arrive within", bounds.body_timeout_s)

    def _time_out(self, what: str, timeout_s: float) -> None:
        self._fail(408, f"{what} {timeout_s:g} seconds.")
        if self._task is None and not self._advance() and not self._leaves_at:
            self._leave()
