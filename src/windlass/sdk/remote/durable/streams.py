"""Streams of jobs over HTTP. All followers of a stream share one connection, which is resumed after the last entry."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import aiohttp
import msgspec

from windlass.core.durable import StreamItem, StreamPage, StreamWrite
from windlass.core.errors import AlreadyEnded, WindlassError
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec
from windlass.core.states import State
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import ApiRequest, answer_lost, error_of, get, reading_response
from windlass.sdk.remote.translation import blob_of, state_of, value_fields
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.durable.streams import (
    EncodedValueShape,
    StreamEndShape,
    StreamItemShape,
    StreamPageShape,
    StreamWriteItem,
    StreamWrittenShape,
)
from windlass.wire.sse import EVENT_STREAM, KEEP_ALIVE_S, EventFrame, FrameParser

SILENT_S = 3 * KEEP_ALIVE_S  # a stream that is silent for longer is dead
_decode_item = msgspec.json.Decoder(StreamItemShape).decode
_decode_end = msgspec.json.Decoder(StreamEndShape).decode


class RemoteStreamOperations(RemoteFacet):
    def write_stream(self, requests: Sequence[StreamWrite]) -> BatchOperation[int]:
        super().write_stream(requests)
        items = [_write_item(request) for request in requests]
        return self._batch("write-stream", items, StreamWrittenShape, lambda written: written.position)

    def read_stream(self, job_id: bytes, *, after: int = 0, most: int = 500) -> Operation[StreamPage]:
        super().read_stream(job_id, after=after, most=most)
        query = {"after": after, "most": most}
        return self._single(get(f"/jobs/{format_id(job_id)}/stream", StreamPageShape, query=query), _page_of)

    async def _stream_pages(self, job_id: bytes, after: int) -> AsyncGenerator[StreamPage, None]:
        await self.remote.open()
        retries = self.remote.new_retry_policy()
        while True:
            query = {"after": after, "data": "entry"}
            request = get(f"/jobs/{format_id(job_id)}/stream", None, query=query)
            try:
                async with aclosing(self._receive(request)) as pages:
                    async for page in pages:
                        retries, after = self.remote.new_retry_policy(), page.last or after
                        yield page
                        if page.is_ended:
                            return
            except WindlassError as error:
                pause_s = retries.pause_s(error, request, time.monotonic())
                await asyncio.sleep(pause_s)

    async def _receive(self, request: ApiRequest) -> AsyncGenerator[StreamPage, None]:
        """Yield the entries of each chunk. The connection ends when the server stops, or with the last entry."""
        address, parser = self.remote.endpoint, FrameParser()
        async with self.remote.session.open_response(request, {"Accept": EVENT_STREAM}, read_s=SILENT_S) as response:
            if response.status != 200:
                raise error_of(address, request.path, await self.remote.session.read_response(response))
            while chunk := await _read_chunk(response):
                with reading_response(address, request.path):
                    pages = list(_pages_of(parser.feed(chunk)))
                for page in pages:
                    yield page
        raise answer_lost(address, "it has closed the connection")


async def _read_chunk(response: aiohttp.ClientResponse) -> bytes:
    chunk: bytes = await response.content.readany()
    return chunk


def _pages_of(frames: Iterable[EventFrame]) -> Iterable[StreamPage]:
    """Join entries into one page; the end of the job is a page of its own."""
    items: list[StreamItem] = []
    end: StreamPage | None = None
    for frame in frames:
        if frame.kind == "end":
            end = _end_page(_decode_end(frame.data))
        elif frame.data:
            items.append(_item_of(_decode_item(frame.data)))
    yield StreamPage(items, False, items[-1].position if items else 0)
    if end is not None:
        yield end


def _end_page(end: StreamEndShape) -> StreamPage:
    if end.state == "deleted":
        raise AlreadyEnded("The job was deleted while its stream was read.")
    return StreamPage([], True, 0, state_of(end.state))


def _item_of(shape: StreamItemShape) -> StreamItem:
    return StreamItem(
        position=shape.position,
        at_ms=shape.at_ms,
        attempt=shape.attempt,
        value=blob_of(shape.value, shape.value_base64, shape.value_codec),
    )


def _page_of(shape: StreamPageShape) -> StreamPage:
    return StreamPage([_item_of(item) for item in shape.items], shape.is_ended, shape.last, State[shape.state.upper()])


def _write_item(request: StreamWrite) -> StreamWriteItem:
    return StreamWriteItem(
        id=format_id(request.id),
        token=request.token,
        sequence=request.sequence,
        outside=request.outside,
        **_value_fields(request.values),
    )


def _value_fields(values: Sequence[Blob]) -> dict[str, Any]:
    """Return plain values if all of them can be, else all as base64."""
    plain = [value_fields("value", blob).get("value") for blob in values]
    if None not in plain:
        return {"values": tuple(plain)}
    return {"encoded": tuple(map(_encode, values))}


def _encode(blob: Blob) -> EncodedValueShape:
    names = {Codec.JSON: "json", Codec.MSGPACK: "msgpack", Codec.RAW: "raw"}
    return EncodedValueShape(base64=base64.b64encode(blob.data).decode(), codec=names[blob.codec])  # type: ignore[arg-type]
