"""rewind: drop steps, so that they run again."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.durable.builders import sleep, start, state_of, steps_of, store, suspend, take_with_steps
from tests.service.helpers import new, put
from windlass.core.durable import Rewind
from windlass.core.errors import UnknownStep, WrongState
from windlass.core.job import Job
from windlass.core.operations import Fail
from windlass.service import Service


def failed(service: Service, *names: str) -> Job:
    job = start(service)
    for name in names:
        store(service, job, name)
    service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    return job


def rewind(service: Service, job: Job, step: str = "") -> int:
    return service.rewind([Rewind(id=job.id, step=step)]).one().wait()


def test_a_step_and_all_that_followed_are_dropped(service: Service) -> None:
    job = failed(service, "a", "b", "c")
    assert rewind(service, job, "b") == 2
    service.retry([job.id]).one().wait()
    (again,) = take_with_steps(service)
    assert list(steps_of(service, again)) == ["a"]
    store(service, again, "b")
    assert [step.name for step in state_of(service, again).steps] == ["a", "b"]
    assert findings(service) == {}


def test_everything_is_dropped_without_a_name(service: Service) -> None:
    job = failed(service, "a", "b")
    assert rewind(service, job) == 2
    assert (state_of(service, job).steps, state_of(service, job).round) == ((), 1)


def test_an_unknown_step_is_refused(service: Service) -> None:
    job = failed(service, "a")
    with pytest.raises(UnknownStep):
        rewind(service, job, "b")


def test_a_job_that_a_worker_holds_is_refused(service: Service) -> None:
    job = start(service)
    store(service, job)
    with pytest.raises(WrongState):
        rewind(service, job)


def test_a_job_without_steps_has_none_to_drop(service: Service) -> None:
    (queued,) = put(service, new())
    assert service.rewind([Rewind(id=queued.id)]).one().wait() == 0


def test_a_suspended_job_can_be_rewound_and_requeued(service: Service) -> None:
    job = start(service)
    store(service, job, "a")
    suspend(service, job, sleep())
    assert rewind(service, job, "sleep") == 1
    service.requeue([job.id]).one().wait()
    (again,) = take_with_steps(service)
    assert list(steps_of(service, again)) == ["a"]


def test_a_fresh_retry_drops_all_steps(service: Service) -> None:
    job = failed(service, "a", "b")
    assert service.retry([job.id], fresh=True).one().wait() == "queued"
    assert state_of(service, job).steps == ()
