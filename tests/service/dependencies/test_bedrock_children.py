"""Parents and children as Bedrock's clients use them: two runs of the parent, the children between them."""

from __future__ import annotations

from tests.service.helpers import new, put, read, take
from tests.service.machines.dependency_builders import GONE, assert_consistent, finish, parent_with_children, state
from windlass.core.job import Blob
from windlass.core.operations import Edit, Fail, Finish, Update
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.service import Service


def test_a_parent_runs_twice_and_sees_what_its_children_did(service: Service) -> None:
    service.configure("c", {"retention_ms": FOREVER_MS}).wait()
    parent, (done, dropped, broken) = parent_with_children(service, 3, lease_ms=FOREVER_MS)
    assert [state(service, one) for one in (done, dropped, broken)] == ["waiting"] * 3
    assert service.finish([Finish(parent.id, 0)]).wait() == ["waiting"]
    assert [state(service, one) for one in (done, dropped, broken)] == ["queued"] * 3
    assert service.cancel([dropped], counts_waiting=False).wait() == ["cancelled"]
    first, second = take(service, "c", most=5, lease_ms=FOREVER_MS)
    service.update([Update(id=first.id, token=0, payload=Blob(b'{"a":1}'))]).wait()
    assert service.finish([Finish(first.id, 0)]).wait() == [None]
    (sibling,) = put(service, new("c", parent=parent.id, held=True))
    assert sibling.status == "queued", "a running child adds a sibling"
    assert service.fail([Fail(id=second.id, token=0)]).wait() == ["failed"]
    assert state(service, parent.id) == "waiting"
    finish(service, take(service, "c")[0])
    (again,) = take(service, "p")
    seen = service.list_members(again.id, (State.FINISHED, State.CANCELLED)).wait().members
    assert {one.job.id: one.job.payload.data for one in seen} == {
        done: b'{"a":1}', dropped: b"null", sibling.id: b"null",
    }  # fmt: skip
    assert service.finish([Finish(again.id, 0)]).wait() == [None]
    assert [state(service, one) for one in (parent.id, done, dropped, sibling.id)] == [GONE] * 4
    assert (read(service, broken).state, read(service, broken).parent) == (State.FAILED, None)
    assert_consistent(service)


def test_a_resumed_parent_stands_before_what_came_later(service: Service) -> None:
    parent, _ = parent_with_children(service, 1)
    put(service, new("p"))
    finish(service, parent)
    finish(service, take(service, "c")[0])
    assert take(service, "p")[0].id == parent.id


def test_an_overdue_parent_is_handed_out_again_and_its_children_stay(service: Service) -> None:
    parent, children = parent_with_children(service, 2, retake=True, lease_ms=1_000)
    service.store.clock_offset_ms = 2_000
    (again,) = take(service, "p")
    assert again.id == parent.id
    assert [state(service, one) for one in children] == ["waiting", "waiting"]
    assert service.finish([Finish(parent.id, 0)]).wait() == ["waiting"]
    assert [state(service, one) for one in children] == ["queued", "queued"]
    assert_consistent(service)


def test_an_overdue_parent_that_reports_late_still_hands_over(service: Service) -> None:
    parent, _ = parent_with_children(service, 1, retake=True, lease_ms=1_000)
    service.store.clock_offset_ms = 2_000
    service.recover().wait()
    assert read(service, parent.id).is_overdue
    assert service.finish([Finish(parent.id, 0)]).wait() == ["waiting"]
    assert take(service, "p") == []
    assert_consistent(service)


def test_a_requeued_parent_with_children(service: Service) -> None:
    parent, (child, other) = parent_with_children(service, 2)
    finish(service, parent)
    assert service.requeue([parent.id, child]).wait() == ["queued", "queued"]
    service.edit([Edit(id=other, priority=-5)]).wait()
    assert [job.id for job in take(service, "c", most=2)] == [other, child]
    (again,) = take(service, "p")
    assert finish(service, again) == "waiting"
    assert_consistent(service)
