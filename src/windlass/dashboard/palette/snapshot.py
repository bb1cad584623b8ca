"""Snapshot in which the palette searches: names of the deployment and its latest jobs, read once for all viewers of a
process and some seconds old. A key stroke only searches in it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.flow import FlowSummary
from windlass.core.job import Job
from windlass.core.operations import Listing
from windlass.core.queue import QueueStats
from windlass.core.scheduling.schedule import ScheduleStatus
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached

TTL_S = 5.0
COUNTED_MAX = 300  # queues whose pauses and failed jobs are known; others have no actions
SCHEDULES_MAX = 500  # the first by name
FLOWS_MAX = 100  # newest
JOBS_MAX = 100  # newest of each list
LISTS = ("running", "failed", "queued")


class Snapshot(msgspec.Struct, frozen=True):
    queues: list[str]
    stats: dict[str, QueueStats]  # of the first COUNTED_MAX queues
    schedules: list[ScheduleStatus]
    filters: list[SavedFilter]
    flows: list[FlowSummary]
    jobs: list[Job]


async def read_snapshot(page: PageContext[Any]) -> Snapshot:
    """Return the snapshot, with entries of all queues: the caller leaves out those that the principal may not see."""
    return await cached(page.context.state, "palette", lambda: _read(page), TTL_S)


async def _read(page: PageContext[Any]) -> Snapshot:
    service = page.service
    queues = await service.queues()
    await service.survey()  # once for all lists
    schedules, filters, flows, *lists = await asyncio.gather(
        service.schedules_page(most=SCHEDULES_MAX),
        service.filters(),
        service.flows(most=FLOWS_MAX),
        *map(_latest(page), LISTS),
    )
    stats = await service.stats(queues[:COUNTED_MAX]) if queues else []
    jobs = [job for found in lists for job in found]
    return Snapshot(queues, {found.queue: found for found in stats}, schedules.schedules, filters, flows.flows, jobs)


def _latest(page: PageContext[Any]) -> Any:
    async def latest(state: str) -> list[Job]:
        listing = Listing(state=state, newest_first=True, most=JOBS_MAX)
        return (await page.service.jobs_within(listing, ())).jobs

    return latest
