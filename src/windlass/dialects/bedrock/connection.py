"""One connection: commands strictly one at a time, replies in their order, and no client waited for too long. Bytes are
`wire`'s, who may ask is `admission`'s, and what is answered is the desk's."""

from __future__ import annotations

import asyncio
import logging
import time
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from windlass.core.errors import WindlassError
from windlass.web.app.auth import ANONYMOUS

from .auth import reply_to_error
from .client import PendingReply
from .connection_socket import TOO_MANY_CONNECTIONS, ConnectionSocket
from .deferred_commands import QUEUED
from .status import http_status_reply, status_reply
from .verbs import VERBS, Verb
from .wire import BedrockRequest, ProtocolError, Reply

if TYPE_CHECKING:
    from .listener import BedrockListener

log = logging.getLogger("windlass.bedrock")

DEFAULT_TIMEOUT_S = 110.0  # of a command that names none
PRECISE_TIMEOUT_S = 5.0  # shorter ones get a timer of their own, the others are looked at about once a second
OK = Reply(200, "OK")
UNKNOWN_COMMAND = Reply(430, "Unrecognized command")
INTERNAL_FAILURE = Reply(502, "Internal failure")
HALF_CLOSED = Reply(400, "The client closed its side; jobs are given to connections that are open both ways")
BUSY = Reply(503, "The server holds as many requests as it may; try again")
REQUEST_TIMEOUT = Reply(408, "The request did not arrive in time")


class AbandonReason(Enum):
    """Why a command was given up."""

    TIMED_OUT = auto()
    SERVER_STOPPING = auto()
    HALF_CLOSED = auto()
    CLIENT_GONE = auto()


_ABANDONED_REPLIES = {
    AbandonReason.TIMED_OUT: Reply(555, "Timeout"),
    AbandonReason.SERVER_STOPPING: Reply(303, "Timeout"),
    AbandonReason.HALF_CLOSED: HALF_CLOSED,
    AbandonReason.CLIENT_GONE: INTERNAL_FAILURE,  # nobody reads it
}


