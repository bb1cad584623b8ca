"""Limits and schedules that a run needs in the engine before its clients start, and the guarantees of the run."""

from __future__ import annotations

import msgspec

from windlass.core.job import Blob, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service

from ..checks import Guarantees
from .job_generator import limit_key

PLAIN, LIMITED, ORDERED, TICKING, FLOWS = "plain", "limited", "ordered", "ticking", "flows"
DURABLE, DURABLE_ENGINE = "durable", "durable-engine"  # run by workers of the SDK, and by direct calls
LIMIT, CAP, GROUPS = "of a group", 2, 2
SCHEDULE, EVERY_MS = "every second", 1_000


async def set_up(service: Service, *, has_schedule: bool = True) -> Guarantees:
    """Let queue `limited` run two jobs of a group at once, and fill `ticking` each second. `ordered` has one taker."""
    await service.limit(Limit(name=LIMIT, matches=Matcher(queue=LIMITED), running=CAP, key="group"))
    if has_schedule:
        await service.schedule(tick_schedule())
    caps = {limit_key(LIMITED, f"g{number}"): CAP for number in range(GROUPS)}
    intervals_ms = {SCHEDULE: EVERY_MS} if has_schedule else {}
    return Guarantees(caps=caps, ordered=frozenset((ORDERED,)), intervals_ms=intervals_ms)


def tick_schedule() -> Schedule:
    """Return a schedule that makes up for each missed occurrence, however late."""
    job = NewJob(queue=TICKING, name="tick", payload=Blob(msgspec.json.encode({})))
    return Schedule(name=SCHEDULE, job=job, every_ms=EVERY_MS, misfire="all", misfire_after_ms=600_000)


async def pause_schedules(service: Service) -> None:
    """Pause every schedule, so that the queues can drain."""
    for found in await service.schedules():
        await service.pause_schedule(found.schedule.name)
