"""Hidden jobs: only takers that ask for them see them. Leases that end on whole seconds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.service.helpers import new, put, read, take
from tests.service.machines.dependency_builders import assert_consistent
from windlass.core.errors import UniqueConflict
from windlass.core.operations import Edit, Enqueued, Filter, Take
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service

SEES = Filter(hidden=True)


@pytest.mark.parametrize("name_lanes", [False, True])
def test_who_does_not_ask_does_not_see(service: Service, name_lanes: bool) -> None:
    service.configure("q", {"name_lanes": name_lanes}).wait()
    hidden, seen = put(service, new(hidden=True), new())
    assert read(service, hidden.id).is_hidden
    assert [job.id for job in take(service, most=5)] == [seen.id]
    assert take(service, wants=Filter(priority=0)) == []
    assert [job.id for job in take(service, most=5, wants=SEES)] == [hidden.id]
    assert_consistent(service)


@pytest.mark.parametrize(
    "wants", [{}, {"priority": 0}, {"only": ("n",)}, {"all_but": ("x",)}, {"glob": "n*"}, {"glob": "*n", "priority": 0}]
)
def test_every_kind_of_filter(service: Service, wants: dict[str, Any]) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    hidden, lane, plain = put(service, new(hidden=True), new(hidden=True, lane="t"), new())
    assert [job.id for job in take(service, most=5, wants=Filter(**wants))] == [plain.id]
    found = take(service, most=5, wants=Filter(**wants, hidden=True))
    assert {job.id for job in found} == {hidden.id, lane.id}
    assert_consistent(service)


def test_they_are_in_order_with_the_others(service: Service) -> None:
    ids = [one.id for one in put(service, new(), new(hidden=True), new(), new(hidden=True, priority=-1))]
    assert [job.id for job in take(service, most=9, wants=SEES)] == [ids[3], ids[0], ids[1], ids[2]]


def test_fair_tenants_share_with_their_hidden_jobs(service: Service) -> None:
    service.configure("q", {"fair_share": True}).wait()
    put(service, *(new(lane="a", hidden=True) for _ in range(4)), *(new(lane="b") for _ in range(4)))
    assert [job.lane for job in take(service, most=8, wants=SEES)] == ["a", "b"] * 4
    assert_consistent(service)


def test_a_hidden_job_stays_so(service: Service) -> None:
    (made,) = put(service, new(hidden=True))
    service.edit([Edit(id=made.id, name="other", priority=5)]).wait()
    service.requeue([made.id]).wait()
    assert take(service) == []
    service.configure("q", {"name_lanes": True}).wait()
    assert take(service) == []
    assert take(service, wants=Filter(glob="o*", hidden=True))[0].id == made.id
    assert_consistent(service)


@pytest.mark.anyio
async def test_only_who_asks_is_woken(service: Service) -> None:
    async with service.store:
        await service.configure("q", {"name_lanes": True})
        blind = asyncio.create_task(_taken(service, Filter(glob="n*")))
        seeing = asyncio.create_task(_taken(service, Filter(glob="n*", hidden=True)))
        while (await service.stats(["q"]))[0].waiting_takers < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        (hidden,) = await service.enqueue([new(hidden=True)])
        assert await seeing == [hidden.id]
        assert not blind.done()
        (plain,) = await service.enqueue([new()])
        assert await blind == [plain.id]


async def _taken(service: Service, wants: Filter) -> list[bytes]:
    return [job.id for job in (await service.take(Take(queues=("q",), wants=wants, wait_ms=30_000))).jobs]


def test_a_lease_that_ends_on_a_whole_second(service: Service) -> None:
    (made,) = put(service, new(lease_ms=5_000, lease_rule="+5 SECONDS", retake=True))
    (job,) = take(service)
    assert job.lease_deadline_at_ms is not None
    assert job.started_at_ms is not None
    assert job.lease_deadline_at_ms == (job.started_at_ms + 5_000) // 1000 * 1000
    assert (job.lease_rule, job.retake) == ("+5 SECONDS", True)
    service.edit([Edit(id=made.id, run_at_ms=job.lease_deadline_at_ms + 60_000, in_any_state=True)]).wait()
    service.store.clock_offset_ms = 30_000
    assert take(service) == [], "the time of a job that may be taken over is the deadline of its lease"
    service.store.clock_offset_ms = 70_000
    assert take(service)[0].id == made.id
    service.store.clock_offset_ms = 80_000
    service.recover().wait()
    assert read(service, made.id).is_overdue
    service.edit([Edit(id=made.id, run_at_ms=service.now().wait() + 60_000, in_any_state=True, attempt=7)]).wait()
    assert take(service) == [], "nobody takes it over any more"
    assert (read(service, made.id).attempt, read(service, made.id).state) == (7, State.RUNNING)
    assert_consistent(service)


def test_no_lease_at_all_never_reaches_into_the_next_second(service: Service) -> None:
    for early_ms in range(1, 20):
        put(service, new(lease_ms=1, lease_rule="+0 SECONDS"))
        service.store.clock_offset_ms += 1_000 - early_ms - service.now().wait() % 1_000
        (job,) = take(service)
        assert job.lease_deadline_at_ms is not None
        assert job.started_at_ms is not None
        assert job.lease_deadline_at_ms <= job.started_at_ms, early_ms


def test_a_taker_sees_earlier_attempts(service: Service) -> None:
    (made,) = put(service, new(lease_ms=1_000, retake=True, retry=Backoff(tries=2)))
    first = service.take(Take(queues=("q",))).wait()
    assert (first.started_before, first.used_up) == ({}, 0)
    service.store.clock_offset_ms = 2_000
    second = service.take(Take(queues=("q",))).wait()
    assert second.started_before == {made.id: first.jobs[0].started_at_ms}
    service.store.clock_offset_ms = 4_000
    third = service.take(Take(queues=("q",))).wait()
    assert (third.jobs, third.used_up) == ([], 1)
    assert read(service, made.id).state is State.FAILED


def test_a_unique_key_that_refuses(service: Service) -> None:
    (made,) = put(service, new(unique="k", unique_check="none"))
    (refused,) = service.enqueue([new(unique="k", unique_check="refuse")]).wait()
    assert isinstance(refused, UniqueConflict)
    together = service.enqueue([new("other"), new(unique="k", unique_check="refuse")], whole=True).wait()
    assert [type(one) for one in together] == [UniqueConflict] * 2
    twice = service.enqueue([new(unique="l", unique_check="refuse") for _ in range(2)], whole=True).wait()
    assert [type(one) for one in twice] == [UniqueConflict] * 2
    assert service.queues().wait() == ["q"]
    both = [new(unique="k", unique_check="none"), new(unique="m", unique_check="refuse")]
    assert [one.status for one in service.enqueue(both, whole=True).wait() if isinstance(one, Enqueued)] == [
        "queued",
        "queued",
    ]
    assert service.holder("q", "k").wait() == made.id
    assert_consistent(service)


def test_a_cancel_that_spares_what_runs(service: Service) -> None:
    put(service, new(), new(lease_ms=60_000, retake=True))
    plain, retaken = take(service, most=2)
    answers = service.cancel([plain.id, retaken.id], spares_running=True).wait()
    assert (type(answers[0]).__name__, answers[1]) == ("WrongState", "cancelled")
    assert not read(service, plain.id).is_cancel_requested
    assert read(service, retaken.id).state is State.CANCELLED
    assert_consistent(service)
