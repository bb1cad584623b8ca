"""A client that watches schedules and records which job each occurrence made."""

from __future__ import annotations

from windlass.core.ids import format_id
from windlass.service import Service

from ..history import JobFacts
from .context import ClientContext
from .front_ends.engine import call_engine

POLL_S = 0.2


async def watch_schedules(context: ClientContext, service: Service) -> None:
    last_jobs: dict[str, bytes] = {}
    while not context.is_over:
        async with context.ignoring_failures():
            for found in await call_engine(service.schedules()):
                name = found.schedule.name
                if found.last_job is not None and last_jobs.get(name) != found.last_job:
                    last_jobs[name] = found.last_job
                    facts = JobFacts(
                        id=format_id(found.last_job), schedule=name, queue=found.schedule.job.queue,
                        planned_at_ms=found.last_planned_at_ms or 0,
                    )  # fmt: skip
                    context.recorder.record_event("fire", [facts])
        await context.pause(POLL_S)
