"""Response writer of a connection: whole or streamed responses, no faster than the client reads."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import TYPE_CHECKING

from . import serializer
from .in_flight import InFlightRequest
from .messages import Client, Response, StreamedResponse

if TYPE_CHECKING:
    from .listener import HttpListener

log = logging.getLogger("windlass.web")


class ResponseWriter:
    """Sending side of one connection."""

    __slots__ = ("_client", "_listener", "_moved_at", "_sent", "_transport", "_written", "drained")

    def __init__(self, transport: asyncio.Transport, client: Client, listener: HttpListener) -> None:
        self._transport = transport
        self._client = client
        self._listener = listener
        self.drained: asyncio.Future[None] | None = None  # set while the client reads too slowly
        self._written = 0  # bytes written to the transport
        self._sent = 0  # bytes of these sent to the socket at the last check
        self._moved_at = 0.0  # when `_sent` last changed

    def send(self, data: bytes) -> None:
        if not self._client.is_gone:
            self._written += len(data)
            self._transport.write(data)

    def refuse(self, status: int, detail: str, in_flight: InFlightRequest | None) -> Response:
        try:
            return self._listener.application.refuse(status, detail, in_flight.head if in_flight else None)
        except Exception:
            log.exception("Could not format the error %d (%s); it is sent as plain text.", status, detail)
            return Response(status, detail.encode(), content_type="text/plain; charset=utf-8")

    def write(self, in_flight: InFlightRequest, answer: Response) -> None:
        body = answer.body
        is_simple = in_flight.keep_alive and in_flight.is_complete and not in_flight.is_http10
        connection = serializer.KEEP if is_simple and not self._listener.is_stopping else self._connection(in_flight)
        try:
            head = serializer.head_lines(answer.status, answer.headers, answer.content_type, len(body), connection)
        except Exception:
            log.exception("Could not write the head of a response; it is replaced by a 500.")
            answer = Response(500, body := b"The server failed to write its answer.", content_type="text/plain")
            head = serializer.head_lines(500, (), answer.content_type, len(body), connection)
        in_flight.is_answered = True
        if answer.status in serializer.BODILESS or in_flight.is_head_request:
            body = b""
        self.send(head + body)
        self._count(in_flight, answer.status, len(body))

    def _connection(self, in_flight: InFlightRequest) -> bytes:
        if in_flight.keep_alive and self._listener.is_stopping:
            in_flight.keep_alive = False
        if in_flight.keep_alive and not in_flight.is_complete:
            # The rest of the body precedes the next request: it is discarded if it is short or of unknown length.
            rest = 0 if in_flight.length is None else in_flight.length - in_flight.received
            in_flight.keep_alive = not in_flight.wants_continue and rest <= self._listener.bounds.drain_bytes_max
        if not in_flight.keep_alive:
            return serializer.CLOSE
        return serializer.KEEP_HTTP10 if in_flight.is_http10 else serializer.KEEP

    async def write_stream(self, in_flight: InFlightRequest, answer: StreamedResponse) -> None:
        """Write a streamed response. It is generated to its end even if the client has disconnected."""
        size = 0
        try:
            is_bare = self._begin_stream(in_flight, answer)
            is_chunked = not in_flight.is_http10 and answer.length is None
            if not is_bare:
                async for data in answer.chunks:
                    if data:
                        size += len(data)
                        if answer.length is not None and size > answer.length:
                            break
                        self.send(serializer.chunk(data) if is_chunked else data)
                        if self.drained is not None:
                            await self.drained
                if answer.length not in (None, size):
                    raise ValueError(f"A response announced {answer.length} bytes, but its body has another length.")
                if is_chunked:
                    self.send(serializer.LAST_CHUNK)
        finally:
            if in_flight.is_answered:
                self._count(in_flight, answer.status, size)
            close = getattr(answer.chunks, "aclose", None)
            if close is not None:
                await close()

    def _begin_stream(self, in_flight: InFlightRequest, answer: StreamedResponse) -> bool:
        """Write the head of a streamed response. Return True if it has no body."""
        if in_flight.is_http10 or self._listener.is_stopping:
            in_flight.keep_alive = False  # in HTTP/1.0 the end of the connection is the end of the body
        connection = serializer.KEEP if in_flight.keep_alive else serializer.CLOSE
        is_bodiless = answer.status in serializer.BODILESS
        if not in_flight.is_http10 and not is_bodiless and answer.length is None:
            connection += serializer.CHUNKED
        self.send(serializer.head_lines(answer.status, answer.headers, answer.content_type, answer.length, connection))
        in_flight.is_answered = True
        return is_bodiless or in_flight.is_head_request

    def _count(self, in_flight: InFlightRequest, status: int, size: int) -> None:
        listener = self._listener
        listener.answered[status // 100] += 1
        if listener.on_answer is not None:
            duration_s = perf_counter() - in_flight.started_at if in_flight.started_at else 0.0
            try:
                listener.on_answer(in_flight.head, status, size, duration_s, self._client)
            except Exception:
                log.exception("Could not record a response in the metrics or the access log.")

    def pause(self) -> None:
        self.drained = self._listener.loop.create_future()

    def resume(self) -> None:
        drained, self.drained = self.drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size()

    def is_stuck(self, now: float) -> bool:
        """Whether the client has read nothing for longer than the timeout. Must be called regularly."""
        unsent = self.unsent
        sent = self._written - unsent
        if not unsent or sent != self._sent:
            self._sent = sent
            self._moved_at = now
        return now - self._moved_at > self._listener.bounds.write_timeout_s
