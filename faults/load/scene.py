"""What a run needs in the engine before its clients start: limits, schedules and the life of queues; and what may be
promised of it."""

from __future__ import annotations

import msgspec

from windlass.core.job import Blob, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service

from ..judging import Promises
from .wishes import limit_key

PLAIN, LIMITED, ORDERED, TICKING = "plain", "limited", "ordered", "ticking"
LIMIT, CAP, GROUPS = "of a group", 2, 2
SCHEDULE, EVERY_MS = "every second", 1_000


async def prepare(service: Service, *, has_schedule: bool = True) -> Promises:
    """Queue `limited` runs two jobs of a group at once, `ordered` has one taker, `ticking` is filled each second."""
    await service.limit(Limit(name=LIMIT, matches=Matcher(queue=LIMITED), running=CAP, key="group"))
    if has_schedule:
        await service.schedule(ticking())
    caps = {limit_key(LIMITED, f"g{number}"): CAP for number in range(GROUPS)}
    rhythms = {SCHEDULE: EVERY_MS} if has_schedule else {}
    return Promises(caps=caps, ordered=frozenset((ORDERED,)), rhythms=rhythms)


def ticking() -> Schedule:
    """Each occurrence is made up for, however late."""
    job = NewJob(queue=TICKING, name="tick", payload=Blob(msgspec.json.encode({})))
    return Schedule(name=SCHEDULE, job=job, every_ms=EVERY_MS, misfire="all", misfire_after_ms=600_000)


async def quieten(service: Service) -> None:
    """No schedule makes jobs any more: what is there can drain."""
    for one in await service.schedules():
        await service.pause_schedule(one.schedule.name)
