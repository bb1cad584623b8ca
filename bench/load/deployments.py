"""Deployments that have very much of one thing: queues, lanes, failed jobs, schedules or workers."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Take, WorkerInfo
from windlass.core.scheduling.schedule import Schedule
from windlass.sdk.failures import encode_error
from windlass.service import Service

BULK = 1_000  # jobs per call
FAILED_QUEUES = 20
RUNNING = 100  # jobs that run in deployments with many queues
BEAT_MS = 3_600_000  # registered workers send no heartbeats here
ERRORS = (
    "TimeoutError: the provider has not answered within 10 s", "ConnectionRefusedError: 10.0.0.7:5432",
    "ValueError: the amount must be positive", "KeyError: 'customer'",
)  # fmt: skip

Fill: TypeAlias = Callable[[Service, int], None]


def enqueue_all(service: Service, jobs: Iterator[NewJob]) -> None:
    part: list[NewJob] = []
    for job in jobs:
        part.append(job)
        if len(part) == BULK:
            _enqueue(service, part)
            part = []
    if part:
        _enqueue(service, part)


def _enqueue(service: Service, jobs: Sequence[NewJob]) -> None:
    refused = [answer for answer in service.enqueue(jobs).wait() if isinstance(answer, Exception)]
    if refused:
        raise RuntimeError(f"{len(refused)} jobs were refused: {refused[0]}")


def _error(number: int) -> Blob:
    kind, _, message = ERRORS[number % len(ERRORS)].partition(": ")
    return encode_error(kind, message)


def queues(service: Service, size: int) -> None:
    """Fill as many queues with one job each; some jobs run, some have failed."""
    names = [f"tenant-{at:06}" for at in range(size)]
    enqueue_all(service, (NewJob(queue=name, name="sync") for name in names))
    some = names[:: max(1, size // RUNNING)][:RUNNING]
    worker = os.urandom(16)
    for at, name in enumerate(some):
        (job,) = service.take(Take(queues=(name,), worker=worker, lease_ms=BEAT_MS)).wait().jobs
        if at % 2:
            service.fail([Fail(id=job.id, token=job.lease_token, error=_error(0))]).wait()


def lanes(service: Service, size: int) -> None:
    """Fill as many lanes of one queue with one job each."""
    enqueue_all(service, (NewJob(queue="mail", name="send", lane=f"customer-{at:06}") for at in range(size)))


def failed(service: Service, size: int) -> None:
    """Fail as many jobs of some queues, with a few errors."""
    names = [f"tenant-{at:02}" for at in range(FAILED_QUEUES)]
    worker, left, at = os.urandom(16), size, 0
    while left:
        count, name = min(BULK, left), names[at % len(names)]
        _enqueue(service, [NewJob(queue=name, name="charge") for _ in range(count)])
        jobs = service.take(Take(queues=(name,), most=count, worker=worker, lease_ms=BEAT_MS)).wait().jobs
        error = _error(at)
        service.fail([Fail(id=job.id, token=job.lease_token, error=error) for job in jobs]).wait()
        left, at = left - len(jobs), at + 1


def schedules(service: Service, size: int) -> None:
    """Define as many schedules, none of which fires during the measurement."""
    begin_ms = int(time.time() * 1000) + BEAT_MS
    for at in range(size):
        job = NewJob(queue=f"reports-{at % 20}", name="report")
        service.schedule(Schedule(name=f"report-{at:05}", job=job, every_ms=60_000, starts_at_ms=begin_ms)).wait()


def workers(service: Service, size: int) -> None:
    """Register as many workers that serve some of 50 queues and run a job each."""
    for at in range(size):
        own = tuple(f"tenant-{(at + step) % 50:02}" for step in range(3))
        info = WorkerInfo(host=f"host-{at // 10}", pid=at, queues=own, slots=10, name=f"worker-{at}", names=("sync",))
        service.register(_worker_id(at), info, beat_ms=BEAT_MS).wait()
    enqueue_all(service, (NewJob(queue=f"tenant-{at % 50:02}", name="sync") for at in range(size)))
    for at in range(size):
        worker = _worker_id(at)
        service.take(Take(queues=(f"tenant-{at % 50:02}",), worker=worker, lease_ms=BEAT_MS)).wait()


def _worker_id(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


class Axis(NamedTuple):
    what: str
    sizes: tuple[int, ...]
    fill: Fill
    paths: tuple[str, ...] = ()  # pages of single things


AXES = {
    "queues": Axis(
        "queues", (1_000, 10_000, 100_000), queues, ("/queues/tenant-000000", "/queues?after=tenant-000500")
    ),
    "lanes": Axis("lanes of a queue", (1_000, 10_000, 100_000), lanes, ("/queues/mail",)),
    "failed": Axis("failed jobs", (10_000, 100_000, 1_000_000), failed, ("/queues/tenant-00",)),
    "schedules": Axis("schedules", (100, 1_000, 10_000), schedules, ("/schedules/report-00001",)),
    "workers": Axis("workers", (10, 100, 1_000), workers, ("/queues/tenant-00",)),
}
