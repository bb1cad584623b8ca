"""Jobs that wait for others: run B after A and C. Chains, groups, policies, and changes of the awaited jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.service.helpers import counts, new, put, read, take
from tests.service.machines.dependency_builders import GONE, assert_consistent, fail, finish, run_all_steps, state
from windlass.core.errors import CrossPartition, UnknownMember, WrongState
from windlass.core.job import Blob
from windlass.core.operations import Finish
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store


def two_and_one(service: Service, **kw: Any) -> tuple[bytes, bytes, bytes]:
    """A and C in queue q, and B in queue b that waits for both."""
    first, second = (service.store.new_id("q") for _ in range(2))
    *_, waiter = put(service, new(id=first), new(id=second), new("b", after=(first, second), **kw))
    assert waiter.status == "waiting"
    return first, second, waiter.id


def test_a_job_starts_after_all_it_waits_for(service: Service) -> None:
    first, second, waiter = two_and_one(service)
    assert take(service, "b") == []
    one, other = take(service, most=2)
    finish(service, one)
    assert state(service, waiter) == "waiting"
    finish(service, other, Blob(b"9"))
    assert_consistent(service)
    (job,) = take(service, "b")
    assert job.id == waiter
    assert [state(service, one) for one in (first, second)] == ["finished", "finished"], "their outcome is needed"
    found = {member.job.id: member.result for member in service.list_members(waiter).wait().members}
    assert found == {first: None, second: Blob(b"9")}
    assert finish(service, job) is None
    assert [state(service, one) for one in (first, second, waiter)] == [GONE] * 3
    assert_consistent(service)


def test_a_chain(service: Service) -> None:
    ids = [service.store.new_id("q") for _ in range(5)]
    put(service, *(new(id=job_id, after=(ids[at - 1],) if at else ()) for at, job_id in enumerate(ids)))
    for job_id in ids:
        (job,) = take(service, most=5)
        assert job.id == job_id
        finish(service, job)
    assert counts(service) == {}
    assert_consistent(service)


def test_its_own_time_still_holds(service: Service) -> None:
    (first,) = put(service, new())
    (waiter,) = put(service, new("b", after=(first.id,), delay_ms=5_000))
    finish(service, take(service)[0])
    assert state(service, waiter.id) == "scheduled"
    service.store.clock_offset_ms = 6_000
    assert [job.id for job in take(service, "b")] == [waiter.id]


def test_a_failure_fails_what_waits_for_it_by_default(service: Service) -> None:
    first, second, waiter = two_and_one(service)
    (after_waiter,) = put(service, new("b", after=(waiter,)))
    fail(service, take(service)[0])
    assert [state(service, one) for one in (first, second, waiter, after_waiter.id)] == [
        "failed", "queued", "failed", "failed",
    ]  # fmt: skip
    last = service.result(waiter).wait().last_attempt  # type: ignore[union-attr]
    assert last is not None
    assert (last.reason, last.error) == ("member_failed", Blob(f'"{read(service, first).key}"'.encode()))
    assert_consistent(service)


def test_a_cancel_cancels_what_waits_for_it_by_default(service: Service) -> None:
    first, second, waiter = two_and_one(service)
    service.cancel([first]).wait()
    assert [state(service, one) for one in (second, waiter)] == ["queued", "cancelled"]
    assert_consistent(service)


@pytest.mark.parametrize("policy", ["collect", "ignore"])
def test_other_policies_wait_for_all_ends(service: Service, policy: Any) -> None:
    first, _, waiter = two_and_one(service, on_failure=policy)
    one, other = take(service, most=2)
    fail(service, one)
    assert state(service, waiter) == "waiting"
    finish(service, other)
    assert state(service, waiter) == "queued"
    (failed,) = service.list_members(waiter, (State.FAILED,)).wait().members
    assert failed.job.id == first
    assert failed.last_attempt is not None
    assert failed.last_attempt.reason == "error"


def test_a_retried_dependency_counts_again(service: Service) -> None:
    first, second, waiter = two_and_one(service, on_failure="collect")
    one, other = take(service, most=2)
    fail(service, one)
    service.retry([first]).wait()
    assert_consistent(service)
    finish(service, other)
    assert state(service, waiter) == "waiting"
    finish(service, take(service)[0])
    assert state(service, waiter) == "queued"
    assert [state(service, one) for one in (first, second)] == ["finished", "finished"]
    assert_consistent(service)


def test_what_ended_lately_and_is_gone_counts_as_finished(service: Service) -> None:
    (first,) = put(service, new())
    finish(service, take(service)[0])
    assert put(service, new("b", after=(first.id,)))[0].status == "queued"
    assert_consistent(service)


def test_an_unknown_dependency_is_refused_and_changes_nothing(service: Service) -> None:
    (first,) = put(service, new())
    refused = service.enqueue([new("b", after=(first.id, service.store.new_id("q")))]).wait()
    assert isinstance(refused[0], UnknownMember)
    assert counts(service, "b") == {}
    finish(service, take(service)[0])
    assert state(service, first.id) == GONE
    assert_consistent(service)


def test_the_policy_applies_at_once_to_what_has_ended(service: Service) -> None:
    (first,) = put(service, new())
    fail(service, take(service)[0])
    failed, collecting = put(service, new("b", after=(first.id,)), new("b", after=(first.id,), on_failure="collect"))
    assert (failed.status, collecting.status) == ("ended", "queued")
    assert state(service, failed.id) == "failed"
    assert_consistent(service)


def test_an_ended_job_is_kept_once_a_dependent_needs_its_outcome(service: Service) -> None:
    service.configure("h", {"history_length": 1}).wait()
    kept, shown, pending = put(service, new(result_ttl_ms=1_000), new("h"), new("c"))
    finish(service, take(service)[0], Blob(b"1"))
    finish(service, take(service, "h")[0])
    (waiter,) = put(service, new("b", after=(kept.id, shown.id, pending.id)))
    put(service, new("h"))
    finish(service, take(service, "h")[0])
    service.store.clock_offset_ms = 5_000
    service.clean().wait()
    assert [state(service, one.id) for one in (kept, shown)] == ["finished", "finished"]
    assert_consistent(service)
    finish(service, take(service, "c")[0])
    finish(service, take(service, "b")[0])
    service.clean().wait()
    assert state(service, kept.id) == GONE
    assert counts(service, "h") == {"history": 1}
    assert state(service, waiter.id) == GONE
    assert_consistent(service)


def test_one_job_needed_by_two(service: Service) -> None:
    (first,) = put(service, new())
    put(service, *(new("b", after=(first.id,)) for _ in range(2)))
    finish(service, take(service)[0])
    one, other = take(service, "b", most=2)
    finish(service, one)
    assert state(service, first.id) == "finished"
    finish(service, other)
    assert state(service, first.id) == GONE
    assert_consistent(service)


@pytest.mark.parametrize(("policy", "becomes"), [("fail", "cancelled"), ("collect", "queued"), ("ignore", "queued")])
def test_the_deletion_of_a_dependency_is_a_cancel_to_those_who_wait(
    service: Service, policy: Any, becomes: str
) -> None:
    first, _, waiter = two_and_one(service, on_failure=policy)
    service.delete([first]).wait()
    assert state(service, waiter) == ("cancelled" if policy == "fail" else "waiting")
    finish(service, take(service)[0])
    assert state(service, waiter) == becomes
    assert_consistent(service)


@pytest.mark.parametrize(("policy", "becomes"), [("fail", "cancelled"), ("ignore", GONE)])
def test_a_group_ends_when_its_last_member_is_deleted(service: Service, policy: Any, becomes: str) -> None:
    member, group = service.store.new_ids(["q", "q"])
    put(service, new(id=member), new(id=group, joins=True, after=(member,), on_failure=policy))
    service.delete([member]).wait()
    assert state(service, group) == becomes
    assert_consistent(service)


def test_the_deletion_of_an_ended_dependency_does_not_matter(service: Service) -> None:
    first, _, waiter = two_and_one(service)
    one, other = take(service, most=2)
    finish(service, one)
    service.delete([first]).wait()
    finish(service, other)
    assert state(service, waiter) == "queued"
    finish(service, take(service, "b")[0])
    assert_consistent(service)


def test_the_deletion_of_the_one_that_waits(service: Service) -> None:
    first, second, waiter = two_and_one(service)
    one, other = take(service, most=2)
    finish(service, one)
    assert state(service, first) == "finished"
    service.delete([waiter]).wait()
    assert state(service, first) == GONE
    finish(service, other)
    assert state(service, second) == GONE
    assert_consistent(service)


def test_a_cancelled_waiter_leaves_its_dependencies_alone(service: Service) -> None:
    first, second, waiter = two_and_one(service)
    service.cancel([waiter]).wait()
    assert [state(service, one) for one in (first, second)] == ["queued", "queued"]
    assert_consistent(service)


def test_a_job_that_waits_can_expire(service: Service) -> None:
    (first,) = put(service, new())
    (waiter,) = put(service, new("b", after=(first.id,), expires_in_ms=1_000))
    service.store.clock_offset_ms = 2_000
    service.clean().wait()
    assert state(service, waiter.id) == "failed"
    assert_consistent(service)


def test_a_group_ends_by_itself(service: Service) -> None:
    first, second, group = two_and_one(service, joins=True, result_ttl_ms=1_000)
    (waiter,) = put(service, new("w", after=(group,)))
    one, other = take(service, most=2)
    finish(service, one)
    finish(service, other)
    assert [state(service, one) for one in (first, second, group, waiter.id)] == [GONE, GONE, "finished", "queued"]
    assert take(service, "b") == []
    assert_consistent(service)


def test_a_group_with_its_children_in_one_call(service: Service) -> None:
    group = service.store.new_id("g")
    put(service, new("g", id=group, joins=True, result_ttl_ms=1_000), *(new(parent=group) for _ in range(3)))
    for job in take(service, most=3):
        assert state(service, group) == "waiting"
        finish(service, job)
    assert state(service, group) == "finished"
    assert_consistent(service)


def test_a_group_of_nothing_ends_at_once(service: Service) -> None:
    assert put(service, new(joins=True))[0].status == "ended"
    assert counts(service) == {}
    assert_consistent(service)


def test_a_failed_member_fails_its_group_and_cancels_its_children_only(service: Service) -> None:
    (outside,) = put(service, new("o"))
    group = service.store.new_id("g")
    _, one, other = put(service, new("g", id=group, joins=True, after=(outside.id,)), *[new(parent=group)] * 2)
    fail(service, take(service)[0])
    assert [state(service, job_id) for job_id in (group, one.id, other.id, outside.id)] == [
        "failed", "failed", "cancelled", "queued",
    ]  # fmt: skip
    assert_consistent(service)


def test_the_cancel_of_a_group_reaches_all_its_members(service: Service) -> None:
    first, second, group = two_and_one(service, joins=True)
    (running,) = take(service)
    assert service.cancel([group]).wait() == ["cancelled"]
    assert [state(service, one) for one in (first, second)] == ["running", "cancelled"]
    assert read(service, running.id).is_cancel_requested
    assert_consistent(service)


def test_the_cancel_of_a_group_leaves_alone_what_its_members_wait_for(service: Service) -> None:
    first, _, waiter = two_and_one(service)
    (group,) = put(service, new("g", after=(waiter,), joins=True))
    service.cancel([group.id]).wait()
    assert [state(service, one) for one in (first, waiter)] == ["queued", "cancelled"]
    assert_consistent(service)


def test_a_group_is_never_put_into_a_queue(service: Service) -> None:
    *_, group = two_and_one(service, joins=True)
    assert isinstance(service.requeue([group]).wait()[0], WrongState)
    fail(service, take(service)[0])
    assert isinstance(service.requeue([group]).wait()[0], WrongState)
    assert_consistent(service)


def test_a_held_child_that_also_waits(service: Service) -> None:
    put(service, new("p"))
    (parent,) = take(service, "p")
    (first,) = put(service, new())
    (child,) = put(service, new("c", parent=parent.id, held=True, after=(first.id,)))
    assert finish(service, parent) == "waiting"
    assert state(service, child.id) == "waiting"
    assert not read(service, child.id).is_held
    finish(service, take(service)[0])
    assert state(service, child.id) == "queued"
    assert_consistent(service)


def test_many_dependents_are_notified_in_steps(service: Service) -> None:
    (first,) = put(service, new())
    put(service, *(new("b", after=(first.id,)) for _ in range(1_000)))
    finish(service, take(service)[0])
    assert 0 < counts(service, "b")["queued"] <= 200
    assert_consistent(service)
    assert run_all_steps(service) > 3
    assert counts(service, "b") == {"queued": 1_000}
    assert_consistent(service)
    for job in take(service, "b", most=1_000):
        finish(service, job)
    run_all_steps(service)
    assert state(service, first.id) == GONE
    assert_consistent(service)


def test_dependents_learn_of_the_end_even_when_the_record_is_deleted(service: Service) -> None:
    (first,) = put(service, new())
    put(service, *(new("b", after=(first.id,)) for _ in range(500)))
    finish(service, take(service)[0])
    service.delete([first.id]).wait()
    run_all_steps(service)
    assert counts(service, "b") == {"queued": 500}
    assert_consistent(service)


def test_the_latest_state_counts_when_a_job_is_retried_during_the_notification(service: Service) -> None:
    (first,) = put(service, new())
    put(service, *(new("b", after=(first.id,), on_failure="collect") for _ in range(500)))
    fail(service, take(service)[0])
    woken = counts(service, "b")["queued"]
    service.retry([first.id]).wait()
    run_all_steps(service)
    assert counts(service, "b") == {"queued": woken, "waiting": 500 - woken}
    assert_consistent(service)
    finish(service, take(service)[0])
    run_all_steps(service)
    assert counts(service, "b") == {"queued": 500}
    assert_consistent(service)


def test_a_job_that_waits_for_a_thousand_others(service: Service) -> None:
    ids = [one.id for one in put(service, *(new() for _ in range(1_000)))]
    put(service, *(new("b", after=tuple(ids)) for _ in range(6)))
    jobs = take(service, most=1_000)
    service.finish([Finish(job.id, job.lease_token) for job in jobs[:-1]]).wait()
    run_all_steps(service)
    assert counts(service, "b") == {"waiting": 6}
    finish(service, jobs[-1])
    run_all_steps(service)
    assert counts(service, "b") == {"queued": 6}
    assert_consistent(service)


def test_what_would_cross_partitions_is_refused(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(64))
    (first,) = put(service, new("one"))
    crossing: tuple[dict[str, Any], ...] = ({"after": (first.id,)}, {"parent": first.id})
    for kin in crossing:
        with pytest.raises(CrossPartition):
            service.enqueue([new("two", **kin)]).wait()


def test_a_dependency_that_waits_counts_whatever_a_cancel_says(service: Service) -> None:
    *_, waiter = two_and_one(service)
    (parent,) = put(service, new("p", after=(waiter,), on_failure="collect"))
    (child,) = put(service, new("c", parent=parent.id))
    service.cancel([child.id], counts_waiting=False).wait()
    assert state(service, parent.id) == "waiting"
    assert_consistent(service)