class BedrockConnection(ConnectionSocket):
    __slots__ = (
        "_abandoned",
        "_authorization",
        "_connection_jobs",
        "_is_lost",
        "_overdue_at",
        "_pending",
        "_request",
        "_task",
        "_timer",
        "_verb",
    )

    def __init__(self, listener: BedrockListener) -> None:
        super().__init__(listener)
        self._request: BedrockRequest | None = None  # being answered
        self._verb: Verb | None = None  # its
        self._task: asyncio.Future[Any] | None = None  # what its reply waits for
        self._pending: PendingReply | None = None  # the same, where that is no task of ours
        self._timer: asyncio.TimerHandle | None = None
        self._overdue_at = 0.0  # when the command has taken too long; 0: none has begun
        self._abandoned: AbandonReason | None = None
        self._authorization = ""  # the last Authorization: it counts for what follows
        self._connection_jobs: dict[bytes, int] | None = None  # jobs that go back when the connection does
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._attach(transport)
        if self._listener.register(self):
            return
        if self._listener.has_too_many_rejected:
            self._abort()
        else:
            self._reply_and_close(TOO_MANY_CONNECTIONS)  # its request is on its way

    def data_received(self, data: bytes) -> None:
        if self._abort_at:
            return
        listener, reader = self._listener, self._reader
        if not reader.is_mid_request:
            self._progress_at = listener.loop.time()
        listener.buffered_bytes += len(data)
        reader.feed(data)
        if self._task is None:
            self._process_requests()
        if reader.buffered_bytes and not self._abort_at:
            self._check_buffered()

    def _check_buffered(self) -> None:
        listener = self._listener
        if self._task is not None or self._is_blocked:
            if self._reader.buffered_bytes > listener.bounds.pipelined_bytes_max:
                self._pause()
        elif listener.buffered_bytes > listener.bounds.bodies_bytes_max:
            self._reply_and_close(BUSY)

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._abort_at or not self._transport.can_write_eof():  # as with TLS
            return False
        if self._is_waiting:
            self._abandon(AbandonReason.HALF_CLOSED)
        return self._task is not None or self._is_blocked

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = self.client.is_gone = True
        self._drop_input()
        listener = self._listener
        if self._connection_jobs:
            listener.deferred.run(listener.handler.release_jobs(tuple(self._connection_jobs.items())))
            self._connection_jobs = None
        if self._is_waiting or (self._verb is not None and self._verb.is_dropped_on_disconnect):
            self._abandon(AbandonReason.CLIENT_GONE)
        listener.mark_closed(self)
        if self._task is None:
            listener.unregister(self)

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._write_progress_at = self._listener.loop.time()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._listener.loop.call_soon(self._continue)  # asyncio's transport does not bear being closed in here

    def _continue(self) -> None:
        if self._task is None:
            self._process_requests()

    # Answering.

    def _process_requests(self) -> None:
        """Answers what can be answered at once, until there is something that takes its time."""
        while self._task is None and self._next_slow_command():
            request = self._request
            assert request is not None  # noqa: S101 — that is what `_next` says
            self._start_command(request)

    def _start_command(self, request: BedrockRequest) -> None:
        try:
            begun = None if self.client.principal is ANONYMOUS else self._listener.handler.start(request)
        except Exception:
            log.exception("The command %s failed.", request.verb)
            begun = INTERNAL_FAILURE
        if type(begun) is PendingReply:
            self._listener.handlers_running += 1
            self._start_timer(request)
            self._task, self._pending = begun.future, begun
            begun.future.add_done_callback(self._send_pending_reply)
        elif type(begun) is Reply:
            self._request = None
            self._send_reply(request, begun)
        else:
            self._task = self._listener.loop.create_task(self._run_commands())

    def _send_pending_reply(self, future: asyncio.Future[Any]) -> None:
        request, begun = self._request, self._pending
        assert request is not None  # noqa: S101 — it is what was begun
        assert begun is not None  # noqa: S101
        self._pending = self._request = None
        self._listener.handlers_running -= 1
        try:
            reply = begun.reply(future)
        except asyncio.CancelledError:
            reply = _ABANDONED_REPLIES[self._abandoned or AbandonReason.CLIENT_GONE]
        except WindlassError as error:
            reply = reply_to_error(error)
        except Exception:
            log.exception("The command %s failed.", request.verb)
            reply = INTERNAL_FAILURE
        self._reset_command()
        self._send_reply(request, reply)
        self._task = None
        if self._is_lost:
            self._listener.unregister(self)
            return
        if self._reader.is_mid_request or self._is_paused or self._has_eof:
            self._process_requests()
        if self._task is None:
            self.stop_if_idle()

    def _next_slow_command(self) -> bool:
        """Answers what can be answered at once. True: there is a command that takes its time; it is `_request`."""
        while not self._is_blocked and not self._abort_at and not self.client.is_gone:
            request = self._read_request()
            if request is None:
                return False
            verb = VERBS.get(request.verb.lower())
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
        reader, held = self._reader, self._reader.buffered_bytes
        try:
            request = reader.next()
        except ProtocolError as error:
            self._reply_and_close(Reply(error.status, error.reason))
            return None
        self._listener.buffered_bytes -= held - reader.buffered_bytes
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

    async def _run_commands(self) -> None:
        """Runs commands, one after the other, while there are any."""
        listener = self._listener
        try:
            while (request := self._request) is not None:
                listener.handlers_running += 1
                try:
                    reply = await self._run_command(request)
                finally:
                    listener.handlers_running -= 1
                    self._request = None
                self._send_reply(request, reply)
                if not self._next_slow_command():
                    break
        except Exception:
            log.exception("A connection failed.")
            self._abort()
        finally:
            self._task = None
            if self._is_lost:
                listener.unregister(self)
            else:
                self.stop_if_idle()

    async def _run_command(self, request: BedrockRequest) -> Reply:
        self._start_timer(request)
        try:
            if self._abandoned is not None:
                return _ABANDONED_REPLIES[self._abandoned]
            if self.client.principal is ANONYMOUS and (reply := await self._authorize(request)) is not None:
                return reply
            return await self._listener.handler.answer(request, self.client)
        except asyncio.CancelledError:
            if self._abandoned is None:
                self._abort()
                raise
            return _ABANDONED_REPLIES[self._abandoned]
        except WindlassError as error:
            return reply_to_error(error)
        except Exception:
            log.exception("The command %s failed.", request.verb)
            return INTERNAL_FAILURE
        finally:
            self._reset_command()

    async def _authorize(self, request: BedrockRequest) -> Reply | None:
        """Asks the engine who this is; then what needs no desk is answered."""
        listener, verb, client = self._listener, self._verb, self.client
        assert verb is not None  # noqa: S101 — what has none is answered at once
        client.principal = await listener.auth.authorize(request, verb, self._authorization, client.peer)
        return self._answer_locally(request, verb)

    def _start_timer(self, request: BedrockRequest) -> None:
        listener, timeout_s = self._listener, request.timeout_s(DEFAULT_TIMEOUT_S)
        self._overdue_at = listener.loop.time() + timeout_s
        if not self._is_waiting:
            if timeout_s < PRECISE_TIMEOUT_S:
                self._timer = listener.loop.call_later(timeout_s, self._abandon, AbandonReason.TIMED_OUT)
        elif listener.is_stopping and self._abandoned is None:
            self._abandoned = AbandonReason.SERVER_STOPPING

    def _reset_command(self) -> None:
        if self._abandoned is not None:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            self._abandoned = None
        self._overdue_at = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_waiting(self) -> bool:
        """Its command may take as long as it was told to, and is of no use without a client."""
        request, verb = self._request, self._verb
        return request is not None and verb is not None and verb.gives_jobs and request.connection == "wait"

    def _abandon(self, end: AbandonReason) -> None:
        """Of the command; the reply says so."""
        if self._task is None or self._abandoned is not None:
            return
        self._abandoned = end
        if self._overdue_at:  # a task that has not begun would not even end
            self._task.cancel()

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
            for one in reply.settled:
                self._connection_jobs.pop(one, None)
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
        """A client that has closed its side is most often no more there; a job must not go to nobody."""
        if self.client.is_gone or self._has_eof:
            self._listener.deferred.run(self._listener.handler.return_undelivered(request, reply))
            return HALF_CLOSED
        if request.headers.get("lease", "").lower() == "connection":
            self._connection_jobs = (self._connection_jobs or {}) | dict(reply.jobs)
        return reply

    # What the listener calls.

    def stop_waiting(self) -> None:
        """The server stops: who waits for a job is told that there is none."""
        if self._is_waiting:
            self._abandon(AbandonReason.SERVER_STOPPING)

    def stop_if_idle(self) -> None:
        """When the server stops, a connection on which nothing is asked is closed, others after their replies."""
        if self._listener.is_closing and self._task is None and not self._reader.is_mid_request:
            self._close()

    def close_now(self) -> None:
        """The end, whatever is under way."""
        self._abandon(AbandonReason.CLIENT_GONE)
        self._abort()

    def sweep(self, now: float) -> None:
        """Called about once a second: leaves a client that keeps us waiting for too long."""
        if self.client.is_gone:
            return
        if self._is_blocked or self._abort_at:
            self._check_send_timeout(now)
        elif self._task is not None:
            if 0 < self._overdue_at <= now and not self._is_waiting:
                self._abandon(AbandonReason.TIMED_OUT)
        elif self._reader.is_mid_request:
            if now - self._progress_at > self._listener.head_s:
                self._reply_and_close(REQUEST_TIMEOUT)
        elif now - self._progress_at > self._listener.idle_s:
            self._close()
