"""One HTTP connection: run one handler at a time, answer in the order of the requests, enforce timeouts. Input is read
by `reader`, output is written by `writer`; the application decides what is answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, cast

from . import serializer
from .deferred import DeferredAnswer
from .in_flight import InFlightRequest
from .messages import Client, IncompleteBody, Reply, Request, Response, StreamedResponse, path_for_logs
from .parser import BETWEEN, HEAD, RequestParser
from .reader import RequestReader
from .writer import ResponseWriter

log = logging.getLogger("windlass.web")


class HttpConnection(RequestReader):
    """Asyncio protocol of one client connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        is_tls = transport.get_extra_info("sslcontext") is not None
        self.client = Client(peer[0] if isinstance(peer, tuple) else "", is_tls)
        self._writer = ResponseWriter(self._transport, self.client, self._listener)
        self._parser = RequestParser(self._listener.bounds, self.client.peer, self)
        self._progress_at = self._loop.time()
        if not self._listener.register(self):
            self._reject()

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._closes_at or self.client.is_tls:
            return False
        if self._current is not None and _waits(self._current):
            self._abort()
            return False
        if not self._ignores_input and not self._rest:
            self._end_input()
        return self._pending is not None or bool(self._queue)

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = True
        self._ignores_input = True
        self.client.is_gone = True
        self._rest = b""
        receiving = self._parser.receiving
        if receiving is not None and receiving.stream is not None:
            receiving.stream.abort("The client has gone.")
        while self._queue:
            self._release(self._queue.popleft())
        self._writer.resume()
        if self._current is not None and _waits(self._current):
            self._cancel_pending()
        self._listener.mark_closed(self)
        if self._pending is None:
            self._listener.unregister(self)

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()
        if self._pending is None:
            self._advance()

    # Answering.

    def _advance(self) -> None:
        """Answer queued requests until a handler has to be waited for."""
        while self._pending is None and self._select_next():
            in_flight = self._current
            assert in_flight is not None  # noqa: S101 — set by `_select_next`
            self._start(in_flight)

    def _select_next(self) -> bool:
        """Make the next request the current one. Return False if no handler can run before more is read or sent."""
        while self._writer.drained is None and not self._closes_at and not self.client.is_gone:
            if not self._queue:
                if self._has_eof:
                    self._close()
                return False
            in_flight = self._queue[0]
            if not in_flight.is_complete and not in_flight.is_ready:
                self._send_continue(in_flight)
                return False
            self._queue.popleft()
            self._queued_bytes -= len(in_flight.body)
            if in_flight.refusal is not None:
                self._writer.write(in_flight, in_flight.refusal)
                self._end(in_flight)
            elif self._has_eof and _waits(in_flight):
                self._close()
            else:
                if in_flight.wants_continue:
                    self._send_continue(in_flight)
                self._current = in_flight
                return True
        return False

    def _send_continue(self, in_flight: InFlightRequest) -> None:
        if in_flight.wants_continue:
            in_flight.wants_continue = False
            if not in_flight.is_complete and not in_flight.received:
                self._writer.send(serializer.CONTINUE)

    def _start(self, in_flight: InFlightRequest) -> None:
        """Call the handler. Answer now, or when the future of its answer is done."""
        plan, head = in_flight.plan, in_flight.head
        assert plan is not None  # noqa: S101 — a request without a plan has a refusal
        assert head is not None  # noqa: S101
        self._listener.handlers_running += 1
        body = in_flight.body
        request = Request(head, body if type(body) is bytes else bytes(body), self.client, in_flight.stream)
        try:
            result = plan.handle(request)
        except Exception:
            self._answer_exception(in_flight)
        else:
            if not isinstance(result, Response):
                self._wait_for(in_flight, result)
                return
            self._writer.write(in_flight, result)
        self._finish(in_flight)

    def _wait_for(
        self, in_flight: InFlightRequest, result: DeferredAnswer[Any, Response] | Coroutine[Any, Any, Reply]
    ) -> None:
        if isinstance(result, DeferredAnswer):
            self._pending = result
            result.future.add_done_callback(self._answer)
        else:
            self._pending = DeferredAnswer(self._loop.create_task(self._run(in_flight, result)), asyncio.Future.result)

    async def _run(self, in_flight: InFlightRequest, handling: Coroutine[Any, Any, Reply]) -> None:
        """Run a handler and answer in the same step: a callback of the task would cost a turn of the event loop."""
        outcome = self._loop.create_future()
        try:
            answer = await handling
            if isinstance(answer, StreamedResponse):
                await self._writer.write_stream(in_flight, answer)
                outcome.set_result(None)
            else:
                outcome.set_result(answer)
        except BaseException as error:
            outcome.set_exception(error)
        self._answer(outcome)

    def _answer(self, future: asyncio.Future[Any]) -> None:
        """Answer the current request, whose future is done, and go on with the queue."""
        in_flight, pending = self._current, self._pending
        assert in_flight is not None  # noqa: S101 — the pending answer is that of the current request
        assert pending is not None  # noqa: S101
        try:
            answer = pending.to_answer(future)
            if answer is not None:  # None: it was streamed
                self._writer.write(in_flight, answer)
        except asyncio.CancelledError:
            if isinstance(pending.future, asyncio.Task) and pending.future.cancelling():
                self._abort()
            else:
                self._answer_failure(in_flight, 500, "The server cancelled the request.")
        except IncompleteBody as error:
            in_flight.keep_alive = False
            self._answer_failure(in_flight, 400, str(error))
        except Exception:
            self._answer_exception(in_flight)
        self._finish(in_flight)

    def _cancel_pending(self) -> None:
        if self._pending is not None:
            self._pending.future.cancel()
            self._pending.future.add_done_callback(self._answer_cancelled)

    def _answer_cancelled(self, future: asyncio.Future[Any]) -> None:
        """End the request of a task that was cancelled before its first step. All others have ended theirs."""
        if self._pending is not None and self._pending.future is future:
            self._answer(future)

    def _finish(self, in_flight: InFlightRequest) -> None:
        """End the current request after its answer, and go on with the queue."""
        listener = self._listener
        listener.handlers_running -= 1
        self._current = None
        try:
            self._end(in_flight)
            self._pending = None
            if self._queue or self._has_eof:
                self._advance()
        except Exception:
            log.exception("A connection failed unexpectedly; it is closed.")
            self._abort()
            self._pending = None
        if self._is_lost:
            listener.unregister(self)
        elif self._pending is None and listener.is_closing:
            self.stop_if_idle()  # an answer written before the stop did not announce that the connection closes

    def _answer_exception(self, in_flight: InFlightRequest) -> None:
        """Log the exception of a handler and answer 500."""
        head = in_flight.head
        assert head is not None  # noqa: S101 — it has a handler
        path = path_for_logs(head.path)
        log.exception("The handler of %s %s failed unexpectedly; the request is answered 500.", head.method, path)
        self._answer_failure(in_flight, 500, "The server failed to answer; its log says why.")

    def _answer_failure(self, in_flight: InFlightRequest, status: int, detail: str) -> None:
        """Answer with an error. If part of the answer is already sent, cut it: its missing end shows the failure."""
        if in_flight.is_answered:
            self._abort()
        else:
            self._writer.write(in_flight, self._writer.refuse(status, detail, in_flight))

    def _end(self, in_flight: InFlightRequest) -> None:
        """Release the request after its answer, then keep or close the connection."""
        in_flight.is_finished = True
        self._listener.buffered_bytes -= len(in_flight.body)
        in_flight.body = b""
        self._discarded_bytes = 0
        self._progress_at = self._loop.time()
        if not in_flight.is_complete and in_flight.stream is not None:
            self._discarded_bytes = in_flight.stream.abandon()
            in_flight.stream = None
        if not in_flight.keep_alive:
            self._close()
        elif self._is_paused:
            self._continue_reading()

    def _release(self, in_flight: InFlightRequest) -> None:
        self._listener.buffered_bytes -= len(in_flight.body)
        in_flight.body = b""

    # Closing.

    def _reject(self) -> None:
        if self._listener.has_too_many_rejected:
            self._abort()
            return
        in_flight = InFlightRequest(None, is_http10=False, keep_alive=False, length=None)
        full = "The server has reached its limit of connections; try again in a moment."
        self._writer.write(in_flight, self._writer.refuse(503, full, None))
        self._parser.stage = HEAD  # a request will arrive and must be read, see `_close`
        self._close()

    def _close(self) -> None:
        """Close after the last answer. If the client is still sending, read on for a moment: closing a socket with
        unread bytes resets it, and the client could lose the answer."""
        if self._closes_at or self.client.is_gone:
            return
        while self._queue:
            self._release(self._queue.popleft())
        self._rest = b""
        self._ignores_input = True
        self._closes_at = self._loop.time() + self._listener.bounds.linger_timeout_s
        if self._has_eof or self._parser.stage == BETWEEN:
            self._transport.close()
            return
        self._resume()
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def stop_if_idle(self) -> None:
        """Close an idle connection when the server stops; others close after their answers."""
        is_idle = self._pending is None and not self._queue and self._parser.stage == BETWEEN
        if is_idle and self._listener.is_closing:
            self._close()

    def close_now(self) -> None:
        """Cancel the handler and cut the connection."""
        self._cancel_pending()
        self._abort()

    def _abort(self) -> None:
        """Cut the connection. Nothing more is written, although the transport reports the loss a moment later."""
        if not self.client.is_gone:
            self.client.is_gone = True
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Close the connection if the client has exceeded a timeout. Called about once a second."""
        is_stuck = self._writer.is_stuck(now)
        if self.client.is_gone:
            return
        if is_stuck:
            self._abort()
        elif self._closes_at:
            self._sweep_closing(now)
        elif self._ignores_input:
            if self._pending is None and not self._queue:
                self._close()
        elif not self._is_paused:
            self._sweep_reading(now)

    def _sweep_closing(self, now: float) -> None:
        if self._writer.unsent:
            self._closes_at = now + self._listener.bounds.linger_timeout_s
        elif now >= self._closes_at:
            self._abort()

    def _sweep_reading(self, now: float) -> None:
        bounds, waited_s = self._listener.bounds, now - self._progress_at
        if self._parser.stage == HEAD:
            if waited_s > bounds.head_timeout_s:
                self._time_out(f"The head of a request must arrive within {bounds.head_timeout_s:g} seconds.")
        elif self._parser.receiving is not None:
            if self._has_progress(self._parser.receiving):
                self._progress_at = now
            elif waited_s > bounds.body_timeout_s:
                self._time_out(f"More of the body must arrive within {bounds.body_timeout_s:g} seconds.")
        elif self._pending is None and not self._queue and waited_s > self._listener.idle_s:
            self._close()

    def _has_progress(self, in_flight: InFlightRequest) -> bool:
        step = 1 if in_flight.stream is not None else self._listener.bounds.body_step_bytes
        if in_flight.received - self._progress_bytes < step:
            return False
        self._progress_bytes = in_flight.received
        return True

    def _time_out(self, detail: str) -> None:
        self._fail(408, detail)
        if self._pending is None:
            self._advance()


def _waits(in_flight: InFlightRequest) -> bool:
    return in_flight.plan is not None and in_flight.plan.waits
