"""Interaction of features: limits and dependencies, repeating jobs and parents, unique keys and waits, callbacks of
jobs that others end."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, read, take
from windlass.core.job import Blob, Callback, Job
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Edit, Fail, Filter, Finish, Take
from windlass.core.scheduling.schedule import Schedule
from windlass.core.states import State
from windlass.service import Service

HOOK = Callback(url="http://h/")


def one_at_a_time(service: Service, **matches: str) -> None:
    service.limit(Limit(name="one", matches=Matcher(**matches), running=1)).wait()


def finish(service: Service, job: Job) -> str | None:
    return service.finish([Finish(job.id, job.lease_token)]).one().wait()


def pending_callbacks(service: Service) -> set[tuple[bytes, State]]:
    return {(pending.job.id, pending.job.state) for pending in service.callbacks().wait().callbacks}


def test_a_parent_that_hands_over_frees_its_place_and_needs_one_to_go_on(service: Service) -> None:
    one_at_a_time(service)
    (parent,) = put(service, new())
    (running,) = take(service)
    (child,) = put(service, new(parent=parent.id, held=True))
    assert finish(service, running) == "waiting"
    (only,) = take(service, most=2)
    assert only.id == child.id
    (urgent,) = put(service, new(priority=-1))
    assert finish(service, only) is None
    (other,) = take(service, most=2)
    assert other.id == urgent.id
    assert read(service, parent.id).state is State.QUEUED
    assert finish(service, other) is None
    (again,) = take(service, most=2)
    assert again.id == parent.id


def test_a_waiting_parent_put_back_by_hand_waits_for_a_place(service: Service) -> None:
    one_at_a_time(service)
    (parent,) = put(service, new())
    (running,) = take(service)
    put(service, new(parent=parent.id, held=True))
    finish(service, running)
    (child,) = take(service)
    assert service.requeue([parent.id]).one().wait() == "queued"
    assert take(service) == []
    finish(service, child)
    (again,) = take(service)
    assert again.id == parent.id


def test_an_exchange_uses_the_place_it_frees(service: Service) -> None:
    one_at_a_time(service)
    put(service, new("q"), new("r"))
    (first,) = take(service)
    found = service.finish_and_take([Finish(first.id, first.lease_token)], [], Take(queues=("q", "r"), most=2)).wait()
    assert [job.queue for job in found.taken.jobs] == ["r"]


def test_a_repeating_child_keeps_its_parent_waiting(service: Service) -> None:
    (parent,) = put(service, new())
    (running,) = take(service)
    (child,) = put(service, new(parent=parent.id, repeat="FINISHED, +0 SECONDS"))
    assert finish(service, running) == "waiting"
    for _ in range(2):
        service.store.clock_offset_ms += 1_000
        (run,) = take(service)
        assert run.id == child.id
        assert finish(service, run) is None
        assert read(service, parent.id).state is State.WAITING
    service.store.clock_offset_ms += 1_000
    (run,) = take(service)
    service.finish([Finish(run.id, run.lease_token, ignore_repeat=True)]).one().wait()
    assert read(service, parent.id).state is State.QUEUED


def test_content_that_goes_into_a_waiting_job_does_not_end_its_wait(service: Service) -> None:
    (first,) = put(service, new("r"))
    (waiting,) = put(service, new(unique="u", after=(first.id,)))
    (answer,) = put(service, new(unique="u", unique_check="replace", payload=Blob(b"2")))
    assert (answer.id, answer.status) == (waiting.id, "replaced")
    (answer,) = put(service, new(unique="u", debounce_ms=1_000, payload=Blob(b"3")))
    assert (answer.id, answer.status) == (waiting.id, "replaced")
    assert counts(service) == {"waiting": 1}
    (job,) = take(service, "r")
    finish(service, job)
    service.store.clock_offset_ms += 2_000
    (job,) = take(service)
    assert (job.id, job.payload) == (waiting.id, Blob(b"3"))


@pytest.mark.parametrize("end", ["member failed", "cancel", "expiry", "joins"])
def test_a_job_that_others_end_gets_its_callback(service: Service, end: str) -> None:
    (first,) = put(service, new("r"))
    terms = {"expires_in_ms": 500} if end == "expiry" else {"joins": True} if end == "joins" else {}
    (waiting,) = put(service, new(after=(first.id,), callback=HOOK, **terms))
    (job,) = take(service, "r")
    expected = State.FAILED
    if end == "member failed":
        service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    elif end == "expiry":
        service.store.clock_offset_ms += 1_000
        service.clean().wait()
    elif end == "cancel":
        service.cancel([waiting.id]).one().wait()
        expected = State.CANCELLED
    else:
        finish(service, job)
        expected = State.FINISHED
    assert pending_callbacks(service) == {(waiting.id, expected)}


def test_a_cancel_that_reaches_children_creates_a_callback_for_each(service: Service) -> None:
    (group,) = put(service, new(joins=True, callback=HOOK, after=(put(service, new("r"))[0].id,)))
    (child,) = put(service, new(parent=group.id, callback=HOOK))
    service.cancel([group.id]).one().wait()
    assert pending_callbacks(service) == {(group.id, State.CANCELLED), (child.id, State.CANCELLED)}


def test_a_waiting_job_renamed_comes_into_the_lane_of_its_new_name(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    (first,) = put(service, new("r"))
    (waiting,) = put(service, new(name="old", after=(first.id,)))
    service.edit([Edit(id=waiting.id, name="new")]).one().wait()
    (job,) = take(service, "r")
    finish(service, job)
    assert take(service, wants=Filter(only=("old",))) == []
    (job,) = take(service, wants=Filter(only=("new",)))
    assert job.id == waiting.id


def test_a_paused_name_stays_paused_when_its_limit_has_room_again(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    one_at_a_time(service, name="n")
    put(service, new(), new())
    (first,) = take(service)
    assert take(service) == []
    service.pause("q", name="n").wait()
    finish(service, first)
    assert take(service) == []
    service.resume("q", name="n").wait()
    assert len(take(service, most=2)) == 1


def test_a_lost_redeliverable_lease_frees_its_slot_for_others_too(service: Service) -> None:
    one_at_a_time(service)
    put(service, new(retake=True, lease_ms=1_000))
    (first,) = take(service)
    put(service, new(priority=-1))
    service.store.clock_offset_ms += 2_000
    (other,) = take(service, most=2)
    assert other.id != first.id
    assert take(service) == []
    finish(service, other)
    (again,) = take(service)
    assert again.id == first.id


def test_an_occurrence_that_replaces_a_job_cancels_its_children(service: Service) -> None:
    service.schedule(Schedule(name="s", job=new(), every_ms=1_000, overlap="replace")).wait()
    service.store.clock_offset_ms += 1_000
    service.fire().wait()
    (parent,) = take(service)
    (child,) = put(service, new("r", parent=parent.id, held=True))
    assert finish(service, parent) == "waiting"
    service.store.clock_offset_ms += 1_000
    service.fire().wait()
    assert read(service, parent.id).state is State.CANCELLED
    assert read(service, child.id).state is State.CANCELLED
    assert counts(service) == {"queued": 1, "cancelled": 1}


def test_a_held_child_put_into_its_queue_by_hand_is_held_no_longer(service: Service) -> None:
    (parent,) = put(service, new("r"))
    (running,) = take(service, "r")
    (child,) = put(service, new(parent=parent.id, held=True))
    assert service.requeue([child.id]).one().wait() == "queued"
    assert not read(service, child.id).is_held
    assert finish(service, running) == "waiting"
    (job,) = take(service)
    assert finish(service, job) is None
    assert read(service, parent.id).state is State.QUEUED
