"""complete_with_children: end of a run with new content, in one step, under guards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.helpers import new, put, read, take
from tests.service.machines.dependency_builders import GONE, assert_consistent, finish, parent_with_children, state
from windlass.core.errors import (
    AlreadyEnded,
    ParentState,
    Refusal,
    RevisionConflict,
    StaleLease,
    UnknownJob,
    WrongState,
)
from windlass.core.job import Blob, Job
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import CompleteWithChildren, Filter, Finish
from windlass.core.states import State
from windlass.service import Service


def complete(service: Service, job_id: bytes, then: Any, **more: Any) -> Any:
    (answer,) = service.complete_with_children([CompleteWithChildren(id=job_id, then=then, **more)]).wait()
    return answer


def running(service: Service, **kw: Any) -> Job:
    put(service, new(**kw))
    return take(service)[0]


def test_a_good_end(service: Service) -> None:
    job = running(service)
    assert complete(service, job.id, "finish", token=job.lease_token) == "finished"
    assert state(service, job.id) == GONE
    assert isinstance(complete(service, job.id, "finish"), AlreadyEnded)
    assert_consistent(service)


def test_a_bad_end_with_content(service: Service) -> None:
    job = running(service, payload=Blob(b"1"))
    assert complete(service, job.id, "fail", payload=Blob(b"2"), reason="broken") == "failed"
    found = service.job([job.id]).one().wait()
    assert (found.job.state, found.job.payload.data, found.attempts[0].reason) == (State.FAILED, b"2", "broken")
    assert found.attempts[0].attempt == 1
    assert_consistent(service)


def test_again_with_everything(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    job = running(service, name="old", payload=Blob(b"1"), unique="k", unique_check="none", repeat="HOURLY")
    answer = complete(
        service, job.id, "again", run_at_ms=5_000, name="new", unique="other", priority=-3, payload=Blob(b"2"),
        repeat="DAILY", attempt=4,
    )  # fmt: skip
    assert answer == "again"
    found = read(service, job.id)
    assert (found.state, found.run_at_ms, found.planned_at_ms, found.name, found.unique, found.priority) == (
        State.QUEUED, 5_000, 5_000, "new", "other", -3,
    )  # fmt: skip
    assert (found.payload.data, found.repeat, found.attempt, found.revision, found.lease_token) == (
        b"2", "DAILY", 4, job.revision + 1, 0,
    )  # fmt: skip
    assert service.holder("q", "k").wait() is None
    assert service.holder("q", "other").wait() == job.id
    assert_consistent(service)
    assert take(service, wants=Filter(only=("new",)))[0].id == job.id


def test_a_delay_ends_on_a_whole_second(service: Service) -> None:
    job = running(service)
    now = service.now().wait()
    assert complete(service, job.id, "again", delay_ms=10_000) == "again"
    found = read(service, job.id)
    assert found.state is State.SCHEDULED
    assert found.run_at_ms % 1000 == 0
    assert now + 9_000 <= found.run_at_ms <= service.now().wait() + 10_000
    assert_consistent(service)


@pytest.mark.parametrize("then", ["finish", "again", "fail"])
def test_guards(service: Service, then: str) -> None:
    job = running(service)
    given: dict[str, Any] = {"run_at_ms": 5} if then == "again" else {}
    before = read(service, job.id)
    for guard, refusal in (
        ({"token": job.lease_token + 1}, StaleLease),
        ({"if_revision": job.revision + 1}, RevisionConflict),
    ):
        assert isinstance(complete(service, job.id, then, **guard, **given), refusal)
    (queued,) = put(service, new())
    assert isinstance(complete(service, queued.id, then, **given), WrongState)
    assert isinstance(complete(service, bytes(range(16)), then, **given), UnknownJob)
    assert read(service, job.id) == before
    assert_consistent(service)


def test_a_child_only_while_its_parent_waits(service: Service) -> None:
    parent, (child,) = parent_with_children(service, 1)
    service.requeue([child]).wait()
    take(service, "c")
    for then, given in (("finish", {}), ("again", {"run_at_ms": 5})):
        assert isinstance(complete(service, child, then, if_parent_waits=True, **given), ParentState)
    finish(service, parent)
    assert complete(service, child, "finish", if_parent_waits=True) == "finished"
    assert (state(service, child), state(service, parent.id)) == ("finished", "queued")
    assert_consistent(service)


def test_a_finish_hands_over_with_its_content(service: Service) -> None:
    parent, children = parent_with_children(service, 2)
    assert complete(service, parent.id, "finish", payload=Blob(b"2"), run_at_ms=5) == "waiting"
    assert read(service, parent.id).payload.data == b"2"
    assert [state(service, one) for one in children] == ["queued", "queued"]
    assert_consistent(service)


def test_a_finish_that_goes_on(service: Service) -> None:
    job = running(service, repeat="HOURLY")
    assert complete(service, job.id, "finish", run_at_ms=5_000) == "again"
    found = read(service, job.id)
    assert (found.state, found.run_at_ms, found.attempt) == (State.QUEUED, 5_000, 0)
    assert_consistent(service)


@pytest.mark.parametrize(("keeps", "left"), [(False, [GONE, "waiting"]), (True, ["finished", "waiting"])])
def test_again_dissolves_what_has_ended_unless_it_is_to_stay(service: Service, keeps: bool, left: list[str]) -> None:
    parent, (child,) = parent_with_children(service, 1)
    finish(service, parent)
    finish(service, take(service, "c")[0])
    take(service, "p")
    (late,) = put(service, new("c", parent=parent.id, held=True))
    assert complete(service, parent.id, "again", run_at_ms=5, keeps_members=keeps) == "again"
    assert [state(service, one) for one in (child, late.id)] == left
    assert_consistent(service)


@pytest.mark.parametrize("before", ["queued", "scheduled", "waiting", "running", "failed", "cancelled", "finished"])
@pytest.mark.parametrize("then", ["finish", "again"])
def test_in_any_state(service: Service, before: str, then: str) -> None:
    job_id = _in_state(service, before)
    assert state(service, job_id) == before
    given: dict[str, Any] = {"run_at_ms": 5_000, "attempt": 2} if then == "again" else {}
    answer = complete(service, job_id, then, in_any_state=True, payload=Blob(b"2"), **given)
    if then == "finish":
        kept = "finished" if before == "finished" else GONE  # its result's time is not over
        assert (answer, state(service, job_id)) == ("finished", kept)
    else:
        found = read(service, job_id)
        assert (answer, found.state, found.run_at_ms, found.attempt) == ("again", State.QUEUED, 5_000, 2)
        assert (found.payload.data, take(service)[0].id) == (b"2", job_id)
    assert_consistent(service)


def _in_state(service: Service, wanted: str) -> bytes:
    match wanted:
        case "scheduled":
            (made,) = put(service, new(delay_ms=60_000))
        case "waiting":
            (other,) = put(service, new("other"))
            (made,) = put(service, new(after=(other.id,)))
        case "finished":
            (made,) = put(service, new(result_ttl_ms=60_000))
        case _:
            (made,) = put(service, new())
    if wanted in ("running", "failed", "finished"):
        take(service)
    if wanted == "failed":
        complete(service, made.id, "fail")
    elif wanted == "cancelled":
        service.cancel([made.id]).wait()
    elif wanted == "finished":
        service.finish([Finish(made.id, 0)]).wait()
    return made.id


def test_a_requested_cancel_is_honoured(service: Service) -> None:
    for then, given in (("again", {"run_at_ms": 5}), ("finish", {"run_at_ms": 5})):
        job = running(service)
        service.cancel([job.id]).wait()
        assert complete(service, job.id, then, **given) == "cancelled"
        assert state(service, job.id) == "cancelled"
    assert_consistent(service)


def test_limits_follow_the_new_content(service: Service) -> None:
    service.limit(Limit(name="one", matches=Matcher(queue="q", name="a"), running=1)).wait()
    put(service, new(name="a"), new(name="b"))
    first, second = take(service, most=2)
    assert complete(service, second.id, "again", run_at_ms=5, name="a") == "again"
    assert take(service) == [], "the limit has no room"
    assert complete(service, first.id, "fail", payload=Blob(b"2")) == "failed"
    assert take(service)[0].id == second.id
    assert complete(service, first.id, "again", run_at_ms=5, in_any_state=True) == "again"
    assert take(service) == [], "one that goes on after its end counts too"
    assert_consistent(service)


def test_many_at_once_answer_one_by_one(service: Service) -> None:
    put(service, *(new() for _ in range(3)))
    first, second, third = take(service, most=3)
    answers = service.complete_with_children(
        [
            CompleteWithChildren(id=first.id, then="finish"),
            CompleteWithChildren(id=second.id, then="again", run_at_ms=5),
            CompleteWithChildren(id=third.id, then="fail", token=1),
        ]
    ).wait()
    assert answers[:2] == ["finished", "again"]
    assert isinstance(answers[2], Refusal)
    assert_consistent(service)
