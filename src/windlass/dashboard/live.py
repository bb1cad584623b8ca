"""Live updates for open pages, as server-sent events.

The stream does not send each event. It says at most a few times a second that jobs changed, and in which queues; that
the configuration changed; that the engine is away. The page then requests itself again. The cost for a browser does not
grow with the number of jobs, and the engine is checked once in five seconds for any number of viewers."""

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

BATCH_WINDOW_S = 0.4  # events within it are sent as one message
CHECK_INTERVAL_S = 5.0  # for changes without events: the engine's absence, and actions of admins
CHECK_TIMEOUT_S = 2.0
QUEUES_MAX = 50  # named in one message; a message about more queues names none, which means any queue
EMPTY = b"{}"


class LiveQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=QUEUE_MAX)] = ""


class ChangeSummary(msgspec.Struct):
    """Job changes since the last message. An empty list of queues means any queue."""

    queues: list[str]
    count: int


class EngineCheck(NamedTuple):
    """State of the engine. `last` is the newest audit entry: every change of the configuration is audited."""

    is_away: bool
    last: AuditEntry | None = None


@routes.get("/live", roles=READERS, query=LiveQuery, response_media=sse.EVENT_STREAM, waits=True, is_listed=False)
async def live(context: RequestContext[None, LiveQuery]) -> StreamedResponse:
    """Send changes of jobs and configuration as server-sent events."""
    if context.query.queue:
        context.check_queue(context.query.queue)
    follower = context.service.follow(queue=context.query.queue, shared=True)
    registration = await context.state.page_followers.follow(context.principal, follower)
    return event_stream(_live_events(context, follower), registration)


async def _live_events(
    context: RequestContext[None, LiveQuery], follower: SharedFollower
) -> AsyncGenerator[bytes, None]:
    yield sse.encode_frame("hello", EMPTY)
    before = await _cached_check(context.state)
    clock = asyncio.get_running_loop().time
    checked_at_s = clock()
    while not context.state.stopping.is_set():
        events = await _next_events(context, follower, max(0.0, checked_at_s + CHECK_INTERVAL_S - clock()))
        status = ""
        if clock() - checked_at_s >= CHECK_INTERVAL_S:
            now, checked_at_s = await _cached_check(context.state), clock()
            status = _status_event(before, now)
            before = before if now.is_away else now
        if status == "away":
            yield sse.encode_frame(status, EMPTY)  # without a check of the token, which needs the engine
            continue
        if not await context.state.still_admits(context.request.head, READERS):
            return
        if events:
            yield sse.encode_frame("happened", msgspec.json.encode(await _collect_changes(context, follower, events)))
        if status:
            yield sse.encode_frame(status, EMPTY)


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
    context: RequestContext[None, LiveQuery], follower: SharedFollower, first: Sequence[Event]
) -> ChangeSummary:
    """Sum up the events of BATCH_WINDOW_S. Further events wait in the follower's buffer, at no cost."""
    await context.state.wait_or_stop(asyncio.sleep(BATCH_WINDOW_S), None)
    events = [*first, *_visible_events(context, follower.take_arrived(BUFFER_MAX))]
    queues = {event.queue for event in events}
    means_any = len(queues) > QUEUES_MAX or "" in queues
    # The number of missed events is about all queues: a token for some queues must not see it.
    counts = [1 if context.principal.queues else event.missed or 1 for event in events]
    return ChangeSummary([] if means_any else sorted(queues), sum(counts))


async def _next_events(
    context: RequestContext[None, LiveQuery], follower: SharedFollower, within_s: float
) -> list[Event]:
    """Wait for events that the token may see. Return an empty list when there were none in time."""
    try:
        async with asyncio.timeout(within_s):
            found = _visible_events(context, await context.state.wait_or_stop(follower.next_batch(BUFFER_MAX), []))
            if not found:  # a busy queue that this token may not see must not keep this loop busy
                await context.state.wait_or_stop(asyncio.sleep(context.state.page_followers.pause_s), None)
            return found
    except TimeoutError:
        return []


def _visible_events(context: RequestContext[None, LiveQuery], arrivals: Iterable[Arrival]) -> list[Event]:
    return [
        shared_event.event
        for shared_event, _ in arrivals
        if shared_event.event.kind is EventKind.MISSED or context.principal.may_use(shared_event.event.queue)
    ]
