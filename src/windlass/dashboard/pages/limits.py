"""Limits: how many jobs they allow, how full they are, and the jobs that hold or wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.core.errors import Refusal, UnknownLimit
from windlass.core.ids import format_id
from windlass.core.limits.limit import Aggregation, Level, LimitHolders, LimitState, display_key, encode_key
from windlass.core.text import limit_text
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.wire.limits import MATCHER_EXAMPLE, format_matcher

routes = DashboardRoutes()

LEVELS_SHOWN = 50  # keys of one limit, the fullest first
HOLDERS_PER_PAGE = 50


class LimitRow(msgspec.Struct, frozen=True):
    state: LimitState
    allows: str
    matches: str
    levels: list[Level]
    more: int

    @property
    def name(self) -> str:
        return self.state.limit.name

    @property
    def conditions(self) -> str:
        """The matcher, as the form has it."""
        return format_matcher(self.state.limit.matches)

    @property
    def most(self) -> int:
        """Value at which the gauge is full."""
        limit = self.state.limit
        return limit.running if limit.running is not None else limit.burst or limit.rate or 0

    @property
    def running(self) -> int:
        return sum(level.running for level in self.state.levels)

    @property
    def blocked(self) -> int:
        return sum(level.blocked_lanes for level in self.state.levels)

    def most_of(self, level: Level) -> int:
        """Return the value at which the gauge of a key is full. A key may have its own cap."""
        if not self.state.limit.own_caps or level.room is None:
            return self.most
        return level.running + level.room

    def used(self, level: Level) -> int:
        if self.state.limit.running is not None:
            return level.running
        return self.most if level.room is None else max(0, self.most - level.room)


class LimitsView(msgspec.Struct, frozen=True):
    now_ms: int
    rows: list[LimitRow]
    example: str = MATCHER_EXAMPLE


@routes.page("/limits", "limits.html", section="limits")
async def limits(page: PageContext[None]) -> LimitsView:
    """List limits and how full they are."""
    now_ms, found = await asyncio.gather(page.service.now(), page.service.limits())
    page.now_ms = now_ms
    return LimitsView(now_ms, [limit_row(state) for state in found if _is_visible(page, state)])


class LimitQuery(msgspec.Struct, frozen=True, kw_only=True):
    key: str | None = None
    start: int = 0


class HolderRow(msgspec.Struct, frozen=True):
    id: str
    since_ms: int
    name: str
    queue: str
    progress: float


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    now_ms: int
    row: LimitRow
    key: str | None
    own_key: Aggregation | None  # the key, if it can have its own cap
    count: int
    holders: list[HolderRow]
    start: int
    following: int  # 0: this is the last page


@routes.page("/limits/{name}", "limit.html", section="limits", query=LimitQuery)
async def limit(page: PageContext[LimitQuery]) -> LimitView:
    """Show how full a limit is, and the jobs that hold it."""
    query, name = page.query, page.path_values["name"]
    now_ms, found = await asyncio.gather(page.service.now(), page.service.limits())
    page.now_ms = now_ms
    state = next((state for state in found if state.limit.name == name and _is_visible(page, state)), None)
    if state is None:
        raise UnknownLimit(f"There is no limit {name!r}.")
    start = max(0, query.start)
    key = query.key if state.limit.key else None
    held = LimitHolders(count=0, holders=[])
    if not state.limit.key or key is not None:
        held = await page.service.holders(name, key=key, start=start, most=HOLDERS_PER_PAGE)
    following = start + HOLDERS_PER_PAGE if start + len(held.holders) < held.count else 0
    return LimitView(
        now_ms=now_ms,
        row=limit_row(state),
        key=key,
        own_key=await _own_key(page, state, key),
        count=held.count,
        holders=await _holders(page, held),
        start=start,
        following=following,
    )


async def _own_key(page: PageContext[LimitQuery], state: LimitState, key: str | None) -> Aggregation | None:
    """Return the counts and the cap of a key that can have its own cap. Only keys that are text can have one."""
    if key is None or not state.limit.own_caps or encode_key(display_key(key)) != key:
        return None
    return await page.service.aggregation(state.limit.name, display_key(key))


async def _holders(page: PageContext[LimitQuery], held: LimitHolders) -> list[HolderRow]:
    answers = await page.service.job([holder.id for holder in held.holders]) if held.holders else []
    jobs = {answer.job.id: answer.job for answer in answers if not isinstance(answer, Refusal)}
    return [
        HolderRow(format_id(holder.id), holder.since_ms, job.name, job.queue, job.progress)
        for holder in held.holders
        if (job := jobs.get(holder.id)) is not None
    ]


def _is_visible(page: PageContext[Any], state: LimitState) -> bool:
    queues = state.limit.matches.named_queues()
    return not page.principal.queues or (bool(queues) and all(map(page.may_use, queues)))


def limit_row(state: LimitState) -> LimitRow:
    fullest = sorted(state.levels, key=lambda level: (-level.blocked_lanes, -level.running, level.key or ""))
    shown = fullest[:LEVELS_SHOWN]
    return LimitRow(
        state,
        limit_text.describe_cap(state.limit),
        limit_text.describe_matcher(state.limit.matches),
        shown,
        len(fullest) - len(shown),
    )
