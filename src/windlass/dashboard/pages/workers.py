"""Workers with their running jobs, tasks, memory and last heartbeat; and the parts of servers that take jobs."""

from __future__ import annotations

import asyncio

import msgspec

from windlass.core.errors import Refusal
from windlass.core.ids import format_id
from windlass.core.job import Job
from windlass.core.operations import Worker
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes

routes = DashboardRoutes()

WORKERS_PER_PAGE = 50
RUNNING_SHOWN = 5  # of each worker


class WorkersQuery(msgspec.Struct, frozen=True, kw_only=True):
    start: int = 0


class RunningJobRow(msgspec.Struct, frozen=True):
    id: str
    name: str
    queue: str
    since_ms: int
    progress: float


class WorkerRow(msgspec.Struct, frozen=True):
    key: str
    worker: Worker
    running: list[RunningJobRow]
    more: int  # running jobs that are not shown

    @property
    def title(self) -> str:
        info = self.worker.info
        return info.name or info.host or self.key[:8]


class WorkersView(msgspec.Struct, frozen=True):
    now_ms: int
    rows: list[WorkerRow]
    components: list[WorkerRow]  # parts of servers; they do not count as workers
    start: int
    following: int  # 0: this is the last page

    @property
    def is_whole(self) -> bool:
        """Whether the page shows all workers."""
        return not self.start and not self.following

    @property
    def slots(self) -> int:
        return sum(row.worker.info.slots for row in self.rows)

    @property
    def busy(self) -> int:
        return sum(row.worker.running_count for row in self.rows)

    @property
    def lost(self) -> int:
        return sum(row.worker.silent_at_ms <= self.now_ms for row in self.rows)


@routes.page("/workers", "workers.html", section="workers", query=WorkersQuery)
async def workers(page: PageContext[WorkersQuery]) -> WorkersView:
    """List workers."""
    start = max(0, page.query.start)
    now_ms, found = await asyncio.gather(
        page.service.now(), page.service.workers(start=start, most=WORKERS_PER_PAGE + 1)
    )
    page.now_ms = now_ms
    shown = await page.service.workers_within(found[:WORKERS_PER_PAGE], page.principal.queues)
    jobs = await _jobs(page, shown)
    following = start + WORKERS_PER_PAGE if len(found) > WORKERS_PER_PAGE else 0
    rows = [_row(worker, jobs) for worker in shown]
    components = [row for row in rows if row.worker.info.component]
    return WorkersView(now_ms, [row for row in rows if not row.worker.info.component], components, start, following)


async def _jobs(page: PageContext[WorkersQuery], found: list[Worker]) -> dict[bytes, Job]:
    ids = [running.id for worker in found for running in worker.running[:RUNNING_SHOWN]]
    answers = await page.service.job(ids) if ids else []
    return {answer.job.id: answer.job for answer in answers if not isinstance(answer, Refusal)}


def _row(worker: Worker, jobs: dict[bytes, Job]) -> WorkerRow:
    running = [
        RunningJobRow(format_id(job.id), job.name, job.queue, lease.since_ms, job.progress)
        for lease in worker.running[:RUNNING_SHOWN]
        if (job := jobs.get(lease.id)) is not None
    ]
    return WorkerRow(format_id(worker.id), worker, running, worker.running_count - len(running))
