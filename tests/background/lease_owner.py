"""Owner of leases that records what its lease holder reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.background.lease_holder import HeldLease, lease_of
from windlass.core.job import Job
from windlass.core.operations import LeaseRef


def ref(job: Job) -> LeaseRef:
    return LeaseRef(job.id, job.lease_token)


class RecordingOwner:
    def __init__(self, jobs: Sequence[Job] = ()) -> None:
        self.jobs = list(jobs)
        self.lost: list[LeaseRef] = []
        self.expired: list[LeaseRef] = []
        self.cancelled: list[bytes] = []
        self.unclaimed: list[LeaseRef] = []
        self.stop_requests = 0
        self.has_news = asyncio.Event()

    def leases(self) -> list[HeldLease]:
        return [lease_of(job) for job in self.jobs]

    def on_lost(self, lease: LeaseRef) -> None:
        self.lost.append(lease)
        self.has_news.set()

    def on_expired(self, lease: LeaseRef) -> None:
        self.expired.append(lease)
        self.has_news.set()

    def on_cancel(self, job_id: bytes) -> bool:
        is_held = any(job.id == job_id for job in self.jobs)
        if is_held:
            self.cancelled.append(job_id)
        self.has_news.set()
        return is_held

    def on_unclaimed(self, leases: Sequence[LeaseRef]) -> None:
        self.unclaimed.extend(leases)

    def on_stop_request(self) -> None:
        self.stop_requests += 1
