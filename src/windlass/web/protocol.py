"""One connection: requests in, answers out in their order, one handler at a time, and every bound kept. Bytes are read
by `reading` and written by `outgoing`; what is answered is the application's."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, cast

from . import writing
from .exchange import BodyStream, Exchange
from .messages import BodyCut, Client, Plan, Request, Response, Streamed
from .outgoing import Outgoing
from .reading import BETWEEN, BODY, HEAD, Malformed, RequestReader

if TYPE_CHECKING:
    from .listener import Listener

log = logging.getLogger("windlass.web")

# A packet is read in slices, so that thousands of small requests in one of them do not become objects all at once.
_SLICE = 4096


class Connection(asyncio.Protocol):
    __slots__ = (
        "_current",
        "_discarded",
        "_gathered",
        "_has_eof",
        "_is_deaf",
        "_is_lost",
        "_is_paused",
        "_leaves_at",
        "_listener",
        "_loop",
        "_out",
        "_progress_at",
        "_progress_bytes",
        "_queue",
        "_reader",
        "_rest",
        "_task",
        "_transport",
        "client",
    )

    # Set when the connection is made.
    _transport: asyncio.Transport
    _reader: RequestReader
    _out: Outgoing
    client: Client

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._loop = listener.loop
        self._queue: deque[Exchange] = deque()  # begun, not yet being answered
        self._current: Exchange | None = None  # whose handler runs
        self._task: asyncio.Task[None] | None = None
        self._rest = b""  # received, not yet read: too much waits already
        self._gathered = 0  # bytes of the bodies in the queue
        self._discarded = 0
        self._is_paused = False  # reading is
        self._is_deaf = False  # what still comes is thrown away
        self._has_eof = False
        self._is_lost = False
        self._progress_at = 0.0  # when what is waited for began, or went on
        self._progress_bytes = 0
        self._leaves_at = 0.0  # when a connection that is closing is cut; 0: it is not closing

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        is_tls = transport.get_extra_info("sslcontext") is not None
        self.client = Client(peer[0] if isinstance(peer, tuple) else "", is_tls)
        self._out = Outgoing(self._transport, self.client, self._listener)
        self._reader = RequestReader(self._listener.bounds, self.client.peer, self)
        self._progress_at = self._loop.time()
        if not self._listener.welcome(self):
            self._turn_away()

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._discard(len(data))
            return
        if self._reader.stage == BETWEEN:
            self._progress_at = self._loop.time()
        if self._is_paused or len(data) > _SLICE:
            self._rest = self._rest + data if self._rest else data
            self._read_rest()
        else:
            self._read(data)
            if (len(self._queue) > 1 or self._reader.stage == BODY) and self._is_full():
                self._pause()
        if self._queue and self._task is None:
            self._advance()

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._leaves_at or self.client.is_tls:
            return False
        if self._current is not None and _waits(self._current):
            self._abort()
            return False
        if not self._is_deaf and not self._rest:
            self._end_input()
        return self._task is not None or bool(self._queue)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._is_deaf = True
        self.client.is_gone = True
        self._rest = b""
        receiving = self._reader.exchange
        if receiving is not None and receiving.stream is not None:
            receiving.stream.cut("The client has gone.")
        while self._queue:
            self._release(self._queue.popleft())
        self._out.unblock()
        if self._current is not None and _waits(self._current) and self._task is not None:
            self._task.cancel()
        self._listener.lose(self)
        if self._task is None:
            self._listener.forget(self)

    def pause_writing(self) -> None:
        self._out.block()

    def resume_writing(self) -> None:
        self._out.unblock()
        if self._queue and self._task is None:
            self._advance()

    # Reading.

    def _read(self, data: bytes | memoryview) -> None:
        try:
            self._reader.feed(data)
        except Malformed as problem:
            self._fail(problem.status, problem.detail)
        except Exception:
            log.exception("A request could not be read.")
            self._fail(500, "The server failed to read the request.")

    def _read_rest(self) -> None:
        """As much of what has been received as may wait here; with something left, or no room, reading pauses."""
        view = memoryview(self._rest)
        at = 0
        while at < len(view) and not self._is_deaf and not self._is_full():
            self._read(view[at : at + _SLICE])
            at += _SLICE
        self._rest = b"" if self._is_deaf else self._rest[at:]
        if self._rest or (self._is_full() and not self._is_deaf):
            self._pause()
        else:
            self._resume()

    def _is_full(self) -> bool:
        bounds = self._listener.bounds
        receiving = self._reader.exchange
        if receiving is not None and receiving.stream is not None and len(receiving.stream) >= bounds.stream_bytes_max:
            return True
        if self._current is None and not (self._queue and self._queue[0].is_ready):
            return False  # nobody is served before this one: it must be read to its end
        return len(self._queue) >= bounds.pipelined_max or self._gathered >= bounds.pipelined_bytes_max

    def _pause(self) -> None:
        if not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._progress_at = self._loop.time()
            self._transport.resume_reading()

    def _go_on_reading(self) -> None:
        """Something that filled us has been taken."""
        if self._is_paused and not self.client.is_gone and not self._leaves_at:
            self._read_rest()
            if self._has_eof and not self._rest and not self._is_deaf:
                self._end_input()

    # What the reader calls.

    def begin(self, exchange: Exchange) -> None:
        self._queue.append(exchange)
        plan = self._plan(exchange)
        if isinstance(plan, Response):
            exchange.refusal = plan
        elif plan.streams_body:
            exchange.plan = plan
            exchange.stream = BodyStream(self._go_on_reading, self._loop)
        elif exchange.length is not None and exchange.length > plan.body_max:
            exchange.refusal = self._out.refuse(413, _too_large(plan), exchange)
        else:
            exchange.plan = plan
        self._progress_bytes = 0
        if exchange.length != 0:
            self._progress_at = self._loop.time()

    def _plan(self, exchange: Exchange) -> Plan | Response:
        head = exchange.head
        assert head is not None  # noqa: S101 — the reader makes no other
        if self._listener.on_answer is not None:
            exchange.begun_at = perf_counter()
        try:
            return self._listener.application.plan(head)
        except Exception:
            log.exception("No plan for %s %s.", head.method, head.path)
            return self._out.refuse(500, "The server failed to look at the request; its log says why.", exchange)

    def receive(self, exchange: Exchange, piece: bytes) -> None:
        if exchange.is_over or exchange.refusal is not None:
            self._drain(exchange, len(piece))
        elif exchange.stream is not None:
            exchange.stream.feed(piece)
        else:
            self._gather(exchange, piece)

    def _gather(self, exchange: Exchange, piece: bytes) -> None:
        plan, listener = exchange.plan, self._listener
        if plan is not None and exchange.received > plan.body_max:
            raise Malformed(413, _too_large(plan))
        if listener.gathered + len(piece) > listener.bounds.bodies_bytes_max:
            raise Malformed(503, "The server holds as many request bodies as it may; try again.")
        exchange.gather(piece)
        self._gathered += len(piece)
        listener.gathered += len(piece)

    def complete(self, exchange: Exchange) -> None:
        if exchange.stream is not None:
            exchange.stream.end()
        if not exchange.keeps:
            self._is_deaf = True
        elif exchange.is_over:
            self.stop_if_idle()

    def _drain(self, exchange: Exchange, size: int) -> None:
        """An unwanted body is read to keep the connection, if it is short."""
        self._discarded += size
        if self._discarded > self._listener.bounds.drain_bytes_max:
            exchange.keeps = False
            self._is_deaf = True
            if exchange.is_over:
                self._leave()

    def _fail(self, status: int, detail: str) -> None:
        """The last word on this connection, after the answers that are owed before it."""
        if self._is_deaf:
            return  # what follows a request that closes the connection is not looked at
        self._is_deaf = True
        exchange = self._reader.exchange
        if exchange is None:
            exchange = Exchange(None, is_old=False, keeps=False, length=None)
            self._queue.append(exchange)
        exchange.keeps = False
        if exchange.is_over:
            self._leave()
        elif exchange.stream is not None:
            exchange.stream.cut(detail)
        elif exchange.refusal is None:
            exchange.refusal = self._out.refuse(status, detail, exchange)

    def _end_input(self) -> None:
        """The client sends no more. What it has asked for in full is still answered."""
        if self._reader.exchange is not None:
            self._fail(400, "The client stopped sending before the end of the body.")
        self._is_deaf = True
        if self._task is None:
            self._advance()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if not self._leaves_at and self._discarded > self._listener.bounds.drain_bytes_max:
            self._pause()

    # Answering.

    def _advance(self) -> None:
        """Answers what needs no handler, and starts the handler of what does."""
        if self._next():
            self._task = self._loop.create_task(self._serve())

    def _next(self) -> bool:
        """True: there is a handler to run. Otherwise nothing can be answered before more is read or sent."""
        while self._out.drained is None and not self._leaves_at and not self.client.is_gone:
            if not self._queue:
                self._go_on_reading()
            if not self._queue:
                if self._has_eof:
                    self._leave()
                return False
            exchange = self._queue[0]
            if not exchange.is_ready:
                self._say_continue(exchange)
                return False
            self._queue.popleft()
            self._gathered -= len(exchange.body)
            if exchange.refusal is not None:
                self._out.write(exchange, exchange.refusal)
                self._end(exchange)
            elif self._has_eof and _waits(exchange):
                self._leave()
            else:
                self._say_continue(exchange)
                self._current = exchange
                return True
        return False

    def _say_continue(self, exchange: Exchange) -> None:
        if exchange.wants_continue:
            exchange.wants_continue = False
            if not exchange.is_complete and not exchange.received:
                self._out.put(writing.CONTINUE)

    async def _serve(self) -> None:
        """Runs handlers, one after the other, while there are requests to answer."""
        listener = self._listener
        try:
            while (exchange := self._current) is not None:
                listener.under_way += 1
                try:
                    await self._answer(exchange)
                finally:
                    listener.under_way -= 1
                    self._current = None
                    self._end(exchange)
                if self._out.drained is not None:
                    await self._out.drained
                if not self._next():
                    break
        finally:
            self._task = None
            if self._is_lost:
                listener.forget(self)
            else:
                self.stop_if_idle()  # the head of its answer may have gone out before the stop, and promised to keep it

    async def _answer(self, exchange: Exchange) -> None:
        plan, head = exchange.plan, exchange.head
        assert plan is not None  # noqa: S101 — what has none is refused
        assert head is not None  # noqa: S101
        try:
            answer = await plan.handle(Request(head, bytes(exchange.body), self.client, exchange.stream))
            if isinstance(answer, Streamed):
                await self._out.write_stream(exchange, answer)
            else:
                self._out.write(exchange, answer)
        except asyncio.CancelledError:
            if self._task is not None and self._task.cancelling():
                self._abort()
                raise
            self._answer_failure(exchange, 500, "The request was given up inside the server.")
        except BodyCut as cut:
            exchange.keeps = False
            self._answer_failure(exchange, 400, str(cut))
        except Exception:
            log.exception("The handler of %s %s failed.", head.method, head.path)
            self._answer_failure(exchange, 500, "The server failed to answer; its log says why.")

    def _answer_failure(self, exchange: Exchange, status: int, detail: str) -> None:
        """Of an answer that is already on its way the client learns by its missing end."""
        if exchange.is_answered:
            self._abort()
        else:
            self._out.write(exchange, self._out.refuse(status, detail, exchange))

    def _end(self, exchange: Exchange) -> None:
        """The answer is written; now the connection is kept or left."""
        exchange.is_over = True
        self._release(exchange)
        self._discarded = 0
        self._progress_at = self._loop.time()
        if not exchange.is_complete and exchange.stream is not None:
            self._discarded = exchange.stream.abandon()
            exchange.stream = None
        if not exchange.keeps:
            self._leave()
        elif self._is_paused:
            self._go_on_reading()

    def _release(self, exchange: Exchange) -> None:
        self._listener.gathered -= len(exchange.body)
        exchange.body = b""

    # Leaving.

    def _turn_away(self) -> None:
        if self._listener.is_overrun:
            self._abort()
            return
        exchange = Exchange(None, is_old=False, keeps=False, length=None)
        full = "The server has as many connections as it may; try again in a moment."
        self._out.write(exchange, self._out.refuse(503, full, None))
        self._reader.stage = HEAD  # its request is on its way
        self._leave()

    def _leave(self) -> None:
        """Says no more. A client that has not finished sending is let finish for a moment: a socket closed with unread
        bytes in it would take our last answer back."""
        if self._leaves_at or self.client.is_gone:
            return
        while self._queue:
            self._release(self._queue.popleft())
        self._rest = b""
        self._is_deaf = True
        self._leaves_at = self._loop.time() + self._listener.bounds.linger_timeout_s
        if self._has_eof or self._reader.stage == BETWEEN:
            self._transport.close()
            return
        self._resume()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def stop_if_idle(self) -> None:
        """When the server stops, a connection on which nothing is asked is closed, others after their answers."""
        is_idle = self._task is None and not self._queue and self._reader.stage == BETWEEN
        if is_idle and self._listener.is_closing:
            self._leave()

    def cut(self) -> asyncio.Task[None] | None:
        """The end, whatever is under way; the task that ends by it."""
        if self._task is not None:
            self._task.cancel()
        self._abort()
        return self._task

    def _abort(self) -> None:
        """Nothing is written any more, though the transport says so a moment later."""
        if not self.client.is_gone:
            self.client.is_gone = True
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Called about once a second: leaves a client that keeps us waiting for too long."""
        is_stuck = self._out.is_stuck(now)
        if self.client.is_gone:
            return
        if is_stuck:
            self._abort()
        elif self._leaves_at:
            self._sweep_leaving(now)
        elif not self._is_paused and not self._is_deaf:
            self._sweep_reading(now)

    def _sweep_leaving(self, now: float) -> None:
        if self._out.unsent:
            self._leaves_at = now + self._listener.bounds.linger_timeout_s
        elif now >= self._leaves_at:
            self._abort()

    def _sweep_reading(self, now: float) -> None:
        bounds, waited_s = self._listener.bounds, now - self._progress_at
        if self._reader.stage == HEAD:
            if waited_s > bounds.head_timeout_s:
                self._time_out(f"The head of a request must arrive within {bounds.head_timeout_s:g} seconds.")
        elif self._reader.exchange is not None:
            if self._has_progress(self._reader.exchange):
                self._progress_at = now
            elif waited_s > bounds.body_timeout_s:
                self._time_out(f"More of the body must arrive within {bounds.body_timeout_s:g} seconds.")
        elif self._task is None and not self._queue and waited_s > bounds.idle_timeout_s:
            self._leave()

    def _has_progress(self, exchange: Exchange) -> bool:
        step = 1 if exchange.stream is not None else self._listener.bounds.body_step_bytes
        if exchange.received - self._progress_bytes < step:
            return False
        self._progress_bytes = exchange.received
        return True

    def _time_out(self, detail: str) -> None:
        self._fail(408, detail)
        if self._task is None:
            self._advance()


def _waits(exchange: Exchange) -> bool:
    return exchange.plan is not None and exchange.plan.waits


def _too_large(plan: Plan) -> str:
    return f"The body of this request may have {plan.body_max} bytes."
