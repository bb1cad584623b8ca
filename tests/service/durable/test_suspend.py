"""suspend: runs whose code waits for a time, a signal or child jobs."""

from __future__ import annotations

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.durable.builders import (
    HOUR_MS,
    pass_time,
    send,
    sleep,
    start,
    state_of,
    steps_of,
    store,
    suspend,
    take_with_steps,
    wait_for,
)
from tests.service.helpers import counts, new, put, read, take
from windlass.core.durable import StepStatus, Wait
from windlass.core.errors import StaleLease, WrongState
from windlass.core.job import Blob, Job
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Edit, Fail, Finish
from windlass.core.states import State
from windlass.service import Service


def test_a_suspended_job_has_no_holder_and_spends_no_attempt(service: Service) -> None:
    job = start(service)
    assert suspend(service, job, sleep()) == "suspended"
    stored = read(service, job.id)
    assert (stored.state, stored.attempt, stored.worker, stored.lease_token) == (State.SUSPENDED, 0, None, 0)
    assert counts(service) == {"suspended": 1}
    assert state_of(service, job).waits == ("sleep",)
    assert state_of(service, job).suspensions == 1
    assert findings(service) == {}


def test_a_sleep_ends_at_its_stored_instant_and_not_earlier(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep(HOUR_MS))
    pass_time(service, HOUR_MS - 5_000)
    assert take_with_steps(service) == []
    assert steps_of(service, job)["sleep"].status is StepStatus.WAITING
    service.store.clock_offset_ms += 6_000
    (again,) = take_with_steps(service)  # a take wakes it, without the scheduler
    assert (again.id, again.attempt) == (job.id, 1)
    assert steps_of(service, job)["sleep"].status is StepStatus.DONE
    assert state_of(service, job).waits == ()


