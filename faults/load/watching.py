"""Somebody who looks at schedules, and writes down which job each occurrence has made."""

from __future__ import annotations

from windlass.core.ids import format_id
from windlass.service import Service

from ..history import Seen
from .by_engine import asked
from .life import Life

LOOK_EVERY_S = 0.2


async def watch_schedules(life: Life, service: Service) -> None:
    known: dict[str, bytes] = {}
    while not life.is_over:
        async with life.surviving():
            for one in await asked(service.schedules()):
                if one.last_job is not None and known.get(one.schedule.name) != one.last_job:
                    known[one.schedule.name] = one.last_job
                    seen = Seen(
                        id=format_id(one.last_job), schedule=one.schedule.name, queue=one.schedule.job.queue,
                        planned_at_ms=one.last_planned_at_ms or 0,
                    )  # fmt: skip
                    life.recorder.happened("fire", [seen])
        await life.pause(LOOK_EVERY_S)
