"""list_members: a job's children and dependencies by state, with payloads and outcomes, in pages."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from tests.service.machines.dependency_builders import fail, finish, parent_with_children
from windlass.core.errors import UnknownJob
from windlass.core.job import Blob, Codec
from windlass.core.states import State
from windlass.service import Service


def test_members_with_payload_and_outcome(service: Service) -> None:
    parent, _ = parent_with_children(service, 0)
    payload = Blob(b"x" * 5_000, Codec.RAW)
    put(service, *(new("c", parent=parent.id, payload=payload) for _ in range(3)))
    done, broken, running = take(service, "c", most=3)
    finish(service, done, Blob(b"7"))
    fail(service, broken)
    page = service.list_members(parent.id).wait()
    assert page.cursor == ""
    found = {member.job.id: member for member in page.members}
    assert {job_id: member.job.state for job_id, member in found.items()} == {
        done.id: State.FINISHED, broken.id: State.FAILED, running.id: State.RUNNING,
    }  # fmt: skip
    assert all(member.job.payload == payload and member.job.payload_is_whole for member in page.members)
    assert (found[done.id].result, found[running.id].result) == (Blob(b"7"), None)
    last = found[broken.id].last_attempt
    assert last is not None
    assert last.reason == "error"


def test_members_of_some_states(service: Service) -> None:
    parent, children = parent_with_children(service, 4)
    service.cancel(children[:1]).wait()
    assert [one.job.id for one in service.list_members(parent.id, (State.CANCELLED,)).wait().members] == children[:1]
    waiting = service.list_members(parent.id, (State.WAITING, State.FINISHED)).wait().members
    assert {one.job.id for one in waiting} == set(children[1:])


def test_pages(service: Service) -> None:
    parent, children = parent_with_children(service, 25)
    service.cancel(children[:10]).wait()
    seen: list[bytes] = []
    cursor = ""
    while True:
        page = service.list_members(parent.id, most=7, cursor=cursor).wait()
        assert len(page.members) <= 7
        seen += [member.job.id for member in page.members]
        cursor = page.cursor
        if not cursor:
            break
    assert sorted(seen) == sorted(children)


def test_a_page_ends_when_it_is_big_enough(service: Service) -> None:
    parent, _ = parent_with_children(service, 0)
    big = Blob(b"x" * 1_000_000, Codec.RAW)
    for _ in range(7):
        put(service, new("c", parent=parent.id, payload=big))
    page = service.list_members(parent.id).wait()
    assert 4 <= len(page.members) < 7
    rest = service.list_members(parent.id, cursor=page.cursor).wait()
    assert len(page.members) + len(rest.members) == 7
    assert rest.cursor == ""


def test_a_job_without_members_and_no_job(service: Service) -> None:
    (job,) = put(service, new())
    assert service.list_members(job.id).wait().members == []
    with pytest.raises(UnknownJob):
        service.list_members(service.store.new_id("q")).wait()


def test_a_child_knows_its_parent(service: Service) -> None:
    parent, (child,) = parent_with_children(service, 1, payload=Blob(b'"of the parent"'))
    link = service.job([child]).one().wait().job.parent
    assert link is not None
    assert service.job([link]).one().wait().job.payload == parent.payload
