"""explain: why a job is suspended, in sentences."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import HOUR_MS, sleep, start, store, suspend, wait_for
from tests.service.helpers import new, put
from windlass.core.durable import DEADLINE_STEP, Wait
from windlass.core.operations import LeaseRef, Take
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration
from windlass.store.waiting.take import take_flow


def sentences(service: Service, job_id: bytes) -> list[str]:
    return [reason.sentence for reason in service.explain(job_id).wait().reasons]


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (sleep(HOUR_MS), "It sleeps until 20"),
        (wait_for("approval", HOUR_MS), 'It waits for signal "approval" since 20'),
        (
            Wait(name="charge", kind="retry", for_ms=HOUR_MS, tries=2),
            'Its step "charge" failed 2 times and is tried again',
        ),
    ],
)
def test_the_wait_of_a_suspended_job_is_explained(service: Service, wait: Wait, expected: str) -> None:
    job = start(service)
    suspend(service, job, wait)
    explanation = service.explain(job.id).wait()
    assert explanation.state == "suspended"
    assert explanation.reasons[0].sentence.startswith(expected)
    assert explanation.summary.startswith("The job is suspended: ")
    assert ("times out at" in explanation.summary) == (wait.kind == "signal")


def test_the_wait_for_children_counts_them(service: Service) -> None:
    job = start(service)
    children = tuple(put(service, new(name="child", parent=job.id))[0].id for _ in range(3))
    suspend(service, job, Wait(name="gather", kind="children", children=children))
    assert sentences(service, job.id)[0] == "It waits for 3 of 3 children."


def test_a_job_with_steps_says_that_waiting_takers_do_not_know_steps(service: Service) -> None:
    job = start(service)
    store(service, job)
    service.release([LeaseRef(job.id, job.lease_token)]).one().wait()
    registration = WaitRegistration("waiter", 60_000)
    service.store.run_sync(take_flow(Take(queues=("q",)), ["q"], 0, registration))
    assert any("jobs without durable steps" in sentence for sentence in sentences(service, job.id))


def test_a_deadline_is_named_after_the_waits(service: Service) -> None:
    job = start(service)
    suspend(service, job, Wait(name=DEADLINE_STEP, kind="sleep", for_ms=HOUR_MS), wait_for("approval"))
    first, second = sentences(service, job.id)
    assert first.startswith('It waits for signal "approval"')
    assert second.startswith("If it has not ended by ")
