"""What happens, for pages that are open: not each event, but at most a few times a second that there were some, and
where. A page then asks for itself again. Costs a browser little, however many jobs flow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from msgspec import Meta

from ..core import validation as check
from ..core.event import Event, Happening
from ..store.shared_following import SharedFollowing
from ..web import sse
from ..web.messages import Streamed
from ..web.routing import READS, Ask, Routes

routes = Routes(tag="Dashboard")

GATHERED_S = 0.4  # what happens within it is told together
QUEUES_MAX = 50  # named in one message; more: all of them are meant


class LiveQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=check.QUEUE_MAX)] = ""


class Happened(msgspec.Struct):
    """Which queues; none: any of them."""

    queues: list[str]
    count: int


@routes.get("/live", roles=READS, query=LiveQuery, media=sse.EVENT_STREAM, waits=True, is_listed=False)
async def live(ask: Ask[None, LiveQuery]) -> Streamed:
    """That something happens, as server-sent events."""
    if ask.query.queue:
        ask.may_use(ask.query.queue)
    following = ask.service.follow(queue=ask.query.queue, shared=True)
    await following.__aenter__()
    return sse.streamed(_told(ask, following), following)


async def _told(ask: Ask[None, LiveQuery], following: SharedFollowing) -> AsyncGenerator[bytes, None]:
    yield sse.frame("hello", b"{}")
    while not ask.office.stopping.is_set():
        first = await _next(ask, following, sse.KEEP_ALIVE_S)
        if not await ask.office.still_admits(ask.request.head, READS):
            return
        if first is None:
            yield sse.frame("alive", b"{}")
        elif _is_for(ask, first):
            yield sse.frame("happened", msgspec.json.encode(await _gathered(ask, following, first)))


async def _gathered(ask: Ask[None, LiveQuery], following: SharedFollowing, first: Event) -> Happened:
    queues, count = {first.queue}, 1
    until_s = asyncio.get_running_loop().time() + GATHERED_S
    while (left_s := until_s - asyncio.get_running_loop().time()) > 0 and not ask.office.stopping.is_set():
        event = await _next(ask, following, left_s)
        if event is not None and _is_for(ask, event):
            queues.add(event.queue)
            count += event.missed or 1
    is_vague = len(queues) > QUEUES_MAX or "" in queues
    return Happened([] if is_vague else sorted(queues), count)


async def _next(ask: Ask[None, LiveQuery], following: SharedFollowing, within_s: float) -> Event | None:
    try:
        async with asyncio.timeout(within_s):
            return await ask.office.waiting(following.next(), None)
    except TimeoutError:
        return None


def _is_for(ask: Ask[None, LiveQuery], event: Event) -> bool:
    return event.kind is Happening.MISSED or ask.who.may_use(event.queue)
