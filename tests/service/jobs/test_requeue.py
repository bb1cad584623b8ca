"""requeue: back into the queue from any state."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, take
from windlass.core.errors import AlreadyEnded, StaleLease, UniqueConflict, UnknownJob
from windlass.core.job import Blob, Job
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Finish, WorkerInfo
from windlass.core.states import State
from windlass.service import Service

STATES = ("queued", "scheduled", "dispatched", "running", "finished", "failed", "cancelled", "history")


def in_state(service: Service, state: str, **kw: object) -> bytes:
    if state == "history":
        service.configure("q", {"history_length": 10}).wait()
    delay_ms = 60_000 if state == "scheduled" else 0
    result_ttl_ms = 60_000 if state == "finished" else 0
    (job,) = put(service, new(delay_ms=delay_ms, result_ttl_ms=result_ttl_ms, **kw))
    if state == "cancelled":
        service.cancel([job.id]).one().wait()
    elif state not in ("queued", "scheduled"):
        (taken,) = take(service, accept_ms=1_000 if state == "dispatched" else 0)
        if state in ("finished", "history"):
            service.finish([Finish(taken.id, taken.lease_token, Blob(b"7"))]).one().wait()
        elif state == "failed":
            service.fail([Fail(id=taken.id, token=taken.lease_token)]).one().wait()
    return job.id


@pytest.mark.parametrize("state", STATES)
def test_from_every_state_into_the_queue(service: Service, state: str) -> None:
    job_id = in_state(service, state, payload=Blob(b"[3]"))
    assert service.requeue([job_id]).one().wait() == "queued"
    assert counts(service) == {"queued": 1}
    (again,) = take(service)
    assert (again.id, again.payload, again.is_history) == (job_id, Blob(b"[3]"), False)
    service.finish([Finish(again.id, again.lease_token)]).one().wait()
    assert "queued" not in counts(service)
    assert service.stats(["q"]).wait()[0].bytes == 0


@pytest.mark.parametrize("state", ["finished", "history", "failed", "cancelled"])
def test_after_an_end_attempts_and_outcome_are_reset(service: Service, state: str) -> None:
    job_id = in_state(service, state)
    service.requeue([job_id]).one().wait()
    job = service.job([job_id]).one().wait().job
    assert (job.state, job.attempt, job.ended_at_ms, job.progress) == (State.QUEUED, 0, None, 0)
    assert service.result(job_id).wait() is None


def running(service: Service) -> Job:
    put(service, new())
    return take(service)[0]


def test_a_lease_ends_and_its_holder_is_refused(service: Service) -> None:
    job = running(service)
    service.requeue([job.id]).one().wait()
    with pytest.raises(StaleLease):
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
    (again,) = take(service)
    assert again.attempt == 2
    assert again.lease_token > job.lease_token


def test_the_attempt_may_be_given_back(service: Service) -> None:
    job = running(service)
    service.requeue([job.id], gives_attempt_back=True).one().wait()
    assert take(service)[0].attempt == 1


def test_the_worker_no_longer_holds_it(service: Service) -> None:
    worker = b"w" * 16
    service.register(worker, WorkerInfo()).wait()
    put(service, new())
    (job,) = take(service, worker=worker)
    service.requeue([job.id]).one().wait()
    assert service.workers().wait()[0].running == []
    assert service.job([job.id]).one().wait().job.worker is None


def test_a_cancel_request_is_taken_back(service: Service) -> None:
    job = running(service)
    service.cancel([job.id]).one().wait()
    service.requeue([job.id]).one().wait()
    assert not take(service)[0].is_cancel_requested


def test_it_returns_to_its_place_by_creation(service: Service) -> None:
    job = running(service)
    service.store.clock_offset_ms += 5
    put(service, new())
    service.requeue([job.id]).one().wait()
    assert take(service)[0].id == job.id


def test_a_scheduled_job_is_due_at_once_and_only_once(service: Service) -> None:
    job_id = in_state(service, "scheduled")
    service.requeue([job_id]).one().wait()
    service.store.clock_offset_ms += 61_000
    assert service.promote().wait().done == 0
    assert len(take(service, most=5)) == 1


def test_an_overdue_redeliverable_job_is_in_one_place_again(service: Service) -> None:
    put(service, new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    assert counts(service) == {"queued": 1, "running": 1}
    service.requeue([job.id]).one().wait()
    assert counts(service) == {"queued": 1}
    assert len(take(service, most=5)) == 1


def test_unique_conflict_and_jobs_that_are_not_there(service: Service) -> None:
    job_id = in_state(service, "failed", unique="k")
    (other,) = put(service, new(unique="k"))
    answers = service.requeue([job_id, service.store.new_id("q"), other.id]).wait()
    assert [type(one) for one in answers[:2]] == [UniqueConflict, UnknownJob]
    assert answers[2] == "queued"
    service.delete([other.id]).one().wait()
    with pytest.raises(AlreadyEnded):
        service.requeue([other.id]).one().wait()


def test_one_that_ended_counts_against_the_limits_of_now(service: Service) -> None:
    (job,) = put(service, new())
    service.cancel([job.id]).one().wait()
    service.limit(Limit(name="none", matches=Matcher(name="n"), running=0)).wait()
    assert service.requeue([job.id]).one().wait() == "queued"
    assert take(service) == []