def test_a_sleep_is_not_started_over(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep(HOUR_MS))
    wakes_at = steps_of(service, job)["sleep"].wake_at_ms
    service.requeue([job.id]).one().wait()
    (again,) = take_with_steps(service)
    pass_time(service, HOUR_MS // 2)
    assert suspend(service, again, sleep(HOUR_MS)) == "suspended"
    assert steps_of(service, job)["sleep"].wake_at_ms == wakes_at


def test_the_scheduler_wakes_a_job(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep(HOUR_MS))
    assert service.stats(["q"]).wait()[0].next_due_at_ms == steps_of(service, job)["sleep"].wake_at_ms
    pass_time(service, HOUR_MS + 1_000)
    assert counts(service) == {"queued": 1}


def test_a_repeated_suspension_is_accepted_and_an_old_token_is_not(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep())
    assert suspend(service, job, sleep()) == "suspended"
    assert state_of(service, job).suspensions == 1
    service.requeue([job.id]).one().wait()
    take_with_steps(service)
    with pytest.raises(StaleLease):
        suspend(service, job, sleep())


def test_a_wait_times_out_once_and_for_good(service: Service) -> None:
    job = start(service)
    suspend(service, job, wait_for(for_ms=HOUR_MS))
    pass_time(service, HOUR_MS + 1_000)
    (again,) = take_with_steps(service)
    assert steps_of(service, again)["signal:approval"].status is StepStatus.TIMED_OUT
    assert send(service, again) == "kept"
    assert suspend(service, again, wait_for(for_ms=HOUR_MS)) == "queued"
    assert steps_of(service, again)["signal:approval"].status is StepStatus.TIMED_OUT


def test_the_schema_of_a_signal_is_kept_until_its_wait_is_over(service: Service) -> None:
    schema = Blob(b'{"type":"boolean"}')
    answered, late = start(service), start(service)
    for job in (answered, late):
        assert suspend(service, job, wait_for("approval", HOUR_MS, schema=schema)) == "suspended"
        assert steps_of(service, job)["signal:approval"].schema == schema
    send(service, answered, "approval", b"true")
    pass_time(service, HOUR_MS + 1)
    found = [steps_of(service, job)["signal:approval"] for job in (answered, late)]
    assert [(step.status, step.value, step.schema) for step in found] == [
        (StepStatus.DONE, Blob(b"true"), None),
        (StepStatus.TIMED_OUT, None, None),
    ]
    assert set(findings(service)) == {"loops_behind"}  # the bytes are right; no loop has seen that an hour passed


def test_the_first_condition_that_is_met_wakes_the_job(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep(HOUR_MS), wait_for(), sleep(2 * HOUR_MS, "longer"))
    assert send(service, job) == "received"
    (again,) = take_with_steps(service)
    statuses = {name: step.status.label for name, step in steps_of(service, again).items()}
    assert statuses == {"sleep": "waiting", "signal:approval": "done", "longer": "waiting"}


def test_a_cancel_request_beats_a_suspension(service: Service) -> None:
    job = start(service)
    service.cancel([job.id]).one().wait()
    assert suspend(service, job, sleep()) == "cancelled"
    assert read(service, job.id).state is State.CANCELLED


def test_a_suspended_job_can_be_cancelled_deleted_and_requeued(service: Service) -> None:
    for act, after in ((service.cancel, {"cancelled": 1}), (service.delete, {}), (service.requeue, {"queued": 1})):
        job = start(service)
        suspend(service, job, sleep())
        act([job.id]).one().wait()
        assert counts(service) == after
        assert findings(service) == {}
        service.delete([job.id]).wait()


def test_a_woken_job_comes_before_later_jobs(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep(1_000))
    service.store.clock_offset_ms += 2_000
    put(service, new(name="later"))
    assert [taken.id for taken in take_with_steps(service)] == [job.id]


def test_unique_keys_stay_held(service: Service) -> None:
    job = start(service, unique="key")
    suspend(service, job, sleep())
    (answer,) = put(service, new(unique="key"))
    assert (answer.status, answer.id) == ("existing", job.id)
    (replaced,) = put(service, new(unique="key", name="other", unique_check="replace", run_at_ms=1))
    assert (replaced.status, read(service, job.id).state, read(service, job.id).name) == (
        "existing",
        State.SUSPENDED,
        "n",
    )


def test_edit_and_wake_do_not_wake_a_suspended_job(service: Service) -> None:
    job = start(service)
    suspend(service, job, sleep())
    for act in (
        lambda: service.edit([Edit(id=job.id, run_at_ms=1)]).one().wait(),
        lambda: service.wake([job.id]).one().wait(),
    ):
        with pytest.raises(WrongState):
            act()
    assert read(service, job.id).state is State.SUSPENDED


def test_a_suspended_job_holds_no_limit(service: Service) -> None:
    service.limit(Limit(name="one", matches=Matcher(), running=1)).wait()
    job = start(service)
    put(service, new(name="next"))
    suspend(service, job, sleep(10_000))
    (following,) = take_with_steps(service)
    assert following.name == "next"
    pass_time(service, 11_000)
    assert take_with_steps(service) == []  # it competes again
    service.finish([Finish(following.id, following.lease_token)]).one().wait()
    assert [again.id for again in take_with_steps(service)] == [job.id]


def test_a_rate_token_is_spent_at_the_first_start_only(service: Service) -> None:
    service.limit(Limit(name="two", matches=Matcher(), rate=2, per_ms=10 * HOUR_MS)).wait()
    job = start(service)
    suspend(service, job, sleep(1_000))
    service.store.clock_offset_ms += 2_000
    (again,) = take_with_steps(service)
    put(service, new(name="next"), new(name="third"))
    assert again.id == job.id
    assert [taken.name for taken in take_with_steps(service, most=2)] == ["next"]


def child(service: Service, parent: Job, **kw: object) -> bytes:
    return put(service, new(queue="q", name="child", parent=parent.id, **kw))[0].id


def children(*ids: bytes, needs_all: bool = False) -> Wait:
    return Wait(name="gather", kind="children", children=ids, needs_all=needs_all)


def end_child(service: Service, *, fails: bool = False) -> None:
    (job,) = take(service)
    assert job.name == "child"
    if fails:
        service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    else:
        service.finish([Finish(job.id, job.lease_token, Blob(b"7"))]).one().wait()


def test_the_last_child_wakes_its_parent(service: Service) -> None:
    parent = start(service)
    ids = [child(service, parent) for _ in range(2)]
    assert suspend(service, parent, children(*ids)) == "suspended"
    end_child(service)
    assert read(service, parent.id).state is State.SUSPENDED
    end_child(service)
    (again,) = take_with_steps(service)
    assert (again.id, again.attempt) == (parent.id, 1)
    members = service.list_members(parent.id).wait().members
    assert [member.result for member in members] == [Blob(b"7")] * 2
    assert findings(service) == {}


@pytest.mark.parametrize("needs_all", [False, True])
def test_a_failed_child_wakes_its_parent_unless_all_are_needed(service: Service, needs_all: bool) -> None:
    parent = start(service)
    ids = [child(service, parent) for _ in range(2)]
    suspend(service, parent, children(*ids, needs_all=needs_all))
    end_child(service, fails=True)
    assert read(service, parent.id).state is (State.SUSPENDED if needs_all else State.QUEUED)


def test_children_that_ended_before_the_suspension_resume_at_once(service: Service) -> None:
    parent = start(service)
    job_id = child(service, parent)
    end_child(service)
    assert suspend(service, parent, children(job_id)) == "queued"


def test_the_cancel_of_a_suspended_parent_reaches_its_children(service: Service) -> None:
    parent = start(service)
    job_id = child(service, parent)
    suspend(service, parent, children(job_id))
    service.cancel([parent.id]).one().wait()
    assert read(service, job_id).state is State.CANCELLED


def test_a_parent_that_resumed_and_finishes_keeps_its_steps_until_it_is_removed(service: Service) -> None:
    parent = start(service, result_ttl_ms=HOUR_MS)
    store(service, parent)
    suspend(service, parent, children(child(service, parent)))
    end_child(service)
    (again,) = take_with_steps(service)
    assert service.finish([Finish(again.id, again.lease_token)]).one().wait() is None
    assert list(steps_of(service, parent)) == ["charge", "gather"]
    assert findings(service) == {}


def test_the_removal_of_the_last_open_child_wakes_its_parent(service: Service) -> None:
    parent = start(service)
    ids = [child(service, parent) for _ in range(2)]
    suspend(service, parent, children(*ids, needs_all=True))
    service.delete([ids[0]]).one().wait()
    assert read(service, parent.id).state is State.SUSPENDED
    service.delete([ids[1]]).one().wait()
    assert read(service, parent.id).state is State.QUEUED
    assert findings(service) == {}
