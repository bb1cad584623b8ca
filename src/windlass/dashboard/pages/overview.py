"""The first page: what every queue holds and does, and what happened in all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from ...core.queue import Minute, QueueStats
from ..routes import DashboardRoutes
from ..visit import Visit

routes = DashboardRoutes()

MINUTE_MS = 60_000
MINUTES = 60
TOTALS = ("queued", "running", "scheduled", "waiting", "failed")
QUEUES_SHOWN = 50  # the busiest


class QueueRow(msgspec.Struct, frozen=True):
    stats: QueueStats
    finished: list[int]  # by minute, oldest first
    failed: list[int]
    finished_per_minute: float
    failed_per_minute: float


class OverviewView(msgspec.Struct, frozen=True):
    now_ms: int
    totals: dict[str, int]
    rows: list[QueueRow]
    queue_count: int
    times_ms: list[int]
    enqueued: list[int]
    finished: list[int]
    failed: list[int]


@routes.page("/", "overview.html", page="overview")
async def overview(visit: Visit[None]) -> OverviewView:
    """What every queue holds and does."""
    service = visit.service
    now_ms, names = await asyncio.gather(service.now(), service.queues())
    visit.now_ms = now_ms
    names = [name for name in names if visit.may_use(name)]
    stats = await service.stats(names) if names else []
    busiest = sorted(stats, key=lambda one: (-(one.queued + one.running), -one.failed, one.queue))[:QUEUES_SHOWN]
    histories = await asyncio.gather(*(service.history(one.queue) for one in busiest))
    times_ms = [now_ms // MINUTE_MS * MINUTE_MS - MINUTE_MS * back for back in range(MINUTES - 1, -1, -1)]
    return OverviewView(
        now_ms,
        {what: sum(getattr(one, what) for one in stats) for what in TOTALS},
        [_row(one, minutes, times_ms) for one, minutes in zip(busiest, histories, strict=True)],
        len(stats),
        times_ms,
        *(_summed(histories, times_ms, what) for what in ("enqueued", "finished", "failed")),
    )


def _row(stats: QueueStats, minutes: Sequence[Minute], times_ms: Sequence[int]) -> QueueRow:
    finished, failed = (_summed([minutes], times_ms, what) for what in ("finished", "failed"))
    return QueueRow(stats, finished, failed, _lately(finished), _lately(failed))


def _summed(histories: Sequence[Sequence[Minute]], times_ms: Sequence[int], what: str) -> list[int]:
    sums = dict.fromkeys(times_ms, 0)
    for minutes in histories:
        for minute in minutes:
            if minute.at_ms in sums:
                sums[minute.at_ms] += getattr(minute, what)
    return list(sums.values())


def _lately(values: Sequence[int], minutes: int = 5) -> float:
    """Per minute, over the last full ones."""
    return sum(values[-minutes - 1 : -1]) / minutes
