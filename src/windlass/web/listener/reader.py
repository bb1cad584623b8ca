"""Receiving side of a connection: read requests into a queue, within the bounds. `connection` answers them."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .deferred import DeferredAnswer
from .in_flight import BodyStream, InFlightRequest
from .messages import Client, Plan, Response, path_for_logs
from .parser import BETWEEN, BODY, HttpProtocolError, RequestParser
from .writer import ResponseWriter

if TYPE_CHECKING:
    from .listener import HttpListener

log = logging.getLogger("windlass.web")

# Received data is parsed in slices, so that a packet of many small requests does not become thousands of objects.
_SLICE = 4096


class RequestReader(asyncio.Protocol):
    """Base class of a connection: input, its limits, and the queue of requests."""

    # Set when the connection is made.
    _transport: asyncio.Transport
    _parser: RequestParser
    _writer: ResponseWriter
    client: Client

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._loop = listener.loop
        self._queue: deque[InFlightRequest] = deque()  # received, no handler started yet
        self._current: InFlightRequest | None = None  # its handler is running
        self._pending: DeferredAnswer[Any, Response | None] | None = None  # answer of the current request
        self._rest = b""  # received but not parsed, because the queue is full
        self._queued_bytes = 0  # of the bodies in the queue
        self._discarded_bytes = 0
        self._is_paused = False  # reading from the transport
        self._ignores_input = False  # further input is discarded
        self._has_eof = False
        self._is_lost = False
        self._progress_at = 0.0  # time of the last progress; timeouts count from it
        self._progress_bytes = 0
        self._closes_at = 0.0  # when a closing connection is cut; 0: it is not closing

    @abstractmethod
    def _advance(self) -> None:
        """Answer requests of the queue."""

    @abstractmethod
    def _close(self) -> None:
        """Close the connection; no handler may be running."""

    @abstractmethod
    def stop_if_idle(self) -> None: ...

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            self._discard(len(data))
            return
        if self._parser.stage == BETWEEN:
            self._progress_at = self._loop.time()
        if self._is_paused or len(data) > _SLICE:
            self._rest = self._rest + data if self._rest else data
            self._read_rest()
        else:
            self._read(data)
            if (len(self._queue) > 1 or self._parser.stage == BODY) and self._is_full():
                self._pause()
        if self._queue and self._pending is None:
            self._advance()

    def _read(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed(data)
        except HttpProtocolError as error:
            self._fail(error.status, error.detail)
        except Exception:
            log.exception("A request could not be parsed because of an unexpected error; it is answered 500.")
            self._fail(500, "The server failed to read the request.")

    def _read_rest(self) -> None:
        """Parse received data up to the limits of the queue. Pause reading if data is left or the queue is full."""
        view = memoryview(self._rest)
        at = 0
        while at < len(view) and not self._ignores_input and not self._is_full():
            self._read(view[at : at + _SLICE])
            at += _SLICE
        self._rest = b"" if self._ignores_input else self._rest[at:]
        if self._rest or (self._is_full() and not self._ignores_input):
            self._pause()
        else:
            self._resume()

    def _is_full(self) -> bool:
        bounds = self._listener.bounds
        receiving = self._parser.receiving
        if receiving is not None and receiving.stream is not None and len(receiving.stream) >= bounds.stream_bytes_max:
            return True
        if self._current is None and not (self._queue and self._queue[0].is_ready):
            return False  # no request can be answered before this one is read to its end
        return len(self._queue) >= bounds.pipelined_max or self._queued_bytes >= bounds.pipelined_bytes_max

    def _pause(self) -> None:
        if not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._progress_at = self._loop.time()
            self._transport.resume_reading()

    def _continue_reading(self) -> None:
        """Resume reading after the queue or a body stream has been emptied."""
        if self._is_paused and not self.client.is_gone and not self._closes_at:
            self._read_rest()
            if self._has_eof and not self._rest and not self._ignores_input:
                self._end_input()

    # Called by the parser.

    def begin(self, in_flight: InFlightRequest) -> None:
        self._queue.append(in_flight)
        plan = self._plan(in_flight)
        if isinstance(plan, Response):
            in_flight.refusal = plan
            if in_flight.length is None:
                in_flight.keep_alive = False  # the answer must not depend on whether a malformed chunk has arrived yet
        elif plan.streams_body:
            in_flight.plan = plan
            in_flight.stream = BodyStream(self._continue_reading, self._loop)
        elif in_flight.length is not None and in_flight.length > plan.body_max:
            in_flight.refusal = self._writer.refuse(413, _too_large(plan), in_flight)
        else:
            in_flight.plan = plan
        self._progress_bytes = 0
        if in_flight.length != 0:
            self._progress_at = self._loop.time()

    def _plan(self, in_flight: InFlightRequest) -> Plan | Response:
        head = in_flight.head
        assert head is not None  # noqa: S101 — the parser always sets it
        if self._listener.on_answer is not None:
            in_flight.started_at = perf_counter()
        try:
            return self._listener.application.plan(head)
        except Exception:
            path = path_for_logs(head.path)
            log.exception("Could not plan %s %s because of an unexpected error; it is answered 500.", head.method, path)
            return self._writer.refuse(500, "The server failed to look at the request; its log says why.", in_flight)

    def receive(self, in_flight: InFlightRequest, piece: bytes) -> None:
        listener, size = self._listener, len(piece)
        if (
            in_flight.received == in_flight.length == size  # the usual case: the whole body in one piece
            and in_flight.plan is not None
            and in_flight.stream is None
            and not in_flight.is_finished
            and listener.buffered_bytes + size <= listener.bounds.bodies_bytes_max
        ):
            in_flight.body = piece
            self._queued_bytes += size
            listener.buffered_bytes += size
        elif in_flight.is_finished or in_flight.refusal is not None:
            self._drain(in_flight, len(piece))
        elif in_flight.stream is not None:
            in_flight.stream.feed(piece)
        else:
            self._append(in_flight, piece)

    def _append(self, in_flight: InFlightRequest, piece: bytes) -> None:
        plan, listener = in_flight.plan, self._listener
        if plan is not None and in_flight.received > plan.body_max:
            raise HttpProtocolError(413, _too_large(plan))
        if listener.buffered_bytes + len(piece) > listener.bounds.bodies_bytes_max:
            raise HttpProtocolError(503, "The server has reached its limit of buffered request bodies; try again.")
        in_flight.append(piece)
        self._queued_bytes += len(piece)
        listener.buffered_bytes += len(piece)

    def complete(self, in_flight: InFlightRequest) -> None:
        if in_flight.stream is not None:
            in_flight.stream.end()
        if not in_flight.keep_alive:
            self._ignores_input = True
        elif in_flight.is_finished:
            self.stop_if_idle()

    def _drain(self, in_flight: InFlightRequest, size: int) -> None:
        """Discard an unwanted body. A long one closes the connection."""
        self._discarded_bytes += size
        if self._discarded_bytes > self._listener.bounds.drain_bytes_max:
            in_flight.keep_alive = False
            self._ignores_input = True
            if in_flight.is_finished:
                self._close()

    def _fail(self, status: int, detail: str) -> None:
        """Queue an error as the last answer of this connection."""
        if self._ignores_input:
            return  # input after a request that closes the connection is not checked
        self._ignores_input = True
        in_flight = self._parser.receiving
        if in_flight is None:
            in_flight = InFlightRequest(None, is_http10=False, keep_alive=False, length=None)
            self._queue.append(in_flight)
        in_flight.keep_alive = False
        if in_flight.is_finished:
            self._close()
        elif in_flight.stream is not None:
            in_flight.stream.abort(detail)
        elif in_flight.refusal is None:
            in_flight.refusal = self._writer.refuse(status, detail, in_flight)

    def _end_input(self) -> None:
        """Handle the end of input: complete requests are still answered."""
        if self._parser.receiving is not None:
            self._fail(400, "The client stopped sending before the end of the body.")
        self._ignores_input = True
        if self._pending is None:
            self._advance()

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if not self._closes_at and self._discarded_bytes > self._listener.bounds.drain_bytes_max:
            self._pause()


def _too_large(plan: Plan) -> str:
    return f"The body of this request may have {plan.body_max} bytes."
