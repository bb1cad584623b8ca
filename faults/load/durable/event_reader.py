"""A reader of a stream over server-sent events. After a cut it resumes with the id of the last event that it got."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple

import aiohttp
import msgspec

from windlass.core.ids import format_id

from ...history import DurableFacts
from ..context import ClientContext

RETRY_S = 0.2
IDLE_S = 20.0  # longer than the interval of keep-alives
_CUT = (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError)


class Event(NamedTuple):
    id: int
    kind: str
    data: bytes


async def read_events(context: ClientContext, url: str, job_id: bytes) -> None:
    """Read a stream to its end, or until the time of the client is over."""
    reading = asyncio.create_task(_read(context, url, job_id))
    over = asyncio.create_task(context.wait_until_over())
    await asyncio.wait((reading, over), return_when=asyncio.FIRST_COMPLETED)
    for task in (reading, over):
        task.cancel()
    await asyncio.gather(reading, over, return_exceptions=True)


async def _read(context: ClientContext, url: str, job_id: bytes) -> None:
    """Record each entry with the position that the reader had before."""
    after: int | None = 0
    timeout = aiohttp.ClientTimeout(total=None, sock_read=IDLE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while after is not None and not context.is_over:
            try:
                after = await _read_until_cut(context, session, url, job_id, after)
            except _CUT:
                await context.pause(RETRY_S)


async def _read_until_cut(
    context: ClientContext, session: aiohttp.ClientSession, url: str, job_id: bytes, after: int
) -> int | None:
    """Return the last position, or None at the end of the stream."""
    headers = {"accept": "text/event-stream"} | ({"last-event-id": str(after)} if after else {})
    key = format_id(job_id)
    async with session.get(f"{url.rstrip('/')}/api/v1/jobs/{key}/stream", headers=headers) as response:
        if response.status == 204 or 400 <= response.status < 500:
            return None
        response.raise_for_status()
        try:
            async for event in _events(response.content):
                if event.kind == "end":
                    return None
                facts = DurableFacts(job=key, after=after, values=(_text(event),))
                context.recorder.begin("read", durable=facts).record_ok(durable=facts)
                after = event.id
        except _CUT:
            await context.pause(RETRY_S)
    return after


async def _events(lines: AsyncIterable[bytes]) -> AsyncIterator[Event]:
    """Parse events. A cut event is dropped, as in a browser."""
    fields: dict[bytes, bytes] = {}
    async for line in lines:
        if not line.endswith(b"\n"):
            return
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name and not name.startswith(b":"):
            fields[name] = value
        elif not name and b"event" in fields:
            yield Event(int(fields.get(b"id", b"0")), fields[b"event"].decode(), fields.get(b"data", b""))
            fields.clear()


def _text(event: Event) -> str | None:
    return None if event.kind == "attempt" else str(msgspec.json.decode(event.data))
