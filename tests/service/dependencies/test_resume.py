"""Repair of jobs that wait for others: the retry of a failed job lets the jobs wait again that failed because of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.helpers import counts, new, put, read, take
from tests.service.machines.dependency_builders import GONE, assert_consistent, fail, finish, run_all_steps, state
from windlass.core.errors import MemberFailed, WrongState
from windlass.core.job import Blob, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.queue import DAY_MS
from windlass.service import Service

RESULT = Blob(b'"kept"')


def chain(service: Service, length: int = 3) -> list[bytes]:
    """Enqueue jobs that wait for each other, in queues q0, q1, …"""
    ids = [service.store.new_id(f"q{at}") for at in range(length)]
    put(service, *(new(f"q{at}", id=job_id, after=(ids[at - 1],) if at else ()) for at, job_id in enumerate(ids)))
    return ids


def fail_next(service: Service, queue: str) -> None:
    (job,) = take(service, queue)
    assert fail(service, job) == "failed"


def finish_next(service: Service, queue: str, result: Blob | None = None) -> None:
    (job,) = take(service, queue)
    assert finish(service, job, result) is None


def states(service: Service, ids: list[bytes]) -> list[str]:
    return [state(service, job_id) for job_id in ids]


def test_a_retry_of_the_first_step_resumes_a_chain(service: Service) -> None:
    ids = chain(service)
    fail_next(service, "q0")
    assert states(service, ids) == ["failed"] * 3
    assert [read(service, job_id).is_consequence for job_id in ids] == [False, True, True]
    assert_consistent(service)
    assert service.retry([ids[0]]).wait() == ["queued"]
    assert states(service, ids) == ["queued", "waiting", "waiting"]
    assert not read(service, ids[1]).is_consequence
    for at in range(3):
        finish_next(service, f"q{at}")
    assert states(service, ids) == [GONE] * 3
    assert_consistent(service)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("is_one_call", [True, False])
def test_a_bulk_retry_in_any_order_retries_the_cause_alone(
    service: Service, order: tuple[int, ...], is_one_call: bool
) -> None:
    ids = chain(service)
    fail_next(service, "q0")
    picked = [ids[at] for at in order]
    if is_one_call:
        service.retry(picked).wait()
    else:
        for job_id in picked:
            service.retry([job_id]).wait()
    assert states(service, ids) == ["queued", "waiting", "waiting"]
    for at in range(3):
        finish_next(service, f"q{at}")
    assert_consistent(service)


def test_a_consequence_is_not_retried_before_its_cause(service: Service) -> None:
    ids = chain(service)
    fail_next(service, "q0")
    assert all(isinstance(answer, MemberFailed) for answer in service.retry(ids[1:]).wait())
    assert states(service, ids) == ["failed"] * 3


def test_a_step_that_failed_by_itself_keeps_what_it_needs(service: Service) -> None:
    ids = chain(service)
    finish_next(service, "q0", RESULT)
    fail_next(service, "q1")
    service.store.clock_offset_ms += DAY_MS
    service.clean().wait()
    assert service.retry([ids[1]]).wait() == ["queued"]
    (job,) = take(service, "q1")
    (member,) = service.list_members(job.id).wait().members
    assert (member.job.id, member.result) == (ids[0], RESULT)
    assert state(service, ids[2]) == "waiting"
    finish(service, job)
    finish_next(service, "q2")
    assert states(service, ids) == [GONE] * 3
    assert_consistent(service)


def group(service: Service, **more: Any) -> tuple[list[bytes], bytes, bytes]:
    """Enqueue three members, a group of them, and a job after the group."""
    members = [service.store.new_id("q") for _ in range(3)]
    joined, last = service.store.new_id("q"), service.store.new_id("last")
    put(
        service,
        *(new(id=job_id) for job_id in members),
        new(id=joined, joins=True, after=tuple(members), **more),
        new("last", id=last, after=(joined,)),
    )
    return members, joined, last


def test_a_group_waits_again_for_the_member_that_failed(service: Service) -> None:
    members, joined, last = group(service)
    first, second, third = take(service, most=3)
    finish(service, first, RESULT)
    fail(service, second)
    assert states(service, [joined, last]) == ["failed", "failed"]
    finish(service, third, RESULT)  # the group has failed before it
    assert isinstance(service.retry([joined]).wait()[0], MemberFailed)
    assert service.retry([second.id]).wait() == ["queued"]
    assert states(service, [joined, last]) == ["waiting", "waiting"]
    assert [found.result for found in service.list_members(joined).wait().members if found.result] == [RESULT, RESULT]
    finish_next(service, "q")
    assert state(service, joined) == "finished"
    finish_next(service, "last")
    assert states(service, [*members, joined, last]) == [GONE] * 5
    assert_consistent(service)


def test_a_second_failure_keeps_the_group_failed_until_both_are_retried(service: Service) -> None:
    _, joined, last = group(service)
    jobs = take(service, most=3)
    fail(service, jobs[0])
    fail(service, jobs[1])
    finish(service, jobs[2])
    service.retry([jobs[0].id]).wait()
    assert states(service, [joined, last]) == ["failed", "failed"]
    finish_next(service, "q")
    assert states(service, [joined, last]) == ["failed", "failed"]
    service.retry([jobs[1].id]).wait()
    assert states(service, [joined, last]) == ["waiting", "waiting"]
    finish_next(service, "q")
    assert states(service, [joined, last]) == ["finished", "queued"]
    assert_consistent(service)


def test_a_group_does_not_wait_and_fail_again_because_of_another_cause(service: Service) -> None:
    """Its end must not be recorded, reported and called back a second time."""
    _, joined, _ = group(service)
    jobs = take(service, most=3)
    for job in jobs[:2]:
        fail(service, job)
    before = service.job([joined]).one().wait()
    assert [attempt.reason for attempt in before.attempts] == ["member_failed"]
    service.retry([jobs[0].id]).wait()
    assert service.job([joined]).one().wait() == before


def test_a_cancelled_step_is_resumed_in_the_same_way(service: Service) -> None:
    ids = chain(service)
    service.cancel([ids[0]]).wait()
    assert states(service, ids) == ["cancelled"] * 3
    service.retry([ids[0]]).wait()
    assert states(service, ids) == ["queued", "waiting", "waiting"]
    assert_consistent(service)


def test_a_waiting_step_that_a_person_cancelled_waits_again_by_its_own_retry_only(service: Service) -> None:
    ids = chain(service)
    service.cancel([ids[1]]).wait()
    assert states(service, ids) == ["queued", "cancelled", "cancelled"]
    finish_next(service, "q0", RESULT)
    assert state(service, ids[1]) == "cancelled"
    assert service.retry([ids[1]]).wait() == ["queued"]
    assert state(service, ids[2]) == "waiting"
    service.cancel([ids[1]]).wait()
    service.requeue([ids[0]]).wait()
    assert service.retry([ids[1]]).wait() == ["waiting"]
    finish_next(service, "q0")
    assert states(service, ids[1:]) == ["queued", "waiting"]
    assert_consistent(service)


def test_a_person_can_run_a_consequence_without_its_cause(service: Service) -> None:
    ids = chain(service)
    fail_next(service, "q0")
    assert service.requeue([ids[1]]).wait() == ["queued"]
    finish_next(service, "q1")
    assert state(service, ids[0]) == "failed"
    assert_consistent(service)


def test_a_consequence_whose_cause_was_deleted_runs_without_it(service: Service) -> None:
    ids = chain(service)
    fail_next(service, "q0")
    service.delete([ids[0]]).wait()
    assert state(service, ids[1]) == "failed"
    assert service.retry([ids[1]]).wait() == ["queued"]
    finish_next(service, "q1")
    finish_next(service, "q2")
    assert states(service, ids) == [GONE] * 3
    assert_consistent(service)


def test_a_group_whose_cause_was_deleted_cannot_be_retried(service: Service) -> None:
    _, joined, _ = group(service)
    (job, *_) = take(service, most=3)
    fail(service, job)
    service.delete([job.id]).wait()
    assert isinstance(service.retry([joined]).wait()[0], WrongState)
    assert_consistent(service)


def test_a_job_with_children_is_no_consequence(service: Service) -> None:
    """Its children are cancelled with it, so that it cannot wait for them again: it runs again as a whole."""
    put(service, new("p", on_failure="fail"))
    (parent,) = take(service, "p")
    put(service, new("c", parent=parent.id, held=True))
    assert finish(service, parent) == "waiting"
    fail_next(service, "c")
    assert not read(service, parent.id).is_consequence
    assert service.retry([parent.id]).wait() == ["queued"]
    assert_consistent(service)


def test_the_unique_key_of_a_consequence_may_belong_to_another_job_now(service: Service) -> None:
    first, waiter = service.store.new_id("q"), service.store.new_id("b")
    put(service, new(id=first), new("b", id=waiter, after=(first,), unique="u"))
    fail_next(service, "q")
    (other,) = put(service, new("b", unique="u"))
    service.retry([first]).wait()
    assert states(service, [waiter, other.id]) == ["failed", "queued"]
    finish_next(service, "q")
    assert state(service, waiter) == "failed"
    assert_consistent(service)


def test_a_removed_flow_leaves_nothing(service: Service) -> None:
    ids = chain(service, 4)
    finish_next(service, "q0", RESULT)
    fail_next(service, "q1")
    service.store.clock_offset_ms += 15 * DAY_MS
    for _ in ids:
        service.clean().wait()
        run_all_steps(service)
    assert states(service, ids) == [GONE] * 4
    assert_consistent(service)
    assert_healthy(service)


def test_failures_are_counted_once(service: Service) -> None:
    chain(service)
    fail_next(service, "q0")
    failed = {queue: sum(minute.failed for minute in service.history(queue).wait()) for queue in ("q0", "q1")}
    assert failed == {"q0": 1, "q1": 0}
    (first, second) = service.stats(["q0", "q1"]).wait()
    assert (first.failed, first.failures, second.failed, second.failures) == (1, 1, 1, 0)


def test_a_limit_that_came_while_the_job_had_failed(service: Service) -> None:
    ids = chain(service, 2)
    fail_next(service, "q0")
    service.limit(Limit(name="one", matches=Matcher(queue="q1"), running=1)).wait()
    service.rematch(0).wait()
    service.retry([ids[0]]).wait()
    assert read(service, ids[1]).limits == read(service, put(service, new("q1"))[0].id).limits != ()
    assert_consistent(service)


@pytest.mark.parametrize("length", [3])
def test_an_import_brings_kept_links(service: Service, target: Service, length: int) -> None:
    ids = chain(service, length)
    finish_next(service, "q0", RESULT)
    fail_next(service, "q1")
    exported = list(service.export())
    target.import_jobs(exported).wait()
    assert states(target, ids) == ["finished", "failed", "failed"]
    assert [read(target, job_id).is_consequence for job_id in ids] == [False, False, True]
    assert_consistent(target)
    assert_healthy(target)
    assert target.retry([ids[1]]).wait() == ["queued"]
    (job,) = take(target, "q1")
    assert [member.result for member in target.list_members(job.id).wait().members] == [RESULT]
    finish(target, job)
    finish_next(target, "q2")
    assert states(target, ids) == [GONE] * 3


def test_many_consequences_wait_again_in_steps(service: Service) -> None:
    (first,) = put(service, new())
    put(service, *(NewJob(queue="b", name="n", after=(first.id,)) for _ in range(500)))
    fail_next(service, "q")
    run_all_steps(service)
    assert counts(service, "b") == {"failed": 500}
    service.retry([first.id]).wait()
    assert_consistent(service)
    run_all_steps(service)
    assert counts(service, "b") == {"waiting": 500}
    assert_consistent(service)


def test_consequences_of_a_cause_that_finishes_before_they_are_notified_can_run(service: Service) -> None:
    (first,) = put(service, new())
    put(service, *(NewJob(queue="b", name="n", after=(first.id,)) for _ in range(500)))
    fail_next(service, "q")
    run_all_steps(service)
    service.retry([first.id]).wait()
    assert counts(service, "b").get("failed"), "some are not notified yet"
    finish_next(service, "q")
    run_all_steps(service)
    assert counts(service, "b") == {"queued": 500}
    assert_consistent(service)
