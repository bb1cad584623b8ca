"""One connection: runs commands strictly one at a time, replies in order, and limits how long a client may take.

`wire` parses and encodes, `auth` authorizes, and the command router runs the commands."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from windlass.core.errors import WindlassError
from windlass.dialects.bedrock.auth import reply_to_error
from windlass.dialects.bedrock.replies import (
    ABANDONED_REPLIES,
    BUSY,
    INTERNAL_FAILURE,
    OK,
    QUEUED,
    REQUEST_TIMEOUT,
    TOO_MANY_CONNECTIONS,
    UNKNOWN_COMMAND,
    AbandonReason,
)
from windlass.dialects.bedrock.status import http_status_reply, status_reply
from windlass.dialects.bedrock.verbs import Verb
from windlass.dialects.bedrock.wire import BedrockRequest, ProtocolError, Reply
from windlass.web.app.auth import ANONYMOUS
from windlass.web.listener.deferred import DeferredAnswer

from .connection_socket import ConnectionSocket

if TYPE_CHECKING:
    from .listener import BedrockListener

log = logging.getLogger("windlass.bedrock")

HALF_CLOSE_S = 1.0  # after a request, in which the end of a waiting client's input belongs to the request
DEFAULT_TIMEOUT_S = 110.0  # of a command without the header `timeout`
PRECISE_TIMEOUT_S = 5.0  # shorter timeouts have their own timer; `sweep` checks the others once a second


class BedrockConnection(ConnectionSocket):
    __slots__ = (
        "_abandoned",
        "_authorization",
        "_connection_jobs",
        "_is_lost",
        "_overdue_at",
        "_pending",
        "_request",
        "_timer",
        "_verb",
    )

    def __init__(self, listener: BedrockListener) -> None:
        super().__init__(listener)
        self._request: BedrockRequest | None = None  # the current command
        self._verb: Verb | None = None  # of the current command
        self._pending: DeferredAnswer[Any, Reply] | None = None  # reply to the current command
        self._timer: asyncio.TimerHandle | None = None
        self._overdue_at = 0.0  # when the current command times out
        self._abandoned: AbandonReason | None = None
        self._authorization = ""  # the last Authorization header, valid for the requests that follow
        self._connection_jobs: dict[bytes, int] | None = None  # jobs released when the connection is lost
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._attach(transport)
        if self._listener.register(self):
            return
        if self._listener.has_too_many_rejected:
            self._abort()
        else:
            self._reply_and_close(TOO_MANY_CONNECTIONS)  # its request may be on its way

    def data_received(self, data: bytes) -> None:
        if self._abort_at:
            return
        listener, reader = self._listener, self._reader
        if not reader.is_mid_request:
            self._progress_at = listener.loop.time()
        listener.buffered_bytes += len(data)
        reader.feed(data)
        if self._pending is None:
            self._process_requests()
        if reader.buffered_bytes and not self._abort_at:
            self._check_buffered()

    def _check_buffered(self) -> None:
        listener = self._listener
        if self._pending is not None or self._is_blocked:
            if self._reader.buffered_bytes > listener.bounds.pipelined_bytes_max:
                self._pause()
        elif listener.buffered_bytes > listener.bounds.bodies_bytes_max:
            self._reply_and_close(BUSY)

    def eof_received(self) -> bool:
        """Keep the connection until the requests that arrived are answered: the client may still read.

        A client that ends its input while it waits, and not with its request, most likely ends. Its place is for
        others: of a client that is gone the system says nothing until a job is sent to it."""
        self._has_eof = True
        if self._abort_at or not self._transport.can_write_eof():  # TLS cannot
            return False
        if self._is_waiting and self._listener.loop.time() - self._progress_at > HALF_CLOSE_S:
            self._abandon(AbandonReason.HALF_CLOSED)
        return self._pending is not None or self._is_blocked

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = self.client.is_gone = True
        self._drop_input()
        listener = self._listener
        # A server that stops ends all connections, and says nothing about the clients: they report over new ones.
        if self._connection_jobs and not listener.is_stopping:
            listener.deferred.run(listener.handler.release_jobs(tuple(self._connection_jobs.items())))
        self._connection_jobs = None
        for request, reply in self._unconfirmed or ():
            listener.deferred.run(listener.handler.return_undelivered(request, reply))
        if self._is_waiting or (self._verb is not None and self._verb.is_dropped_on_disconnect):
            self._abandon(AbandonReason.CLIENT_GONE)
        listener.mark_closed(self)
        if self._pending is None:
            listener.unregister(self)

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._write_progress_at = self._listener.loop.time()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._listener.loop.call_soon(self._continue)  # closing asyncio's transport in this callback breaks it

    def _continue(self) -> None:
        if self._pending is None:
            self._process_requests()

    # Commands.

    def _process_requests(self) -> None:
        """Answer requests until a command has to be waited for."""
        while self._pending is None and self._next_slow_command():
            request = self._request
            assert request is not None  # noqa: S101 — `_next_slow_command` has set it
            self._start_command(request)

    def _start_command(self, request: BedrockRequest) -> None:
        """Reply now, or when the future of the reply is done."""
        listener = self._listener
        try:
            started = None if self.client.principal is ANONYMOUS else listener.handler.start(request, self.client)
        except Exception:
            log.exception("Command %s failed; its client got 502.", request.verb)
            started = INTERNAL_FAILURE
        if isinstance(started, Reply):
            self._request = None
            self._send_reply(request, started)
            return
        listener.handlers_running += 1
        if started is None:
            self._pending = DeferredAnswer(listener.loop.create_task(self._run_command(request)), asyncio.Future.result)
        else:
            self._pending = started
            started.future.add_done_callback(self._finish_command)
        self._start_timer(request)

    async def _run_command(self, request: BedrockRequest) -> None:
        """Run a command and reply in the same step: a callback of the task would cost a turn of the event loop."""
        outcome: asyncio.Future[Reply] = self._listener.loop.create_future()
        try:
            outcome.set_result(await self._answer(request))
        except BaseException as error:
            outcome.set_exception(error)
        self._finish_command(outcome)

    async def _answer(self, request: BedrockRequest) -> Reply:
        if self.client.principal is ANONYMOUS and (reply := await self._authorize(request)) is not None:
            return reply
        return await self._listener.handler.answer(request, self.client)

    async def _authorize(self, request: BedrockRequest) -> Reply | None:
        """Look up the principal in the engine. Return a reply if the command does not need the router."""
        listener, verb, client = self._listener, self._verb, self.client
        assert verb is not None  # noqa: S101 — unknown commands are answered before
        client.principal = await listener.auth.authorize(request, verb, self._authorization, client.peer)
        return self._answer_locally(request, verb)

    def _finish_command(self, future: asyncio.Future[Any]) -> None:
        """Reply to the current command, whose future is done, and go on with the next."""
        request = self._request
        assert request is not None  # noqa: S101 — `_start_command` has started it
        reply = self._pending_reply(request, future)
        self._request = None
        self._listener.handlers_running -= 1
        self._stop_timer()
        try:
            self._send_reply(request, reply)
            self._pending = None
            if self._reader.is_mid_request or self._is_paused or self._has_eof:
                self._process_requests()
        except Exception:
            log.exception("A connection failed and was closed.")
            self._abort()
            self._pending = None
        if self._is_lost:
            self._listener.unregister(self)
        elif self._pending is None:
            self.stop_if_idle()

    def _pending_reply(self, request: BedrockRequest, future: asyncio.Future[Any]) -> Reply:
        pending = self._pending
        assert pending is not None  # noqa: S101 — `_start_command` has set it
        try:
            return pending.to_answer(future)
        except asyncio.CancelledError:
            if self._abandoned is None:  # cancelled by others, e.g. with the event loop
                self._abort()
            return ABANDONED_REPLIES[self._abandoned or AbandonReason.CLIENT_GONE]
        except WindlassError as error:
            return reply_to_error(error)
        except Exception:
            log.exception("Command %s failed; its client got 502.", request.verb)
            return INTERNAL_FAILURE

    def _next_slow_command(self) -> bool:
        """Answer requests that need no waiting. Return True at the first command that does; it is then `_request`."""
        while not self._is_blocked and not self._abort_at and not self.client.is_gone:
            request = self._read_request()
            if request is None:
                return False
            verb = self._listener.verbs.get(request.verb.lower())
            if verb is None:
                self._reply_to_unknown(request)
                continue
            reply = self._answer_now(request, verb)
            if reply is None:
                self._request, self._verb = request, verb
                return True
            self._send_reply(request, reply)
        return False

    def _read_request(self) -> BedrockRequest | None:
        reader, buffered = self._reader, self._reader.buffered_bytes
        try:
            request = reader.next()
        except ProtocolError as error:
            self._reply_and_close(Reply(error.status, error.reason))
            return None
        self._listener.buffered_bytes -= buffered - reader.buffered_bytes
        if request is None:
            self._resume()
            if self._has_eof:
                self._close()
        return request

    def _answer_now(self, request: BedrockRequest, verb: Verb) -> Reply | None:
        if authorization := request.headers.get("authorization", ""):
            self._authorization = authorization
        self.client.principal = ANONYMOUS
        try:
            principal = self._listener.auth.authorize_now(request, verb, self._authorization, self.client.peer)
        except WindlassError as error:
            return reply_to_error(error)
        if principal is None:
            return None
        self.client.principal = principal
        return self._answer_locally(request, verb)

    def _answer_locally(self, request: BedrockRequest, verb: Verb) -> Reply | None:
        listener = self._listener
        if verb.name == "Ping":
            return OK
        if verb.name == "Status":
            return status_reply(listener.host, listener.handlers_running + len(listener.deferred))
        pause_s = request.pause_s(time.time())
        if pause_s > 0 or ("connection" in request.headers and request.connection == "forget"):
            return listener.deferred.add(request, self.client, pause_s, request.timeout_s(DEFAULT_TIMEOUT_S))
        return None

    def _start_timer(self, request: BedrockRequest) -> None:
        listener, timeout_s = self._listener, request.timeout_s(DEFAULT_TIMEOUT_S)
        self._overdue_at = listener.loop.time() + timeout_s
        if not self._is_waiting:
            if timeout_s < PRECISE_TIMEOUT_S:
                self._timer = listener.loop.call_later(timeout_s, self._abandon, AbandonReason.TIMED_OUT)
        elif listener.is_stopping:
            self._abandon(AbandonReason.SERVER_STOPPING)

    def _stop_timer(self) -> None:
        self._abandoned = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_waiting(self) -> bool:
        """Whether the command waits for a job. It has its own timeout, and is useless without its client."""
        request, verb = self._request, self._verb
        return request is not None and verb is not None and verb.gives_jobs and request.connection == "wait"

    def _abandon(self, reason: AbandonReason) -> None:
        """Cancel the current command. The reply gives the reason."""
        if self._pending is not None and self._abandoned is None:
            self._abandoned = reason
            self._pending.future.cancel()
            self._pending.future.add_done_callback(self._finish_cancelled)

    def _finish_cancelled(self, future: asyncio.Future[Any]) -> None:
        """Finish the command of a task that was cancelled before its first step. All others have finished theirs."""
        if self._pending is not None and self._pending.future is future:
            self._finish_command(future)

    def _reply_to_unknown(self, request: BedrockRequest) -> None:
        found = http_status_reply(request)
        if found is None:
            self._send_reply(request, UNKNOWN_COMMAND)
        else:
            self._send_reply(request, found, "HTTP/1.1 ")

    def _send_reply(self, request: BedrockRequest, reply: Reply, protocol: str = "") -> None:
        if reply.jobs:
            reply = self._deliver_jobs(request, reply)
        if reply.settled and self._connection_jobs:
            for job_id in reply.settled:
                self._connection_jobs.pop(job_id, None)
        closes = (
            ("connection" in request.headers and request.connection == "close")
            or reply is QUEUED
            or self._listener.is_stopping
        )
        self._write_reply(reply, closes=closes, protocol=protocol)
        self._progress_at = self._listener.loop.time()
        if closes:
            self._close()

    def _deliver_jobs(self, request: BedrockRequest, reply: Reply) -> Reply:
        """Deliver the jobs of a reply. A client that has closed its side must acknowledge them (`_end`)."""
        if self.client.is_gone:
            self._listener.deferred.run(self._listener.handler.return_undelivered(request, reply))
            return reply
        if self._has_eof:
            self._unconfirmed = [*(self._unconfirmed or ()), (request, reply)]
        if request.headers.get("lease", "").lower() == "connection":
            self._connection_jobs = (self._connection_jobs or {}) | dict(reply.jobs)
        return reply

    # Calls by the listener.

    def stop_waiting(self) -> None:
        """End a waiting command, because the server stops: its client gets 303 Timeout."""
        if self._is_waiting:
            self._abandon(AbandonReason.SERVER_STOPPING)

    def stop_if_idle(self) -> None:
        """Close the connection if the server stops and no request is pending. Others close after their reply."""
        if self._listener.is_closing and self._pending is None and not self._reader.is_mid_request:
            self._close()

    def close_now(self) -> None:
        """Abandon the current command and close the connection at once."""
        self._abandon(AbandonReason.CLIENT_GONE)
        self._abort()

    def sweep(self, now: float) -> None:
        """Enforce timeouts. Called about once a second."""
        if self.client.is_gone:
            return
        if self._is_blocked or self._abort_at:
            self._check_send_timeout(now)
        elif self._pending is not None:
            if self._is_waiting:
                self._check_half_closed()
            elif self._overdue_at <= now:
                self._abandon(AbandonReason.TIMED_OUT)
        elif self._reader.is_mid_request:
            if now - self._progress_at > self._listener.head_s:
                self._reply_and_close(REQUEST_TIMEOUT)
        elif now - self._progress_at > self._listener.idle_s:
            self._close()
