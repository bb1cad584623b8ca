"""delete: a job in any state is removed with all its data."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.helpers import counts, new, put, take
from tests.service.jobs.test_requeue import STATES, in_state
from tests.support.namespace import leftover_keys, list_keys
from windlass.core.errors import AlreadyEnded, UnknownJob, WrongState
from windlass.core.job import Blob
from windlass.core.operations import Fail, Filter, Finish, Listing, WorkerInfo
from windlass.service import Service
from windlass.store.store import Store

LABELS = {"unique": "k", "tags": ("t", "u"), "lane": "l", "expires_in_ms": 90_000, "payload": Blob(b"x" * 3_000)}


@pytest.mark.parametrize("has_name_lanes", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_every_state_leaves_no_key_behind(service: Service, store: Store, state: str, has_name_lanes: bool) -> None:
    service.configure("q", {"name_lanes": has_name_lanes}).wait()
    job_id = in_state(service, state, **LABELS)
    assert service.delete([job_id], even_leased=True).one().wait() == "deleted"
    assert counts(service) == {}
    assert leftover_keys(store) == []
    assert service.stats(["q"]).wait()[0].bytes == 0
    with pytest.raises(AlreadyEnded):
        service.job([job_id]).one().wait()


def test_attempts_and_the_holder_go_too(service: Service, store: Store) -> None:
    worker = b"w" * 16
    service.register(worker, WorkerInfo()).wait()
    put(service, new())
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", error=Blob(b"1"))]).one().wait()
    take(service, worker=worker)
    service.delete([job.id], even_leased=True).one().wait()
    assert service.workers().wait()[0].running_count == 0
    service.forget(worker).wait()
    assert leftover_keys(store) == []


@pytest.mark.parametrize("accept_ms", [0, 1_000])
def test_a_leased_job_is_refused_by_default(service: Service, accept_ms: int) -> None:
    put(service, new())
    (job,) = take(service, accept_ms=accept_ms)
    with pytest.raises(WrongState):
        service.delete([job.id]).one().wait()
    assert counts(service) == {"running": 1}
    service.delete([job.id], even_leased=True).one().wait()
    with pytest.raises(AlreadyEnded):
        service.finish([Finish(job.id, job.lease_token)]).one().wait()


def test_an_overdue_redeliverable_job_leaves_its_lane_too(service: Service, store: Store) -> None:
    put(service, new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    service.delete([job.id], even_leased=True).one().wait()
    assert counts(service) == {}
    assert leftover_keys(store) == []


def test_neighbours_stay(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    jobs = put(service, *(new(name=f"n{i % 2}", tags=("t",)) for i in range(6)))
    service.delete([job.id for job in jobs[:3]]).wait()
    assert {job.id for job in service.jobs(Listing(tag="t")).wait().jobs} == {job.id for job in jobs[3:]}
    assert [job.id for job in take(service, most=9, wants=Filter(only=("n1",)))] == [jobs[3].id, jobs[5].id]


def test_a_unique_key_is_free_again(service: Service) -> None:
    job_id = in_state(service, "failed", unique="k", unique_while_kept=True)
    assert put(service, new(unique="k"))[0].status == "existing"
    service.delete([job_id]).one().wait()
    assert put(service, new(unique="k"))[0].status == "queued"


def test_an_id_that_was_deleted_does_not_come_back(service: Service) -> None:
    """A repeated enqueue after a lost answer must not undo a person's delete."""
    job_id = service.store.new_id("q")
    put(service, new(id=job_id))
    service.delete([job_id]).one().wait()
    assert put(service, new(id=job_id))[0].status == "ended"
    assert counts(service) == {}


def test_not_there_and_twice_in_one_call(service: Service) -> None:
    (job,) = put(service, new())
    answers = service.delete([job.id, job.id, service.store.new_id("q")]).wait()
    assert answers[0] == "deleted"
    assert [type(one) for one in answers[1:]] == [AlreadyEnded, UnknownJob]


def test_two_thousand_at_once(service: Service, store: Store) -> None:
    jobs = put(service, *(new() for _ in range(2_000)))
    answers = service.delete([job.id for job in jobs]).wait()
    assert answers == ["deleted"] * 2_000
    assert leftover_keys(store) == []


@pytest.mark.anyio
async def test_a_caller_that_awaits_it_is_notified(service: Service, store: Store) -> None:
    job = await service.enqueue([new()]).one()
    waiting = asyncio.ensure_future(service.result(job.id, wait_ms=5_000))
    while b"e:" + job.id not in await asyncio.to_thread(list_keys, store):  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.005)
    await service.delete([job.id]).one()
    with pytest.raises(UnknownJob, match="deleted during the wait"):
        await waiting
    await store.close()
    assert leftover_keys(store) == []
