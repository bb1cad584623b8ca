"""What happens, for pages that are open: not each event, but at most a few times a second that there were some, and
where; that somebody changed something; that the engine is away. A page then asks for itself again. Costs a browser
little, however many jobs flow, and the engine one question in five seconds, however many look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from windlass.core.access.audit import AuditEntry
from windlass.core.errors import WindlassError
from windlass.core.event import Event, EventKind
from windlass.core.validation.bounds import QUEUE_MAX
from windlass.store.events.buffer import ROOM as BUFFER_MAX
from windlass.store.events.shared_follow import Arrival, SharedFollower
from windlass.web.app.app_state import AppState
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import READERS, Routes
from windlass.web.app.sse import event_stream
from windlass.web.listener.messages import StreamedResponse
from windlass.wire import sse

from .response_cache import cached

routes = Routes(tag="Dashboard")

BATCH_WINDOW_S = 0.4  # what happens within it is told together
CHECK_INTERVAL_S = 5.0  # at what no event tells: the engine's absence, and what admins have done
CHECK_TIMEOUT_S = 2.0
QUEUES_MAX = 50  # named in one message; more: all of them are meant
EMPTY = b"{}"


class LiveQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=QUEUE_MAX)] = ""


class ChangeSummary(msgspec.Struct):
    """Which queues; none: any of them."""

    queues: list[str]
    count: int


class EngineCheck(NamedTuple):
    """`last`: what an admin did last; everything that changes how jobs are treated is written down."""

    is_away: bool
    last: AuditEntry | None = None


@routes.get("/live", roles=READERS, query=LiveQuery, response_media=sse.EVENT_STREAM, waits=True, is_listed=False)
async def live(context: RequestContext[None, LiveQuery]) -> StreamedResponse:
    """That something happens, as server-sent events."""
    if context.query.queue:
        context.check_queue(context.query.queue)
    following = context.service.follow(queue=context.query.queue, shared=True)
    counted = await context.state.page_followers.follow(context.principal, following)
    return event_stream(_live_events(context, following), counted)


async def _live_events(context: RequestContext[None, LiveQuery], following: SharedFollower) -> AsyncGenerator[bytes, None]:
    yield sse.encode_frame("hello", EMPTY)
    before = await _cached_check(context.state)
    clock = asyncio.get_running_loop().time
    looked_at_s = clock()
    while not context.state.stopping.is_set():
        events = await _next_events(context, following, max(0.0, looked_at_s + CHECK_INTERVAL_S - clock()))
        news = ""
        if clock() - looked_at_s >= CHECK_INTERVAL_S:
            now, looked_at_s = await _cached_check(context.state), clock()
            news = _status_event(before, now)
            before = before if now.is_away else now
        if news == "away":
            yield sse.encode_frame(news, EMPTY)  # at once: who may follow cannot be looked up now
            continue
        if not await context.state.still_admits(context.request.head, READERS):
            return
        if events:
            yield sse.encode_frame("happened", msgspec.json.encode(await _collect_changes(context, following, events)))
        if news:
            yield sse.encode_frame(news, EMPTY)


def _status_event(before: EngineCheck, now: EngineCheck) -> str:
    if now.is_away:
        return "away"
    return "alive" if before == now else "changed"


async def _cached_check(state: AppState) -> EngineCheck:
    return await cached(state, "live", lambda: _check_engine(state), CHECK_INTERVAL_S - 1)


async def _check_engine(state: AppState) -> EngineCheck:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            entries = (await state.service.audits(most=1)).entries
    except (WindlassError, TimeoutError):
        return EngineCheck(is_away=True)
    return EngineCheck(is_away=False, last=entries[0] if entries else None)


async def _collect_changes(
    context: RequestContext[None, LiveQuery], following: SharedFollower, first: Sequence[Event]
) -> ChangeSummary:
    """With what else happens within GATHERED_S: events wait in the follower's buffer, and cost nothing until then."""
    await context.state.wait_or_stop(asyncio.sleep(BATCH_WINDOW_S), None)
    events = [*first, *_visible_events(context, following.take_arrived(BUFFER_MAX))]
    queues = {event.queue for event in events}
    is_vague = len(queues) > QUEUES_MAX or "" in queues
    counted = [
        1 if context.principal.queues else event.missed or 1 for event in events
    ]  # those missed are of all queues
    return ChangeSummary([] if is_vague else sorted(queues), sum(counted))


async def _next_events(context: RequestContext[None, LiveQuery], following: SharedFollower, within_s: float) -> list[Event]:
    """Empty: nothing has happened that this page may show."""
    try:
        async with asyncio.timeout(within_s):
            found = _visible_events(context, await context.state.wait_or_stop(following.next_batch(BUFFER_MAX), []))
            if not found:  # a busy queue that this token may not see must not keep us busy too
                await context.state.wait_or_stop(asyncio.sleep(context.state.page_followers.pause_s), None)
            return found
    except TimeoutError:
        return []


def _visible_events(context: RequestContext[None, LiveQuery], arrivals: Iterable[Arrival]) -> list[Event]:
    return [
        told.event
        for told, _ in arrivals
        if told.event.kind is EventKind.MISSED or context.principal.may_use(told.event.queue)
    ]
