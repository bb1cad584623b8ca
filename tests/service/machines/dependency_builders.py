"""Builders for the tests of dependencies. They block, so they are for tests without an event loop."""

from __future__ import annotations

from typing import Any

from tests.service.helpers import new, put, take
from tests.service.machines.invariants import check, snapshot
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish
from windlass.service import Service

GONE = "gone"


def assert_consistent(service: Service) -> None:
    store = service.store
    check(snapshot(store._sync_connection, store.root(0), 0, among=f"{store.root(0)}:*"))


def state(service: Service, job_id: bytes) -> str:
    (found,) = service.job([job_id]).wait()
    return GONE if isinstance(found, Exception) else found.job.state.label


def finish(service: Service, job: Job, result: Blob | None = None) -> Any:
    return service.finish([Finish(job.id, job.lease_token, result)]).one().wait()


def fail(service: Service, job: Job, then: Any = "final") -> Any:
    return service.fail([Fail(id=job.id, token=job.lease_token, then=then)]).one().wait()


def parent_with_children(service: Service, children: int = 2, **parent: Any) -> tuple[Job, list[bytes]]:
    """Create a running parent with held children in another queue."""
    put(service, new("p", **parent))
    (job,) = take(service, "p")
    added = put(service, *(new("c", parent=job.id, held=True) for _ in range(children)))
    assert {one.status for one in added} <= {"waiting"}
    return job, [one.id for one in added]


def run_all_steps(service: Service) -> int:
    """Run the scheduler until no work on dependencies is left. Return the number of steps."""
    steps = 0
    while True:
        step = service.promote().wait()
        steps += 1
        if step.next_at_ms is None or step.next_at_ms > step.now_ms:
            return steps
