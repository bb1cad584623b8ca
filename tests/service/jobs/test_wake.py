"""wake: ends the wait of jobs, whatever they wait for."""

from __future__ import annotations

from tests.service.helpers import new, put, read, take
from tests.service.machines.dependency_builders import GONE, assert_consistent, finish, parent_with_children, state
from windlass.core.errors import AlreadyEnded, UnknownJob, WrongState
from windlass.service import Service


def test_a_waiting_parent_goes_on_and_waits_again_when_it_finishes(service: Service) -> None:
    parent, children = parent_with_children(service, 1)
    finish(service, parent)
    assert service.wake([parent.id]).wait() == ["queued"]
    (again,) = take(service, "p")
    assert finish(service, again) == "waiting"
    assert state(service, children[0]) == "queued"
    assert_consistent(service)


def test_a_held_child_starts(service: Service) -> None:
    _, (child,) = parent_with_children(service, 1)
    assert service.wake([child]).wait() == ["queued"]
    assert not read(service, child).is_held
    assert_consistent(service)


def test_a_dependent_starts_by_its_own_time(service: Service) -> None:
    (first,) = put(service, new())
    soon, later = put(service, new("b", after=(first.id,)), new("b", after=(first.id,), delay_ms=5_000))
    assert service.wake([soon.id, later.id]).wait() == ["queued", "scheduled"]
    (job,) = take(service, "b")
    finish(service, take(service)[0])
    assert finish(service, job) is None
    assert_consistent(service)


def test_a_group_ends(service: Service) -> None:
    (first,) = put(service, new())
    (group,) = put(service, new("b", after=(first.id,), joins=True))
    assert service.wake([group.id]).wait() == ["finished"]
    assert [state(service, one.id) for one in (first, group)] == ["queued", GONE]
    assert_consistent(service)


def test_refusals(service: Service) -> None:
    (queued,) = put(service, new())
    (running,) = take(service)
    assert isinstance(service.wake([queued.id]).wait()[0], WrongState)
    finish(service, running)
    refused = service.wake([running.id, service.store.new_id("q")]).wait()
    assert [type(one) for one in refused] == [AlreadyEnded, UnknownJob]


def test_waking_wakes_a_taker(service: Service) -> None:
    parent, (child,) = parent_with_children(service, 1)
    finish(service, parent)
    service.delete([child]).wait()
    service.wake([parent.id]).wait()
    assert [job.id for job in take(service, "p", wait_ms=5_000)] == [parent.id]
