"""taken_details: deadlines, numbers, parents and ended children of taken jobs, in pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.helpers import new, put, read, take
from tests.service.machines.dependency_builders import assert_consistent, fail, finish
from tests.support.engine_process import EngineProcess
from tests.support.namespace import record_operations
from windlass.core.errors import UnknownJob
from windlass.core.ids import numbered_id
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import TakenDetails, TakenRef
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.service import Service
from windlass.store.commands import numbers as commands
from windlass.store.commands.command import Flow
from windlass.store.store import Store


def reference(job: Job, lease_ms: int = 0) -> TakenRef:
    """Return the reference to a taken job. These jobs may have got children since."""
    return TakenRef(job.id, job.lease_token, lease_ms, job.parent or b"", has_members=True)


def details(service: Service, *jobs: Job, lease_ms: int = 0) -> list[TakenDetails]:
    answers = service.taken_details("q", [reference(job, lease_ms) for job in jobs]).wait()
    assert all(isinstance(answer, TakenDetails) for answer in answers), answers
    return answers  # type: ignore[return-value]


def running(service: Service, name: str = "n", **fields: object) -> Job:
    put(service, new(name=name, **fields))
    (job,) = take(service)
    assert job.name == name
    return job


def parent_with_ended(service: Service, count: int, name: str = "parent", payload: Blob | None = None) -> Job:
    """Make a running job with finished children in its queue."""
    parent = running(service, name)
    content = {} if payload is None else {"payload": payload}
    put(service, *(new(name="child", parent=parent.id, **content) for _ in range(count)))
    for start in range(0, count, 500):
        for child in take(service, most=min(500, count - start)):
            finish(service, child)
    return parent


def test_a_job_gets_a_number_once(service: Service) -> None:
    job = running(service)
    assert details(service, job) == details(service, job) == [TakenDetails(1)]
    assert service.find_numbers([1]).wait() == [job.id]
    assert_consistent(service)


def test_a_number_of_an_id(service: Service) -> None:
    (drawn,) = service.reserve_numbers("q").wait()
    assert details(service, running(service, id=drawn)) == [TakenDetails(1)]
    assert running(service, "next").id != numbered_id(2, 0)


def test_the_parent(service: Service) -> None:
    parent = running(service, "parent", payload=Blob(b"x" * 5_000, Codec.RAW))
    children = [running(service, "child", parent=parent.id) for _ in range(2)]
    first, second = details(service, *children)
    assert first.parent is not None
    assert first.parent == second.parent
    assert (first.parent.job.payload, first.parent.job.id) == (parent.payload, parent.id)
    assert {first.number, second.number, first.parent.number} == {1, 2, 3}
    assert service.number([parent.id]).wait() == [first.parent.number]
    assert_consistent(service)


def test_a_parent_gets_a_number_once(service: Service) -> None:
    """Only the parent changes: its child was created under a number."""
    (drawn,) = service.reserve_numbers("q").wait()
    parent = running(service, "parent")
    child = running(service, "child", id=drawn, parent=parent.id)
    for _ in range(2):
        (found,) = details(service, child)
        assert found.parent is not None
        assert (found.number, found.parent.number) == (1, 2)
    assert_consistent(service)


def test_a_parent_is_sent_once(service: Service) -> None:
    parent = running(service, "parent")
    children = [running(service, "child", parent=parent.id) for _ in range(3)]
    command = commands.taken_details("q", [commands.first_page(reference(child)) for child in children], 0)
    command.read = lambda reply: reply  # as the engine sent it

    def flow() -> Flow[Any]:
        return (yield command)

    answers, parents = service.store.run_sync(flow())
    assert ([answer[2] for answer in answers], len(parents)) == ([parent.id] * 3, 1)


@pytest.mark.parametrize("parent_first", [True, False])
def test_a_parent_that_is_taken_itself(service: Service, parent_first: bool) -> None:
    """Its new deadline and its number are both stored."""
    parent = running(service, "parent", lease_ms=5_000, payload=Blob(b"x" * 5_000, Codec.RAW))
    child = running(service, "child", parent=parent.id, lease_ms=5_000)
    taken = (parent, child) if parent_first else (child, parent)
    found = dict(zip([job.id for job in taken], details(service, *taken, lease_ms=FOREVER_MS), strict=True))
    shown = found[child.id].parent
    assert shown is not None
    assert (shown.number, shown.job.payload) == (found[parent.id].number, parent.payload)
    assert [read(service, job.id).lease_deadline_at_ms for job in taken] == [None, None]
    assert_healthy(service)
    assert_consistent(service)


def test_ended_children(service: Service) -> None:
    parent = running(service, "parent")
    put(service, *(new(name="c", parent=parent.id, payload=Blob(b'"%d"' % n)) for n in range(4)))
    done, broken, stopped, _ = take(service, most=4)
    (waiting,) = put(service, new(name="later", parent=parent.id, delay_ms=60_000))
    finish(service, done)
    fail(service, broken)
    fail(service, stopped, then="cancelled")
    (found,) = details(service, parent)
    assert [(child.job.id, child.job.state, child.job.payload) for child in found.children] == [
        (done.id, State.FINISHED, Blob(b'"0"')), (broken.id, State.FAILED, Blob(b'"1"')),
        (stopped.id, State.CANCELLED, Blob(b'"2"')),
    ]  # fmt: skip
    assert service.number([child.job.id for child in found.children]).wait() == [
        child.number for child in found.children
    ]
    assert read(service, waiting.id).state is State.SCHEDULED
    assert_consistent(service)


def test_jobs_of_other_queues_are_not_shown(service: Service) -> None:
    parent = running(service, "parent")
    put(service, new("other", parent=parent.id))
    (child,) = take(service, "other")
    (found,) = service.taken_details("other", [reference(child)]).wait()
    assert found == TakenDetails(1)
    finish(service, child)
    assert details(service, parent)[0].children == ()


def test_jobs_that_it_waits_for_are_no_children(service: Service) -> None:
    before = running(service, "before")
    put(service, new(name="after", after=(before.id,)))
    finish(service, before)
    (after,) = take(service)
    assert details(service, after)[0].children == ()


@pytest.mark.parametrize("own_ms", [5_000, FOREVER_MS])
@pytest.mark.parametrize("lease_ms", [1_000, 90_000, FOREVER_MS])
def test_the_deadline(service: Service, own_ms: int, lease_ms: int) -> None:
    """It counts from the start of the lease, and may come sooner or later than before."""
    job = running(service, lease_ms=own_ms)
    other = running(service, lease_ms=own_ms)
    service.store.clock_offset_ms += 300
    details(service, job, lease_ms=lease_ms)
    assert job.started_at_ms is not None
    expected = None if lease_ms == FOREVER_MS else job.started_at_ms + lease_ms
    assert read(service, job.id).lease_deadline_at_ms == expected
    assert read(service, other.id).lease_deadline_at_ms == other.lease_deadline_at_ms
    assert_consistent(service)
    service.store.clock_offset_ms += lease_ms if expected else 10_000
    service.recover().wait()
    assert read(service, job.id).state is (State.QUEUED if expected else State.RUNNING)
    assert_healthy(service)


def test_the_deadline_of_a_job_that_others_may_take(service: Service) -> None:
    """Its lease is over: it is extended from now on, as by its holder."""
    job = running(service, lease_ms=5_000, retake=True)
    service.store.clock_offset_ms += 6_000
    service.recover().wait()
    details(service, job, lease_ms=5_000)
    found = read(service, job.id)
    assert job.started_at_ms is not None
    assert found.lease_deadline_at_ms is not None
    assert found.lease_deadline_at_ms >= job.started_at_ms + 11_000
    assert not found.is_overdue
    assert_consistent(service)


def test_only_the_holder_sets_the_deadline(service: Service) -> None:
    job = running(service, lease_ms=5_000)
    service.taken_details("q", [TakenRef(job.id, job.lease_token + 1, FOREVER_MS)]).wait()
    assert read(service, job.id).lease_deadline_at_ms == job.lease_deadline_at_ms


def test_a_job_that_is_gone(service: Service) -> None:
    job = running(service)
    requests = [TakenRef(service.store.new_id("q"), 1), TakenRef(numbered_id(77, 0), 1, 5_000), TakenRef(job.id, 0)]
    *gone, found = service.taken_details("q", requests).wait()
    assert [type(answer) for answer in gone] == [UnknownJob, UnknownJob]
    assert found == TakenDetails(1)


# Pages


def _ids(found: TakenDetails) -> set[bytes]:
    assert len({child.job.id for child in found.children}) == len(found.children)
    return {child.job.id for child in found.children}


@pytest.mark.parametrize("bounds", [(1, 4_000_000), (3, 4_000_000), (500, 1), (500, 900), (500, 4_000_000)])
def test_pages(service: Service, monkeypatch: pytest.MonkeyPatch, bounds: tuple[int, int]) -> None:
    """Small bounds divide the children, and leave jobs to the next call. The result is the same."""
    parents = [parent_with_ended(service, count, f"p{count}") for count in (0, 7, 1, 2)]
    children = [running(service, "child", parent=parent.id) for parent in parents]
    monkeypatch.setattr(commands, "CHILDREN_LOOKED_AT", bounds[0])
    monkeypatch.setattr(commands, "DETAILS_BYTES", bounds[1])
    found = details(service, *parents, *children)
    assert [len(_ids(one)) for one in found] == [0, 7, 1, 2, 0, 0, 0, 0]
    assert [one.parent and one.parent.job.id for one in found[4:]] == [parent.id for parent in parents]
    assert_consistent(service)


@pytest.mark.parametrize(("bound", "calls"), [("DETAILS_BYTES", 3), ("CHILDREN_LOOKED_AT", 4)])
def test_a_full_answer_leaves_jobs_to_the_next_call(
    engine: EngineProcess, service: Service, monkeypatch: pytest.MonkeyPatch, bound: str, calls: int
) -> None:
    """A full page of children may be the last: the fourth call learns that it was."""
    parents = [parent_with_ended(service, 1, f"p{at}") for at in range(3)]
    monkeypatch.setattr(commands, bound, 1)
    with record_operations(engine, service.store) as operations:
        assert [len(one.children) for one in details(service, *parents)] == [1, 1, 1]
    assert operations == ["taken_details"] * calls


def test_failed_children_fill_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "CHILDREN_LOOKED_AT", 3)
    parent = running(service, "parent")
    put(service, *(new(name="c", parent=parent.id) for _ in range(10)))
    children = take(service, most=10)
    for child in children[:9]:
        fail(service, child)
    fail(service, children[9], then="cancelled")
    assert _ids(details(service, parent)[0]) == {child.id for child in children}


def test_large_children(service: Service) -> None:
    parent = parent_with_ended(service, 7, payload=Blob(b"x" * 1_000_000, Codec.RAW))
    (found,) = details(service, parent)
    assert len(_ids(found)) == 7
    assert all(len(child.job.payload.data) == 1_000_000 for child in found.children)


def test_many_jobs(service: Service) -> None:
    put(service, *(new() for _ in range(1_000)))
    found = details(service, *take(service, most=1_000), lease_ms=FOREVER_MS)
    assert sorted(one.number for one in found) == list(range(1, 1_001))
    assert_consistent(service)


def test_several_partitions(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    queues = [f"q{number}" for number in range(6)]
    put(service, *(new(queue) for queue in queues))
    jobs = [job for queue in queues for job in take(service, queue)]
    found = details(service, *jobs)
    assert [one.number for one in found] == [number for job in jobs for number in service.number([job.id]).wait()]
