"""Event streams over HTTP, with and without an event loop. A broken stream is resumed after the last event."""

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

from windlass.core.errors import AlreadyEnded, BadInput, Refusal, WindlassError
from windlass.core.event import Event, EventKind
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec
from windlass.wire.events import EventShape
from windlass.wire.sse import EVENT_STREAM, KEEP_ALIVE_S, EventFrame, FrameParser

from .request import SHAPE_ERRORS, ApiRequest, ApiResponse, NoAnswer, answer_lost, error_of, get, wrong_shape
from .store import RemoteStore
from .translation import blob_of

SILENT_S = 3 * KEEP_ALIVE_S  # a stream that is silent for longer is dead
CHUNK_BYTES = 64 * 1024
_KINDS = {kind.label: kind for kind in EventKind}
_ENDED_STATES = frozenset(kind.state for kind in (EventKind.FINISHED, EventKind.FAILED, EventKind.CANCELLED))
_decode_event = msgspec.json.Decoder(EventShape).decode


class EventStreamState:
    """Parsed events of a stream, and the position to resume from. No I/O."""

    def __init__(self, position: str, queue: str, job: bytes) -> None:
        self.position = position
        self.ready: deque[Event] = deque()
        self.refusal: Refusal | None = None
        self._queue = queue
        self._job = job
        self._parser = FrameParser()
        self._snapshot: EventShape | None = None  # for the stream of one job
        self._has_ended = False

    def restart(self) -> tuple[ApiRequest, dict[str, str]]:
        """Return the request, with extra headers, of a stream that resumes here. It can be sent as often as needed."""
        self._parser, self._snapshot = FrameParser(), None
        path = f"/jobs/{format_id(self._job)}/events" if self._job else "/events"
        query = {
            "queue": None if self._job else self._queue or None,
            "position": self.position or None,
            "values": "base64",  # JSON cannot tell bytes from text
        }
        return get(path, None, query=query), {"Accept": EVENT_STREAM}

    def feed(self, chunk: bytes) -> bool:
        """Parse a chunk. Returns whether it completed a frame."""
        has_frame = False
        for frame in self._parser.feed(chunk):
            has_frame = True
            self._add(frame)
        return has_frame

    def _add(self, frame: EventFrame) -> None:
        if not frame.data:
            self.position = frame.position or self.position
            return
        shape = _decode_event(frame.data)
        if shape.kind == "snapshot":
            self._snapshot = shape
            self.position = self.position or frame.position
            return
        self.ready.append(_event(shape, frame.position))
        self._has_ended = self.ready[-1].kind.state in _ENDED_STATES or self.ready[-1].kind is EventKind.DELETED

    def set_ended(self) -> None:
        """Handle the end of the stream. If the event of the job's end is missing, derive it from the snapshot."""
        snapshot = self._snapshot
        if snapshot is not None and snapshot.state is not UNSET and not self._has_ended:
            kind = _KINDS[snapshot.state]
            if kind.state in _ENDED_STATES:
                self._add_end(kind, snapshot)
        if self._has_ended:
            self.refusal = AlreadyEnded("The job has ended; there are no more events.")

    def set_refused(self, error: Refusal) -> None:
        """Handle a refusal to resume. The caller gets it after the events that have arrived."""
        self.refusal = error

    def _add_end(self, kind: EventKind, snapshot: EventShape) -> None:
        self._has_ended = True
        known = {"queue": snapshot.queue, "name": snapshot.name, "attempt": snapshot.attempt}
        self.ready.append(
            Event(
                kind=kind, job=self._job, at_ms=int(time.time() * 1000), position=self.position, **_without_unset(known)
            )
        )

    def pop(self) -> Event:
        event = self.ready.popleft()
        self.position = event.position or self.position
        return event


def _without_unset(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not UNSET}


def _event(shape: EventShape, position: str) -> Event:
    return Event(
        kind=_KINDS[shape.kind],
        job=b"" if shape.job is UNSET else parse_id(shape.job),
        value=_value(shape),
        position=position,
        **_without_unset(
            {name: getattr(shape, name) for name in ("queue", "name", "at_ms", "attempt", "progress", "note", "missed")}
        ),
    )


def _value(shape: EventShape) -> Blob | None:
    if shape.value_base64 is not UNSET:
        return blob_of(UNSET, shape.value_base64, shape.value_codec)
    return None if shape.value is UNSET else Blob(bytes(shape.value), Codec.JSON)


