"""One connection: commands strictly one at a time, replies in their order, and no client waited for too long. Bytes are
`wire`'s, who may ask is `admission`'s, and what is answered is the desk's."""

from __future__ import annotations

import asyncio
import logging
import time
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from windlass.core.errors import WindlassError
from windlass.web.app.auth import ANYBODY

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

    OVERDUE = auto()
    STOPPED = auto()
    HALF_CLOSED = auto()
    GONE = auto()


_ABANDONED_REPLIES = {
    AbandonReason.OVERDUE: Reply(555, "Timeout"),
    AbandonReason.STOPPED: Reply(303, "Timeout"),
    AbandonReason.HALF_CLOSED: HALF_CLOSED,
    AbandonReason.GONE: INTERNAL_FAILURE,  # nobody reads it
}


class BedrockConnection(ConnectionSocket):
    __slots__ = (
        "_begun",
        "_bound",
        "_end",
        "_is_lost",
        "_overdue_at",
        "_request",
        "_shown",
        "_task",
        "_timer",
        "_verb",
    )

    def __init__(self, listener: BedrockListener) -> None:
        super().__init__(listener)
        self._request: BedrockRequest | None = None  # being answered
        self._verb: Verb | None = None  # its
        self._task: asyncio.Future[Any] | None = None  # what its reply waits for
        self._begun: PendingReply | None = None  # the same, where that is no task of ours
        self._timer: asyncio.TimerHandle | None = None
        self._overdue_at = 0.0  # when the command has taken too long; 0: none has begun
        self._end: AbandonReason | None = None
        self._shown = ""  # the last Authorization: it counts for what follows
        self._bound: dict[bytes, int] | None = None  # jobs that go back when the connection does
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._open(transport)
        if self._listener.welcome(self):
            return
        if self._listener.is_overrun:
            self._abort()
        else:
            self._fail(TOO_MANY_CONNECTIONS)  # its request is on its way

    def data_received(self, data: bytes) -> None:
        if self._leaves_at:
            return
        listener, reader = self._listener, self._reader
        if not reader.is_within:
            self._progress_at = listener.loop.time()
        listener.gathered += len(data)
        reader.feed(data)
        if self._task is None:
            self._advance()
        if reader.held and not self._leaves_at:
            self._check_held()

    def _check_held(self) -> None:
        listener = self._listener
        if self._task is not None or self._is_blocked:
            if self._reader.held > listener.bounds.pipelined_bytes_max:
                self._pause()
        elif listener.gathered > listener.bounds.bodies_bytes_max:
            self._fail(BUSY)

    def eof_received(self) -> bool:
        self._has_eof = True
        if self._leaves_at or not self._transport.can_write_eof():  # as with TLS
            return False
        if self._is_waiting:
            self._give_up(AbandonReason.HALF_CLOSED)
        return self._task is not None or self._is_blocked

    def connection_lost(self, error: Exception | None) -> None:
        self._is_lost = self.client.is_gone = True
        self._drop_input()
        listener = self._listener
        if self._bound:
            listener.later.run(listener.desk.give_back(tuple(self._bound.items())))
            self._bound = None
        if self._is_waiting or (self._verb is not None and self._verb.is_dropped):
            self._give_up(AbandonReason.GONE)
        listener.lose(self)
        if self._task is None:
            listener.forget(self)

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._moved_at = self._listener.loop.time()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._listener.loop.call_soon(self._go_on)  # asyncio's transport does not bear being closed in here

    def _go_on(self) -> None:
        if self._task is None:
            self._advance()

    # Answering.

    def _advance(self) -> None:
        """Answers what can be answered at once, until there is something that takes its time."""
        while self._task is None and self._next():
            request = self._request
            assert request is not None  # noqa: S101 — that is what `_next` says
            self._start(request)

    def _start(self, request: BedrockRequest) -> None:
        try:
            begun = None if self.client.who is ANYBODY else self._listener.desk.begin(request)
        except Exception:
            log.exception("The command %s failed.", request.verb)
            begun = INTERNAL_FAILURE
        if type(begun) is PendingReply:
            self._listener.under_way += 1
            self._begin(request)
            self._task, self._begun = begun.future, begun
            begun.future.add_done_callback(self._answer_begun)
        elif type(begun) is Reply:
            self._request = None
            self._conclude(request, begun)
        else:
            self._task = self._listener.loop.create_task(self._serve())

    def _answer_begun(self, future: asyncio.Future[Any]) -> None:
        request, begun = self._request, self._begun
        assert request is not None  # noqa: S101 — it is what was begun
        assert begun is not None  # noqa: S101
        self._begun = self._request = None
        self._listener.under_way -= 1
        try:
            reply = begun.reply(future)
        except asyncio.CancelledError:
            reply = _ABANDONED_REPLIES[self._end or AbandonReason.GONE]
        except WindlassError as error:
            reply = reply_to_error(error)
        except Exception:
            log.exception("The command %s failed.", request.verb)
            reply = INTERNAL_FAILURE
        self._finish()
        self._conclude(request, reply)
        self._task = None
        if self._is_lost:
            self._listener.forget(self)
            return
        if self._reader.is_within or self._is_paused or self._has_eof:
            self._advance()
        if self._task is None:
            self.stop_if_idle()

    def _next(self) -> bool:
        """Answers what can be answered at once. True: there is a command that takes its time; it is `_request`."""
        while not self._is_blocked and not self._leaves_at and not self.client.is_gone:
            request = self._read()
            if request is None:
                return False
            verb = VERBS.get(request.verb.lower())
            if verb is None:
                self._conclude_unknown(request)
                continue
            reply = self._at_once(request, verb)
            if reply is None:
                self._request, self._verb = request, verb
                return True
            self._conclude(request, reply)
        return False

    def _read(self) -> BedrockRequest | None:
        reader, held = self._reader, self._reader.held
        try:
            request = reader.next()
        except ProtocolError as error:
            self._fail(Reply(error.status, error.reason))
            return None
        self._listener.gathered -= held - reader.held
        if request is None:
            self._resume()
            if self._has_eof:
                self._leave()
        return request

    def _at_once(self, request: BedrockRequest, verb: Verb) -> Reply | None:
        if shown := request.headers.get("authorization", ""):
            self._shown = shown
        self.client.who = ANYBODY
        try:
            who = self._listener.admission.at_once(request, verb, self._shown, self.client.peer)
        except WindlassError as error:
            return reply_to_error(error)
        if who is None:
            return None
        self.client.who = who
        return self._without_desk(request, verb)

    def _without_desk(self, request: BedrockRequest, verb: Verb) -> Reply | None:
        listener = self._listener
        if verb.name == "Ping":
            return OK
        if verb.name == "Status":
            return status_reply(listener.host, listener.under_way + len(listener.later))
        pause_s = request.pause_s(time.time())
        if pause_s > 0 or ("connection" in request.headers and request.connection == "forget"):
            return listener.later.put(request, self.client, pause_s, request.timeout_s(DEFAULT_TIMEOUT_S))
        return None

    async def _serve(self) -> None:
        """Runs commands, one after the other, while there are any."""
        listener = self._listener
        try:
            while (request := self._request) is not None:
                listener.under_way += 1
                try:
                    reply = await self._answer(request)
                finally:
                    listener.under_way -= 1
                    self._request = None
                self._conclude(request, reply)
                if not self._next():
                    break
        except Exception:
            log.exception("A connection failed.")
            self._abort()
        finally:
            self._task = None
            if self._is_lost:
                listener.forget(self)
            else:
                self.stop_if_idle()

    async def _answer(self, request: BedrockRequest) -> Reply:
        self._begin(request)
        try:
            if self._end is not None:
                return _ABANDONED_REPLIES[self._end]
            if self.client.who is ANYBODY and (reply := await self._admit(request)) is not None:
                return reply
            return await self._listener.desk.answer(request, self.client)
        except asyncio.CancelledError:
            if self._end is None:
                self._abort()
                raise
            return _ABANDONED_REPLIES[self._end]
        except WindlassError as error:
            return reply_to_error(error)
        except Exception:
            log.exception("The command %s failed.", request.verb)
            return INTERNAL_FAILURE
        finally:
            self._finish()

    async def _admit(self, request: BedrockRequest) -> Reply | None:
        """Asks the engine who this is; then what needs no desk is answered."""
        listener, verb, client = self._listener, self._verb, self.client
        assert verb is not None  # noqa: S101 — what has none is answered at once
        client.who = await listener.admission.slowly(request, verb, self._shown, client.peer)
        return self._without_desk(request, verb)

    def _begin(self, request: BedrockRequest) -> None:
        listener, timeout_s = self._listener, request.timeout_s(DEFAULT_TIMEOUT_S)
        self._overdue_at = listener.loop.time() + timeout_s
        if not self._is_waiting:
            if timeout_s < PRECISE_TIMEOUT_S:
                self._timer = listener.loop.call_later(timeout_s, self._give_up, AbandonReason.OVERDUE)
        elif listener.is_stopping and self._end is None:
            self._end = AbandonReason.STOPPED

    def _finish(self) -> None:
        if self._end is not None:
            task = asyncio.current_task()
            while task is not None and task.cancelling():
                task.uncancel()
            self._end = None
        self._overdue_at = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _is_waiting(self) -> bool:
        """Its command may take as long as it was told to, and is of no use without a client."""
        request, verb = self._request, self._verb
        return request is not None and verb is not None and verb.takes and request.connection == "wait"

    def _give_up(self, end: AbandonReason) -> None:
        """Of the command; the reply says so."""
        if self._task is None or self._end is not None:
            return
        self._end = end
        if self._overdue_at:  # a task that has not begun would not even end
            self._task.cancel()

    def _conclude_unknown(self, request: BedrockRequest) -> None:
        found = http_status_reply(request)
        if found is None:
            self._conclude(request, UNKNOWN_COMMAND)
        else:
            self._conclude(request, found, "HTTP/1.1 ")

    def _conclude(self, request: BedrockRequest, reply: Reply, protocol: str = "") -> None:
        if reply.jobs:
            reply = self._hand_out(request, reply)
        if reply.settled and self._bound:
            for one in reply.settled:
                self._bound.pop(one, None)
        closes = (
            ("connection" in request.headers and request.connection == "close")
            or reply is QUEUED
            or self._listener.is_stopping
        )
        self._put(reply, closes=closes, protocol=protocol)
        self._progress_at = self._listener.loop.time()
        if closes:
            self._leave()

    def _hand_out(self, request: BedrockRequest, reply: Reply) -> Reply:
        """A client that has closed its side is most often no more there; a job must not go to nobody."""
        if self.client.is_gone or self._has_eof:
            self._listener.later.run(self._listener.desk.undelivered(request, reply))
            return HALF_CLOSED
        if request.headers.get("lease", "").lower() == "connection":
            self._bound = (self._bound or {}) | dict(reply.jobs)
        return reply

    # What the listener calls.

    def stop_waiting(self) -> None:
        """The server stops: who waits for a job is told that there is none."""
        if self._is_waiting:
            self._give_up(AbandonReason.STOPPED)

    def stop_if_idle(self) -> None:
        """When the server stops, a connection on which nothing is asked is closed, others after their replies."""
        if self._listener.is_closing and self._task is None and not self._reader.is_within:
            self._leave()

    def cut(self) -> None:
        """The end, whatever is under way."""
        self._give_up(AbandonReason.GONE)
        self._abort()

    def sweep(self, now: float) -> None:
        """Called about once a second: leaves a client that keeps us waiting for too long."""
        if self.client.is_gone:
            return
        if self._is_blocked or self._leaves_at:
            self._sweep_sending(now)
        elif self._task is not None:
            if 0 < self._overdue_at <= now and not self._is_waiting:
                self._give_up(AbandonReason.OVERDUE)
        elif self._reader.is_within:
            if now - self._progress_at > self._listener.head_s:
                self._fail(REQUEST_TIMEOUT)
        elif now - self._progress_at > self._listener.idle_s:
            self._leave()
