"""One connection: requests in, answers out in their order, one handler at a time, and no client waited for too long.
What comes in is `intake`'s, what goes out is written by `outgoing`; what is answered is the application's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any, cast

from . import serializer
from .in_flight import InFlightRequest
from .messages import IncompleteBody, Client, DeferredReply, Reply, Request, Response, StreamedResponse
from .parser import BETWEEN, HEAD, RequestParser
from .reader import RequestReader
from .writer import ResponseWriter

log = logging.getLogger("windlass.web")

_GIVEN_UP = "The request was given up inside the server."


class HttpConnection(RequestReader):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        is_tls = transport.get_extra_info("sslcontext") is not None
        self.client = Client(peer[0] if isinstance(peer, tuple) else "", is_tls)
        self._out = ResponseWriter(self._transport, self.client, self._listener)
        self._reader = RequestParser(self._listener.bounds, self.client.peer, self)
        self._progress_at = self._loop.time()
        if not self._listener.welcome(self):
            self._turn_away()

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
        if self._task is None:
            self._advance()

    # Answering.

    def _advance(self) -> None:
        """Answers what can be answered at once, until there is something that takes its time."""
        while self._task is None and self._next():
            exchange = self._current
            assert exchange is not None  # noqa: S101 — that is what `_next` says
            self._begin(exchange)

    def _next(self) -> bool:
        """True: there is a handler to run. Otherwise nothing can be answered before more is read or sent."""
        while self._out.drained is None and not self._leaves_at and not self.client.is_gone:
            if not self._queue:
                if self._has_eof:
                    self._leave()
                return False
            exchange = self._queue[0]
            if not exchange.is_complete and not exchange.is_ready:
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
                if exchange.wants_continue:
                    self._say_continue(exchange)
                self._current = exchange
                return True
        return False

    def _say_continue(self, exchange: InFlightRequest) -> None:
        if exchange.wants_continue:
            exchange.wants_continue = False
            if not exchange.is_complete and not exchange.received:
                self._out.put(serializer.CONTINUE)

    def _begin(self, exchange: InFlightRequest) -> None:
        """Runs its handler, or at least begins to."""
        plan, head = exchange.plan, exchange.head
        assert plan is not None  # noqa: S101 — what has none is refused
        assert head is not None  # noqa: S101
        self._listener.under_way += 1
        body = exchange.body
        request = Request(head, body if type(body) is bytes else bytes(body), self.client, exchange.stream)
        try:
            begun = plan.handle(request)
        except Exception:
            self._explain(exchange)
        else:
            if type(begun) is DeferredReply:
                self._task, self._deferred = begun.future, begun
                begun.future.add_done_callback(self._answer_deferred)
                return
            if type(begun) is not Response:
                self._task = self._loop.create_task(self._serve(exchange, begun))  # type: ignore[arg-type]
                return
            self._out.write(exchange, begun)
        self._finish(exchange)

    def _answer_deferred(self, future: asyncio.Future[Any]) -> None:
        exchange, deferred = self._current, self._deferred
        assert exchange is not None  # noqa: S101 — it is what was deferred
        assert deferred is not None  # noqa: S101
        self._deferred = None
        try:
            self._out.write(exchange, deferred.reply(future))
        except asyncio.CancelledError:
            self._answer_failure(exchange, 500, _GIVEN_UP)
        except Exception:
            self._explain(exchange)
        self._finish(exchange)

    async def _serve(self, exchange: InFlightRequest, handling: Awaitable[Reply]) -> None:
        try:
            await self._answer(exchange, handling)
        finally:
            self._finish(exchange)

    def _finish(self, exchange: InFlightRequest) -> None:
        """Nothing more is to be said about it; what waits behind it is next."""
        listener = self._listener
        listener.under_way -= 1
        self._current = None
        try:
            self._end(exchange)
            self._task = None
            if self._queue or self._has_eof:
                self._advance()
        except Exception:
            log.exception("A connection failed.")
            self._abort()
            self._task = None
        if self._is_lost:
            listener.forget(self)
        elif self._task is None and listener.is_closing:
            self.stop_if_idle()  # the head of its answer may have gone out before the stop, and promised to keep it

    async def _answer(self, exchange: InFlightRequest, handling: Awaitable[Reply]) -> None:
        try:
            answer = await handling
            if isinstance(answer, StreamedResponse):
                await self._out.write_stream(exchange, answer)
            else:
                self._out.write(exchange, answer)
        except asyncio.CancelledError:
            if isinstance(self._task, asyncio.Task) and self._task.cancelling():
                self._abort()
                raise
            self._answer_failure(exchange, 500, _GIVEN_UP)
        except IncompleteBody as cut:
            exchange.keeps = False
            self._answer_failure(exchange, 400, str(cut))
        except Exception:
            self._explain(exchange)

    def _explain(self, exchange: InFlightRequest) -> None:
        """What its handler raised."""
        head = exchange.head
        assert head is not None  # noqa: S101 — it has a handler
        log.exception("The handler of %s %s failed.", head.method, head.path)
        self._answer_failure(exchange, 500, "The server failed to answer; its log says why.")

    def _answer_failure(self, exchange: InFlightRequest, status: int, detail: str) -> None:
        """Of an answer that is already on its way the client learns by its missing end."""
        if exchange.is_answered:
            self._abort()
        else:
            self._out.write(exchange, self._out.refuse(status, detail, exchange))

    def _end(self, exchange: InFlightRequest) -> None:
        """The answer is written; now the connection is kept or left."""
        exchange.is_over = True
        self._listener.gathered -= len(exchange.body)
        exchange.body = b""
        self._discarded = 0
        self._progress_at = self._loop.time()
        if not exchange.is_complete and exchange.stream is not None:
            self._discarded = exchange.stream.abandon()
            exchange.stream = None
        if not exchange.keeps:
            self._leave()
        elif self._is_paused:
            self._go_on_reading()

    def _release(self, exchange: InFlightRequest) -> None:
        self._listener.gathered -= len(exchange.body)
        exchange.body = b""

    # Leaving.

    def _turn_away(self) -> None:
        if self._listener.is_overrun:
            self._abort()
            return
        exchange = InFlightRequest(None, is_old=False, keeps=False, length=None)
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

    def cut(self) -> None:
        """The end, whatever is under way."""
        if self._task is not None:
            self._task.cancel()
        self._abort()

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
        elif self._is_deaf:
            if self._task is None and not self._queue:
                self._leave()
        elif not self._is_paused:
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
        elif self._task is None and not self._queue and waited_s > self._listener.idle_s:
            self._leave()

    def _has_progress(self, exchange: InFlightRequest) -> bool:
        step = 1 if exchange.stream is not None else self._listener.bounds.body_step_bytes
        if exchange.received - self._progress_bytes < step:
            return False
        self._progress_bytes = exchange.received
        return True

    def _time_out(self, detail: str) -> None:
        self._fail(408, detail)
        if self._task is None:
            self._advance()


def _waits(exchange: InFlightRequest) -> bool:
    return exchange.plan is not None and exchange.plan.waits
