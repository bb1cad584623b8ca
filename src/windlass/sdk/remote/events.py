"""What happens is followed over HTTP, as server-sent events: in an event loop, or without one. A stream that breaks is
taken up again behind the last event."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import msgspec
from msgspec import UNSET

from windlass.core.errors import AlreadyEnded, Refusal, WindlassError
from windlass.core.event import Event, EventKind
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec
from windlass.wire.events import EventShape
from windlass.wire.sse import EVENT_STREAM, KEEP_ALIVE_S, Frame, FrameParser

from .request import Request, Response, failure, get, unanswered
from .retry_policy import Patience
from .store import RemoteStore
from .translation import blob_of

SILENT_S = 3 * KEEP_ALIVE_S  # a stream that says nothing for so long is dead
CHUNK = 64 * 1024
_KINDS = {one.label: one for one in EventKind}
_read = msgspec.json.Decoder(EventShape).decode


class Heard:
    """What a stream has told so far, and where to go on: no I/O."""

    def __init__(self, position: str, queue: str, job: bytes) -> None:
        self.position = position
        self.ready: deque[Event] = deque()
        self.refusal: Refusal | None = None
        self._queue = queue
        self._job = job
        self._frames = FrameParser()
        self._last_seen: EventShape | None = None  # the job as it was, of a stream about one
        self._has_ended = False

    def begin(self) -> tuple[Request, dict[str, str]]:
        """The request of a stream that goes on from here. It has no end, and may be sent as often as needed."""
        self._frames, self._last_seen = FrameParser(), None
        path = f"/jobs/{format_id(self._job)}/events" if self._job else "/events"
        query = {
            "queue": None if self._job else self._queue or None,
            "position": self.position or None,
            "values": "base64",  # JSON would not tell bytes from text
        }
        more = {"Accept": EVENT_STREAM}
        return get(path, None, query=query), more

    def hear(self, chunk: bytes) -> bool:
        """Whether the stream has begun to speak."""
        has_spoken = False
        for frame in self._frames.feed(chunk):
            has_spoken = True
            self._note(frame)
        return has_spoken

    def _note(self, frame: Frame) -> None:
        if not frame.data:
            self.position = frame.position or self.position
            return
        shape = _read(frame.data)
        if shape.kind == "snapshot":
            self._last_seen = shape
            self.position = self.position or frame.position
            return
        self.ready.append(_event(shape, frame.position))
        self._has_ended = self.ready[-1].kind.state in _ENDS or self.ready[-1].kind is EventKind.DELETED

    def ended(self) -> None:
        """The stream is over. Its last word may be missing: then what was seen of the job says it."""
        seen = self._last_seen
        if seen is not None and seen.state is not UNSET and not self._has_ended:
            kind = _KINDS[seen.state]
            if kind.state in _ENDS:
                self._end(kind, seen)
        if self._has_ended:
            self.refusal = AlreadyEnded("The job has ended, and all that happened to it was told.")

    def refused(self, error: Refusal) -> None:
        """Before anything was heard, the caller is told; afterwards a job that is gone has ended well, as bad ends are
        kept for days."""
        if isinstance(error, AlreadyEnded) and self.position and not self._has_ended:
            self._end(EventKind.FINISHED, None)
        else:
            self.refusal = error

    def _end(self, kind: EventKind, seen: EventShape | None) -> None:
        self._has_ended = True
        known = {} if seen is None else {"queue": seen.queue, "name": seen.name, "attempt": seen.attempt}
        self.ready.append(
            Event(kind=kind, job=self._job, at_ms=int(time.time() * 1000), position=self.position, **_given(known))
        )

    def take(self) -> Event:
        event = self.ready.popleft()
        self.position = event.position or self.position
        return event


_ENDS = frozenset(one.state for one in (EventKind.FINISHED, EventKind.FAILED, EventKind.CANCELLED))


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not UNSET}


def _event(shape: EventShape, position: str) -> Event:
    return Event(
        kind=_KINDS[shape.kind],
        job=b"" if shape.job is UNSET else parse_id(shape.job),
        value=_value(shape),
        position=position,
        **_given(
            {name: getattr(shape, name) for name in ("queue", "name", "at_ms", "attempt", "progress", "note", "missed")}
        ),
    )


def _value(shape: EventShape) -> Blob | None:
    if shape.value_base64 is not UNSET:
        return blob_of(UNSET, shape.value_base64, shape.value_codec)
    return None if shape.value is UNSET else Blob(bytes(shape.value), Codec.JSON)


class RemoteFollowing:
    """As a Following of the store."""

    def __init__(self, store: RemoteStore, position: str, queue: str, job: bytes) -> None:
        self._store = store
        self._heard = Heard(position, queue, job)
        self._stack = contextlib.AsyncExitStack()
        self._stack_now = contextlib.ExitStack()
        self._stream: aiohttp.ClientResponse | None = None
        self._stream_now: http.client.HTTPResponse | None = None
        self._is_within = False

    @property
    def position(self) -> str:
        return self._heard.position

    # In an event loop

    async def __aenter__(self) -> RemoteFollowing:
        await self._store.open()
        await self._begin()
        self._is_within = True
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._is_within, self._stream = False, None
        await self._stack.aclose()

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._is_within:
            while True:
                yield await self.next()
        async with self:
            while True:
                yield await self.next()

    async def next(self) -> Event:
        while not self._heard.ready:
            if self._stream is None:
                await self._begin()
            if self._heard.refusal is not None:
                raise self._heard.refusal
            if self._stream is not None and not self._heard.ready:
                await self._hear()
        return self._heard.take()

    async def _begin(self) -> None:
        """Returns when the server has begun to listen: its first words say so."""
        patience = self._store.patience
        while True:
            request, more = self._heard.begin()
            try:
                stream = await self._stack.enter_async_context(
                    self._store.session.answering(request, more, read_s=SILENT_S)
                )
                if stream.status != 200:
                    response = Response(stream.status, stream.content_type, await stream.read())
                    return await self._without_stream(request, response)
                self._stream = stream
                while self._stream is not None and not self._heard.hear(await self._chunk(stream)):
                    pass
                return None
            except WindlassError as error:
                await self._drop()
                pause_s = _pause_s(patience, error, request)
            await asyncio.sleep(pause_s)

    async def _without_stream(self, request: Request, response: Response) -> None:
        await self._drop()
        self._refuse(request, response)

    def _refuse(self, request: Request, response: Response) -> None:
        if response.status == 204:  # all of it was told
            self._heard.refused(AlreadyEnded())
            return
        error = failure(self._store.endpoint, request.path, response)
        if not isinstance(error, AlreadyEnded):
            raise error
        self._heard.refused(error)

    async def _hear(self) -> None:
        assert self._stream is not None  # noqa: S101
        try:
            self._heard.hear(await self._chunk(self._stream))
        except WindlassError:
            await self._drop()  # and taken up again with the next turn

    async def _chunk(self, stream: aiohttp.ClientResponse) -> bytes:
        try:
            chunk = await stream.content.readany()
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise unanswered(self._store.endpoint, error) from error
        if not chunk:
            self._heard.ended()
            await self._drop()
        return chunk

    async def _drop(self) -> None:
        self._stream = None
        stack, self._stack = self._stack, contextlib.AsyncExitStack()
        with contextlib.suppress(WindlassError):
            await stack.aclose()

    # Without one

    def __enter__(self) -> RemoteFollowing:
        self._store.open_sync()
        self._begin_now()
        self._is_within = True
        return self

    def __exit__(self, *_exc: object) -> None:
        self._is_within, self._stream_now = False, None
        self._stack_now.close()

    def __iter__(self) -> Iterator[Event]:
        if self._is_within:
            while True:
                yield self.next_now()
        with self:
            while True:
                yield self.next_now()

    def next_now(self) -> Event:
        while not self._heard.ready:
            if self._stream_now is None:
                self._begin_now()
            if self._heard.refusal is not None:
                raise self._heard.refusal
            if self._stream_now is not None and not self._heard.ready:
                self._hear_now()
        return self._heard.take()

    def _begin_now(self) -> None:
        patience = self._store.patience
        while True:
            request, more = self._heard.begin()
            try:
                stream = self._stack_now.enter_context(
                    self._store.connections.answering(request, more, timeout_s=SILENT_S)
                )
                if stream.status != 200:
                    response = Response(stream.status, stream.getheader("content-type", ""), stream.read())
                    self._drop_now()
                    return self._refuse(request, response)
                self._stream_now = stream
                while self._stream_now is not None and not self._heard.hear(self._chunk_now(stream)):
                    pass
                return None
            except WindlassError as error:
                self._drop_now()
                pause_s = _pause_s(patience, error, request)
            time.sleep(pause_s)

    def _hear_now(self) -> None:
        assert self._stream_now is not None  # noqa: S101
        try:
            self._heard.hear(self._chunk_now(self._stream_now))
        except WindlassError:
            self._drop_now()

    def _chunk_now(self, stream: http.client.HTTPResponse) -> bytes:
        try:
            chunk = stream.read1(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise unanswered(self._store.endpoint, error) from error
        if not chunk:
            self._heard.ended()
            self._drop_now()
        return chunk

    def _drop_now(self) -> None:
        self._stream_now = None
        stack, self._stack_now = self._stack_now, contextlib.ExitStack()
        with contextlib.suppress(WindlassError):
            stack.close()


def _pause_s(patience: Patience, error: WindlassError, request: Request) -> float:
    return patience.pause_s(error, request, time.monotonic())
