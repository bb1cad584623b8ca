"""How many jobs may run at once or start per time, how full that is, and what is held back."""

from __future__ import annotations

import asyncio

import msgspec

from ...core import limit_wording
from ...core.limit import Level, LimitState
from ..routes import DashboardRoutes
from ..visit import Visit

routes = DashboardRoutes()

LEVELS_SHOWN = 50  # keys of one limit: the fullest


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
    def most(self) -> int:
        """What a gauge is full at."""
        limit = self.state.limit
        return limit.running if limit.running is not None else limit.burst or limit.rate or 0

    @property
    def running(self) -> int:
        return sum(level.running for level in self.state.levels)

    @property
    def blocked(self) -> int:
        return sum(level.blocked_lanes for level in self.state.levels)

    def used(self, level: Level) -> int:
        if self.state.limit.running is not None:
            return level.running
        return self.most if level.room is None else max(0, self.most - level.room)


class LimitsView(msgspec.Struct, frozen=True):
    now_ms: int
    rows: list[LimitRow]


@routes.page("/limits", "limits.html", page="limits")
async def limits(visit: Visit[None]) -> LimitsView:
    """Limits and how full they are."""
    now_ms, found = await asyncio.gather(visit.service.now(), visit.service.limits())
    visit.now_ms = now_ms
    return LimitsView(now_ms, [row_of(one) for one in found if _may_see(visit, one)])


def _may_see(visit: Visit[None], state: LimitState) -> bool:
    queue = state.limit.matches.queue
    return not visit.who.queues or (bool(queue) and visit.may_use(queue))


def row_of(state: LimitState) -> LimitRow:
    fullest = sorted(state.levels, key=lambda level: (-level.blocked_lanes, -level.running, level.key or ""))
    shown = fullest[:LEVELS_SHOWN]
    return LimitRow(
        state,
        limit_wording.cap(state.limit),
        limit_wording.matcher(state.limit.matches),
        shown,
        len(fullest) - len(shown),
    )
