"""Builders for the tests of operations. They block, so they are for tests without an event loop."""

from __future__ import annotations

from typing import Any

from windlass.core.job import Job, NewJob
from windlass.core.operations import Enqueued, Take
from windlass.service import Service
from windlass.store.store import Store

COUNTED = ("queued", "scheduled", "waiting", "suspended", "running", "finished", "failed", "cancelled", "history")


def new(queue: str = "q", name: str = "n", **kw: Any) -> NewJob:
    return NewJob(queue=queue, name=name, **kw)


def put(service: Service, *jobs: NewJob) -> list[Enqueued]:
    """Enqueue jobs; all must be accepted."""
    answers = service.enqueue(jobs).wait()
    accepted = [one for one in answers if isinstance(one, Enqueued)]
    assert len(accepted) == len(jobs), answers
    return accepted


def take(service: Service, queue: str = "q", most: int = 1, **kw: Any) -> list[Job]:
    return service.take(Take(queues=(queue,), most=most, **kw)).wait().jobs


def counts(service: Service, queue: str = "q") -> dict[str, int]:
    """Return the number of jobs per state, without empty states."""
    (stats,) = service.stats([queue]).wait()
    return {state: getattr(stats, state) for state in COUNTED if getattr(stats, state)}


def another(service: Service) -> Service:
    """Return the same deployment through another store, like another process. The caller closes it."""
    store = service.store
    return Service(Store(store.endpoint, namespace=store.namespace, is_test=True, patience_s=10.0))


def read(service: Service, job_id: bytes) -> Job:
    return service.job([job_id]).one().wait().job
