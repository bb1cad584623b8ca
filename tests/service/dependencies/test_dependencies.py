"""Parents and children: yielding to children, waking, policies, and the effect of an end on the other side."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.helpers import counts, new, put, read, take
from tests.service.machines.dependency_builders import (
    GONE,
    assert_consistent,
    fail,
    finish,
    parent_with_children,
    state,
)
from windlass.core.errors import AlreadyEnded, ParentState, UnknownParent
from windlass.core.job import Blob
from windlass.core.operations import LeaseRef
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service


def test_a_parent_hands_over_and_is_woken_by_its_last_child(service: Service) -> None:
    parent, children = parent_with_children(service)
    assert take(service, "c") == []
    assert finish(service, parent) == "waiting"
    waiting = read(service, parent.id)
    assert (waiting.state, waiting.attempt, waiting.run_at_ms) == (State.WAITING, 0, parent.started_at_ms)
    assert (waiting.lease_token, waiting.worker) == (0, None)
    first, second = take(service, "c", most=5)
    assert finish(service, first) is None
    assert state(service, parent.id) == "waiting"
    assert finish(service, second, Blob(b"7")) is None
    assert [state(service, child) for child in children] == ["finished", "finished"]
    assert_consistent(service)
    (again,) = take(service, "p")
    assert (again.id, again.attempt) == (parent.id, 1)
    assert finish(service, again) is None
    assert [state(service, one) for one in (parent.id, *children)] == [GONE] * 3
    assert_consistent(service)


def test_a_parent_without_pending_children_ends(service: Service) -> None:
    put(service, new("p"))
    (parent,) = take(service, "p")
    put(service, new("c", parent=parent.id))
    (child,) = take(service, "c")
    finish(service, child)
    assert state(service, child.id) == "finished", "kept until the parent has ended"
    assert finish(service, parent) is None
    assert state(service, child.id) == GONE
    assert_consistent(service)


def test_a_child_of_a_waiting_parent_starts_at_once(service: Service) -> None:
    parent, _ = parent_with_children(service, 1)
    finish(service, parent)
    (sibling,) = put(service, new("c", parent=parent.id, held=True))
    (later,) = put(service, new("c", parent=parent.id, delay_ms=1000))
    assert (sibling.status, later.status) == ("queued", "scheduled")
    assert not read(service, sibling.id).is_held
    assert_consistent(service)


def test_a_parent_must_be_there_and_at_work(service: Service) -> None:
    (queued,) = put(service, new("p"))
    unknown = service.store.new_id("p")
    refused = service.enqueue([new(parent=queued.id), new(parent=unknown), new(parent=unknown, held=True)]).wait()
    assert [type(one) for one in refused] == [ParentState, UnknownParent, UnknownParent]
    (job,) = take(service, "p")
    finish(service, job)
    assert isinstance(service.enqueue([new(parent=job.id)]).wait()[0], ParentState)
    assert counts(service) == {}


def test_a_retry_of_the_parent_keeps_its_members(service: Service) -> None:
    parent, children = parent_with_children(service, 1)
    assert fail(service, parent, "retry") == "retried"
    (again,) = take(service, "p")
    assert state(service, children[0]) == "waiting"
    assert finish(service, again) == "waiting"
    assert state(service, children[0]) == "queued"
    assert_consistent(service)


def test_handing_over_does_not_use_up_the_attempts(service: Service) -> None:
    parent, _ = parent_with_children(service, 1, retry=Backoff(tries=1))
    for _round in range(3):
        finish(service, parent)
        (child,) = take(service, "c")
        finish(service, child)
        (parent,) = take(service, "p")
        put(service, new("c", parent=parent.id, held=True))
    service.store.clock_offset_ms = 60_000
    service.recover().wait()
    assert state(service, parent.id) == "failed", "its lease ran out, and one attempt was allowed"
    assert_consistent(service)


def test_what_a_parent_has_seen_is_dissolved_when_it_finishes(service: Service) -> None:
    parent, (finished, cancelled, failed, pending) = parent_with_children(service, 4)
    finish(service, parent)
    service.cancel([cancelled]).wait()
    jobs = {job.id: job for job in take(service, "c", most=3)}
    finish(service, jobs[finished])
    fail(service, jobs[failed])
    finish(service, jobs[pending])
    (again,) = take(service, "p")
    assert [state(service, one) for one in (finished, cancelled, failed)] == ["finished", "cancelled", "failed"]
    put(service, new("c", parent=parent.id, held=True))
    assert finish(service, again) == "waiting"
    assert [state(service, one) for one in (finished, cancelled, failed)] == [GONE, GONE, "failed"]
    assert read(service, failed).parent == parent.id
    (child,) = take(service, "c")
    finish(service, child)
    (again,) = take(service, "p")
    assert finish(service, again) is None
    assert state(service, child.id) == GONE
    assert read(service, failed).parent is None
    assert_consistent(service)


def test_the_failure_of_the_last_child_wakes_a_collecting_parent(service: Service) -> None:
    parent, _ = parent_with_children(service, 1)
    finish(service, parent)
    fail(service, take(service, "c")[0])
    assert state(service, parent.id) == "queued"


@pytest.mark.parametrize(("how", "end"), [("final", "failed"), ("cancelled", "cancelled")])
def test_the_first_bad_end_decides_under_the_policy_fail(service: Service, how: Any, end: str) -> None:
    parent, children = parent_with_children(service, 3, on_failure="fail")
    finish(service, parent)
    fail(service, take(service, "c")[0], how)
    assert state(service, parent.id) == end
    assert [state(service, one) for one in children[1:]] == ["cancelled", "cancelled"]
    last = service.result(parent.id).wait().last_attempt  # type: ignore[union-attr]
    assert last is not None
    assert last.reason == f"member_{end}"
    assert_consistent(service)


def test_a_running_parent_learns_of_a_failed_child_when_it_finishes(service: Service) -> None:
    put(service, new("p", on_failure="fail"))
    (parent,) = take(service, "p")
    _, pending = put(service, new("c", parent=parent.id), new("c", parent=parent.id))
    fail(service, take(service, "c")[0])
    assert state(service, parent.id) == "running"
    assert finish(service, parent) == "failed"
    assert state(service, pending.id) == "cancelled"
    assert_consistent(service)


def test_a_failed_child_does_not_matter_under_the_policy_ignore(service: Service) -> None:
    parent, _ = parent_with_children(service, 2, on_failure="ignore")
    finish(service, parent)
    first, second = take(service, "c", most=2)
    fail(service, first)
    assert state(service, parent.id) == "waiting"
    finish(service, second)
    assert state(service, parent.id) == "queued"


def test_the_final_failure_of_a_parent_cancels_its_children(service: Service) -> None:
    put(service, new("p"))
    (parent,) = take(service, "p")
    running, held, grown = put(
        service,
        new("c", parent=parent.id),
        new("c", parent=parent.id, held=True),
        new("late", parent=parent.id, delay_ms=10_000),
    )
    (child,) = take(service, "c")
    assert child.id == running.id
    fail(service, parent)
    assert [state(service, one.id) for one in (held, grown)] == ["cancelled", "cancelled"]
    asked = read(service, child.id)
    assert (asked.state, asked.is_cancel_requested, asked.parent) == (State.RUNNING, True, None)
    assert_consistent(service)


def test_a_cancel_of_a_waiting_parent_reaches_its_children_and_theirs(service: Service) -> None:
    parent, (child, other) = parent_with_children(service, 2)
    finish(service, parent)
    (job,) = take(service, "c")
    (grandchild,) = put(service, new("g", parent=job.id, held=True))
    finish(service, job)
    assert state(service, job.id) == "waiting"
    assert service.cancel([parent.id]).wait() == ["cancelled"]
    assert [state(service, one) for one in (child, other, grandchild.id)] == ["cancelled"] * 3
    assert_consistent(service)


def test_a_cancel_request_is_honoured_at_the_hand_over(service: Service) -> None:
    parent, children = parent_with_children(service, 1)
    assert service.cancel([parent.id]).wait() == ["requested"]
    assert state(service, children[0]) == "waiting"
    assert finish(service, parent) == "cancelled"
    assert [state(service, one) for one in (parent.id, *children)] == ["cancelled", "cancelled"]
    assert_consistent(service)


def test_the_cancel_of_a_held_child(service: Service) -> None:
    parent, (child, _) = parent_with_children(service, 2)
    assert service.cancel([child]).wait() == ["cancelled"]
    assert finish(service, parent) == "waiting"
    assert state(service, child) == GONE, "the parent has reported since, so it has seen the end"
    assert counts(service, "c") == {"queued": 1}
    assert_consistent(service)


def test_waiting_siblings_need_not_count_for_a_cancel(service: Service) -> None:
    parent, _ = parent_with_children(service, 3)
    finish(service, parent)
    elder, other, last = take(service, "c", most=3)
    (grandchild,) = put(service, new("g", parent=elder.id, held=True))
    assert finish(service, elder) == "waiting"
    service.release([LeaseRef(other.id, other.lease_token), LeaseRef(last.id, last.lease_token)]).wait()
    assert service.cancel([other.id], counts_waiting=False).wait() == ["cancelled"]
    assert state(service, parent.id) == "waiting", "one sibling is queued"
    service.cancel([last.id]).wait()
    assert state(service, parent.id) == "waiting", "the elder waits, and counts"
    (another,) = put(service, new("c", parent=parent.id))
    assert service.cancel([another.id], counts_waiting=False).wait() == ["cancelled"]
    assert [state(service, one) for one in (parent.id, elder.id, grandchild.id)] == ["queued", "waiting", "queued"]
    assert_consistent(service)


def test_a_failed_child_may_be_called_off(service: Service) -> None:
    parent, _ = parent_with_children(service, 2)
    finish(service, parent)
    broken, other = take(service, "c", most=2)
    fail(service, broken)
    assert isinstance(service.cancel([broken.id]).wait()[0], AlreadyEnded)
    assert service.cancel([broken.id], even_failed=True).wait() == ["cancelled"]
    assert [one.job.id for one in service.list_members(parent.id, (State.CANCELLED,)).wait().members] == [broken.id]
    finish(service, other)
    (again,) = take(service, "p")
    assert finish(service, again) is None
    assert state(service, broken.id) == GONE
    assert_consistent(service)


def test_a_failed_job_that_is_called_off_keeps_its_retention(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    fail(service, job)
    assert service.cancel([job.id], even_failed=True).wait() == ["cancelled"]
    assert_consistent(service)
    service.store.clock_offset_ms = 15 * 86_400_000
    service.clean().wait()
    assert state(service, job.id) == GONE


def test_a_requeued_parent_leaves_its_held_children_waiting(service: Service) -> None:
    parent, children = parent_with_children(service, 1)
    assert service.requeue([parent.id]).wait() == ["queued"]
    (again,) = take(service, "p")
    assert state(service, children[0]) == "waiting"
    finish(service, again)
    assert state(service, children[0]) == "queued"
    assert service.requeue([parent.id]).wait() == ["queued"]
    assert state(service, children[0]) == "queued"
    assert_consistent(service)


def test_a_requeued_child_is_held_no_longer(service: Service) -> None:
    _, (child,) = parent_with_children(service, 1)
    assert service.requeue([child]).wait() == ["queued"]
    assert not read(service, child).is_held
    assert_consistent(service)


def test_a_child_that_is_retried_counts_again(service: Service) -> None:
    parent, _ = parent_with_children(service, 2)
    finish(service, parent)
    first, second = take(service, "c", most=2)
    fail(service, first)
    assert service.retry([first.id]).wait() == ["queued"]
    finish(service, second)
    assert state(service, parent.id) == "waiting"
    finish(service, take(service, "c")[0])
    assert state(service, parent.id) == "queued"
    assert_consistent(service)


def test_a_failed_child_outlives_its_parent_and_may_be_retried(service: Service) -> None:
    parent, _ = parent_with_children(service, 1)
    finish(service, parent)
    (child,) = take(service, "c")
    fail(service, child)
    finish(service, take(service, "p")[0])
    assert service.retry([child.id]).wait() == ["queued"]
    assert finish(service, take(service, "c")[0]) is None
    assert state(service, child.id) == GONE
    assert_consistent(service)


def test_the_deletion_of_a_child_is_not_an_end(service: Service) -> None:
    parent, (child, other) = parent_with_children(service, 2)
    finish(service, parent)
    assert service.delete([child, other]).wait() == ["deleted", "deleted"]
    assert state(service, parent.id) == "waiting"
    assert service.wake([parent.id]).wait() == ["queued"]
    assert finish(service, take(service, "p")[0]) is None
    assert_consistent(service)


def test_the_other_children_still_wake_a_parent_that_lost_one(service: Service) -> None:
    parent, (child, _) = parent_with_children(service, 2)
    finish(service, parent)
    service.delete([child]).wait()
    finish(service, take(service, "c")[0])
    assert state(service, parent.id) == "queued"


def test_children_of_a_deleted_parent_go_on_as_ordinary_jobs(service: Service) -> None:
    parent, children = parent_with_children(service, 2)
    put(service, new("c", parent=parent.id))
    (ended,) = take(service, "c")
    finish(service, ended)
    assert service.delete([parent.id], even_leased=True).wait() == ["deleted"]
    assert [state(service, one) for one in (*children, ended.id)] == ["queued", "queued", GONE]
    assert read(service, children[0]).parent is None
    for job in take(service, "c", most=2):
        finish(service, job)
    assert counts(service, "c") == {}
    assert_consistent(service)


def test_a_lost_lease_of_a_child_counts_as_pending_and_as_an_end_when_it_is_the_last(service: Service) -> None:
    parent, _ = parent_with_children(service, 0)
    put(service, new("c", parent=parent.id, retry=Backoff(tries=2)))
    finish(service, parent)
    take(service, "c")
    service.store.clock_offset_ms = 60_000
    service.recover().wait()
    assert state(service, parent.id) == "waiting"
    take(service, "c")
    service.store.clock_offset_ms = 120_000
    service.recover().wait()
    assert state(service, parent.id) == "queued"
    assert_consistent(service)


def test_an_expired_child_is_an_end(service: Service) -> None:
    parent, _ = parent_with_children(service, 0)
    put(service, new("c", parent=parent.id, held=True, expires_in_ms=1000))
    finish(service, parent)
    service.store.clock_offset_ms = 2_000
    service.clean().wait()
    assert state(service, parent.id) == "queued"
    assert_consistent(service)


def test_a_parent_that_has_started_does_not_expire_while_it_waits(service: Service) -> None:
    parent, _ = parent_with_children(service, 1, expires_in_ms=5_000)
    finish(service, parent)
    service.store.clock_offset_ms = 10_000
    service.clean().wait()
    assert state(service, parent.id) == "waiting"
    assert_consistent(service)


def test_a_child_keeps_its_own_time(service: Service) -> None:
    parent, _ = parent_with_children(service, 0)
    put(service, new("c", parent=parent.id, held=True, delay_ms=5_000))
    finish(service, parent)
    assert counts(service, "c") == {"scheduled": 1}


def test_the_result_of_a_child_is_kept_for_its_parent_only(service: Service) -> None:
    parent, (child,) = parent_with_children(service, 1)
    finish(service, parent)
    finish(service, take(service, "c")[0], Blob(b"42"))
    ending = service.result(child).wait()
    assert ending is not None
    assert ending.result == Blob(b"42")
    service.store.clock_offset_ms = 40 * 86_400_000
    service.clean().wait()
    assert state(service, child) == "finished"
    finish(service, take(service, "p")[0])
    assert state(service, child) == GONE
    assert_consistent(service)


def test_ordinary_retention_holds_again_after_the_parent(service: Service) -> None:
    parent, _ = parent_with_children(service, 0)
    put(service, new("c", parent=parent.id, result_ttl_ms=60_000))
    (child,) = take(service, "c")
    finish(service, child, Blob(b"1"))
    service.store.clock_offset_ms = 30_000
    service.extend([LeaseRef(parent.id, parent.lease_token)]).wait()
    finish(service, parent)
    assert state(service, child.id) == "finished"
    assert_consistent(service)
    service.store.clock_offset_ms = 61_000
    service.clean().wait()
    assert state(service, child.id) == GONE


def test_children_go_into_the_history_when_their_parent_has_ended(service: Service) -> None:
    service.configure("c", {"history_length": 5}).wait()
    parent, (child,) = parent_with_children(service, 1)
    finish(service, parent)
    finish(service, take(service, "c")[0])
    assert counts(service, "c") == {"finished": 1}
    finish(service, take(service, "p")[0])
    assert counts(service, "c") == {"history": 1}
    assert read(service, child).is_history
    assert_consistent(service)


def test_groups_that_end_at_once_do_not_outgrow_the_history(service: Service) -> None:
    service.configure("q", {"history_length": 2}).wait()
    for _ in range(4):
        put(service, new(joins=True))
    assert counts(service) == {"history": 2}
