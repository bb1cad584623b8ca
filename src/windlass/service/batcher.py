"""Batcher of single enqueues: jobs of concurrent callers travel in one call of the service.

The service checks, numbers and packs the jobs of a call together, which is cheaper than a command per job. Callers that
have many jobs pass them to `Service.enqueue` themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from windlass.core.job import Durability, NewJob
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.store.batching.batcher import Batcher

if TYPE_CHECKING:
    from . import Service

JobBatcher: TypeAlias = Batcher[NewJob | PreparedJob, Enqueued]


class RequestBatcher:
    """Batchers of one service, for one event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._batchers: dict[Durability | None, JobBatcher] = {}
        self._numbered: JobBatcher | None = None

    def enqueue(self, job: NewJob | PreparedJob, durability: Durability | None = None) -> asyncio.Future[Enqueued]:
        """Enqueue one job. A refusal is raised for this caller only."""
        batcher = self._batchers.get(durability)
        if batcher is None:
            batcher = self._batchers[durability] = Batcher(
                lambda jobs: self._service.enqueue(jobs, durability=durability).run_unjoined()
            )
        return batcher.submit(job, 1, len(job.payload.data))

    def enqueue_numbered(self, job: NewJob | PreparedJob) -> asyncio.Future[Enqueued]:
        """Enqueue one job under a number."""
        if self._numbered is None:
            self._numbered = Batcher(lambda jobs: self._service.enqueue_numbered(jobs).run_unjoined())
        return self._numbered.submit(job, 1, len(job.payload.data))
