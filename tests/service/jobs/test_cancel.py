"""cancel: immediate for a waiting job; a durable request for a running job, which every later path respects."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.helpers import counts, new, put, take
from tests.support.namespace import leftover_keys
from windlass.core.errors import AlreadyEnded, UnknownJob, WrongState
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish, LeaseRef, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store


def requested(service: Service, **kw: object) -> Job:
    """A running job whose cancel has been asked for."""
    put(service, new(**kw))
    (job,) = take(service)
    assert service.cancel([job.id]).one().wait() == "requested"
    return job


def state_of(service: Service, job: Job) -> State:
    return service.job([job.id]).one().wait().job.state


def test_a_queued_job_is_cancelled_at_once(service: Service) -> None:
    (job,) = put(service, new())
    assert service.cancel([job.id], reason="not needed").one().wait() == "cancelled"
    assert counts(service) == {"cancelled": 1}
    timeline = service.job([job.id]).one().wait()
    assert timeline.job.state is State.CANCELLED
    assert timeline.job.ended_at_ms is not None
    assert [(one.attempt, one.reason, one.started_at_ms) for one in timeline.attempts] == [(0, "not needed", None)]
    assert take(service) == []


def test_a_scheduled_job_is_cancelled_at_once_and_never_becomes_due(service: Service) -> None:
    (job,) = put(service, new(delay_ms=10_000))
    assert service.cancel([job.id]).one().wait() == "cancelled"
    service.store.clock_offset_ms += 20_000
    assert service.promote().wait().done == 0
    assert take(service) == []
    assert counts(service) == {"cancelled": 1}


def test_one_that_runs_can_be_left_alone(service: Service) -> None:
    """For callers that may only withdraw jobs that have not started."""
    running, waiting = put(service, new(), new())
    (job,) = take(service)
    answers = service.cancel([running.id, waiting.id], spares_running=True).wait()
    assert isinstance(answers[0], WrongState)
    assert answers[1] == "cancelled"
    assert not service.job([job.id]).one().wait().job.is_cancel_requested
    assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None


def test_the_holder_sees_the_request_at_its_next_extend_and_acknowledges_it(service: Service) -> None:
    job = requested(service)
    assert counts(service) == {"running": 1}
    assert service.extend([LeaseRef(job.id, job.lease_token)]).one().wait().is_cancel_requested
    end = Fail(id=job.id, token=job.lease_token, then="cancelled", reason="stopped")
    assert service.fail([end]).one().wait() == "cancelled"
    assert counts(service) == {"cancelled": 1}
    timeline = service.job([job.id]).one().wait()
    assert not timeline.job.is_cancel_requested
    assert [one.reason for one in timeline.attempts] == ["stopped"]


def test_a_request_is_seen_by_progress_reports_and_readers_too(service: Service) -> None:
    from windlass.core.operations import Update

    job = requested(service)
    update = Update(id=job.id, token=job.lease_token, progress=0.5)
    assert service.update([update]).one().wait().is_cancel_requested
    assert service.job([job.id]).one().wait().job.is_cancel_requested


def test_a_large_record_remembers_the_request(service: Service) -> None:
    job = requested(service, payload=Blob(b"x" * 50_000))
    read = service.job([job.id]).one().wait().job
    assert read.is_cancel_requested
    assert read.payload.data == b"x" * 50_000


def test_asking_twice_is_harmless(service: Service) -> None:
    job = requested(service)
    assert service.cancel([job.id]).one().wait() == "requested"
    assert counts(service) == {"running": 1}


def test_a_lease_that_runs_out_after_the_request_ends_cancelled(service: Service) -> None:
    job = requested(service)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    assert state_of(service, job) is State.CANCELLED
    assert counts(service) == {"cancelled": 1}


def test_a_dispatched_job_that_is_not_accepted_after_the_request_ends_cancelled(service: Service) -> None:
    put(service, new())
    (job,) = take(service, accept_ms=1_000)
    assert service.cancel([job.id]).one().wait() == "requested"
    service.store.clock_offset_ms += 2_000
    service.recover().wait()
    assert state_of(service, job) is State.CANCELLED


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_retry_after_the_request_ends_cancelled(service: Service, delay_ms: int) -> None:
    job = requested(service)
    failure = Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=delay_ms)
    assert service.fail([failure]).one().wait() == "cancelled"
    assert counts(service) == {"cancelled": 1}


def test_a_release_after_the_request_ends_cancelled(service: Service) -> None:
    job = requested(service)
    assert service.release([LeaseRef(job.id, job.lease_token)]).one().wait() == "cancelled"
    assert counts(service) == {"cancelled": 1}


def test_a_worker_that_leaves_after_the_request_leaves_the_job_cancelled(service: Service) -> None:
    worker = b"w" * 16
    service.register(worker, WorkerInfo()).wait()
    put(service, new())
    (job,) = take(service, worker=worker)
    service.cancel([job.id]).one().wait()
    assert service.forget(worker).wait() == 1
    assert state_of(service, job) is State.CANCELLED
    assert take(service) == []


def test_an_execution_timeout_after_the_request_ends_cancelled(service: Service) -> None:
    job = requested(service, timeout_ms=5_000, lease_ms=60_000, retry=Backoff(tries=3))
    service.store.clock_offset_ms += 6_000
    service.recover().wait()
    assert state_of(service, job) is State.CANCELLED


def test_a_finish_that_comes_first_wins(service: Service) -> None:
    job = requested(service, result_ttl_ms=60_000)
    service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait()
    assert counts(service) == {"finished": 1}
    ending = service.result(job.id).wait()
    assert ending is not None
    assert (ending.state, ending.result) == (State.FINISHED, Blob(b"1"))
    with pytest.raises(AlreadyEnded):
        service.cancel([job.id]).one().wait()


def test_the_holder_may_still_fail_for_good(service: Service) -> None:
    job = requested(service)
    assert service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait() == "failed"


def test_ended_and_unknown_jobs_are_refused_one_by_one(service: Service) -> None:
    ended, waiting = put(service, new(), new())
    service.cancel([ended.id]).one().wait()
    answers = service.cancel([ended.id, service.store.new_id("q"), waiting.id]).wait()
    assert isinstance(answers[0], AlreadyEnded)
    assert isinstance(answers[1], UnknownJob)
    assert answers[2] == "cancelled"


def test_the_same_job_twice_in_one_call(service: Service) -> None:
    (job,) = put(service, new())
    answers = service.cancel([job.id, job.id]).wait()
    assert answers[0] == "cancelled"
    assert isinstance(answers[1], AlreadyEnded)
    assert counts(service) == {"cancelled": 1}


def test_a_cancelled_job_lets_its_unique_key_go(service: Service) -> None:
    (job,) = put(service, new(unique="k"))
    service.cancel([job.id]).one().wait()
    (second,) = put(service, new(unique="k"))
    assert second.status == "queued"


def test_without_retention_nothing_is_kept(service: Service, store: Store) -> None:
    service.configure("q", {"retention_ms": 0}).wait()
    (job,) = put(service, new(unique="k", tags=("t",), lane="l", expires_in_ms=5_000))
    assert service.cancel([job.id]).one().wait() == "cancelled"
    assert counts(service) == {}
    with pytest.raises(AlreadyEnded):
        service.job([job.id]).one().wait()
    assert leftover_keys(store) == []


def test_a_child_that_is_cancelled_with_its_parent_enters_the_history_once(service: Service) -> None:
    service.configure("q", {"history_length": 10, "retention_ms": 0}).wait()
    put(service, new())
    (parent,) = take(service)
    (child,) = put(service, new(parent=parent.id, held=True))
    service.release([LeaseRef(parent.id, parent.lease_token)]).one().wait()
    service.cancel([parent.id, child.id]).wait()
    assert counts(service) == {"history": 2}
    assert findings(service) == {}