class RemoteEventStream:
    """Endless iterator over events, like the one of the store."""

    def __init__(self, store: RemoteStore, position: str, queue: str, job: bytes) -> None:
        self._store = store
        self._state = EventStreamState(position, queue, job)
        self._stack = contextlib.AsyncExitStack()
        self._stack_sync = contextlib.ExitStack()
        self._stream: aiohttp.ClientResponse | None = None
        self._stream_sync: http.client.HTTPResponse | None = None
        self._is_open = False

    @property
    def position(self) -> str:
        return self._state.position

    async def __aenter__(self) -> RemoteEventStream:
        await self._store.open()
        await self._connect()
        self._is_open = True
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._is_open, self._stream = False, None
        await self._stack.aclose()

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._is_open:
            while True:
                yield await self.next()
        async with self:
            while True:
                yield await self.next()

    async def next(self) -> Event:
        while not self._state.ready:
            if self._stream is None:
                await self._connect()
            if self._state.refusal is not None:
                raise self._state.refusal
            if self._stream is not None and not self._state.ready:
                await self._read()
        return self._state.pop()

    def _feed(self, chunk: bytes) -> bool:
        try:
            return self._state.feed(chunk)
        except (*SHAPE_ERRORS, BadInput) as error:
            raise wrong_shape(self._store.endpoint, "/events", error) from error

    async def _connect(self) -> None:
        """Open the stream. Returns after the first frame: from then on the server follows the events."""
        retries = self._store.new_retry_policy()
        while True:
            request, headers = self._state.restart()
            try:
                stream = await self._stack.enter_async_context(
                    self._store.session.open_response(request, headers, read_s=SILENT_S)
                )
                if stream.status != 200:
                    response = await self._store.session.read_response(stream)
                    await self._close_stream()
                    return self._handle_refusal(request, response)
                self._stream = stream
                while self._stream is not None and not self._feed(await self._read_chunk(stream)):
                    pass
                return None
            except WindlassError as error:
                await self._close_stream()
                pause_s = retries.pause_s(error, request, time.monotonic())
            await asyncio.sleep(pause_s)

    def _handle_refusal(self, request: ApiRequest, response: ApiResponse) -> None:
        if response.status == 204:  # there are no more events
            self._state.set_refused(AlreadyEnded())
            return
        error = error_of(self._store.endpoint, request.path, response)
        if not isinstance(error, AlreadyEnded):
            raise error
        self._state.set_refused(error)

    async def _read(self) -> None:
        assert self._stream is not None  # noqa: S101
        try:
            self._feed(await self._read_chunk(self._stream))
        except NoAnswer:
            await self._close_stream()  # `next` opens it again
        except WindlassError:
            await self._close_stream()
            raise

    async def _read_chunk(self, stream: aiohttp.ClientResponse) -> bytes:
        try:
            chunk = await stream.content.readany()
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise answer_lost(self._store.endpoint, error) from error
        if not chunk:
            self._state.set_ended()
            await self._close_stream()
        return chunk

    async def _close_stream(self) -> None:
        self._stream = None
        stack, self._stack = self._stack, contextlib.AsyncExitStack()
        with contextlib.suppress(WindlassError):
            await stack.aclose()

    def __enter__(self) -> RemoteEventStream:
        self._store.open_sync()
        self._connect_sync()
        self._is_open = True
        return self

    def __exit__(self, *_exc: object) -> None:
        self._is_open, self._stream_sync = False, None
        self._stack_sync.close()

    def __iter__(self) -> Iterator[Event]:
        if self._is_open:
            while True:
                yield self.next_sync()
        with self:
            while True:
                yield self.next_sync()

    def next_sync(self) -> Event:
        while not self._state.ready:
            if self._stream_sync is None:
                self._connect_sync()
            if self._state.refusal is not None:
                raise self._state.refusal
            if self._stream_sync is not None and not self._state.ready:
                self._read_sync()
        return self._state.pop()

    def _connect_sync(self) -> None:
        retries = self._store.new_retry_policy()
        while True:
            request, headers = self._state.restart()
            try:
                stream = self._stack_sync.enter_context(
                    self._store.sync_session.open_response(request, headers, timeout_s=SILENT_S)
                )
                if stream.status != 200:
                    response = self._store.sync_session.read_response(stream, timeout_s=request.timeout_s)
                    self._close_stream_sync()
                    return self._handle_refusal(request, response)
                self._stream_sync = stream
                while self._stream_sync is not None and not self._feed(self._read_chunk_sync(stream)):
                    pass
                return None
            except WindlassError as error:
                self._close_stream_sync()
                pause_s = retries.pause_s(error, request, time.monotonic())
            time.sleep(pause_s)

    def _read_sync(self) -> None:
        assert self._stream_sync is not None  # noqa: S101
        try:
            self._feed(self._read_chunk_sync(self._stream_sync))
        except NoAnswer:
            self._close_stream_sync()
        except WindlassError:
            self._close_stream_sync()
            raise

    def _read_chunk_sync(self, stream: http.client.HTTPResponse) -> bytes:
        try:
            chunk = stream.read1(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise answer_lost(self._store.endpoint, error) from error
        if not chunk:
            self._state.set_ended()
            self._close_stream_sync()
        return chunk

    def _close_stream_sync(self) -> None:
        self._stream_sync = None
        stack, self._stack_sync = self._stack_sync, contextlib.ExitStack()
        with contextlib.suppress(WindlassError):
            stack.close()
