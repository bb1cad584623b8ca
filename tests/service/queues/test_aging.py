"""Aging: waiting time counts as priority in queues that are configured so."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from windlass.core.errors import BadInput, NoExactPriority
from windlass.core.operations import Filter
from windlass.service import Service


def priorities(service: Service, most: int = 9) -> list[int]:
    return [job.priority for job in take(service, most=most)]


@pytest.mark.parametrize("lane", ["", "a"])
def test_a_job_that_waited_long_enough_overtakes(service: Service, lane: str) -> None:
    service.configure("q", {"aging_ms": 1000}).wait()
    put(service, new(priority=5, lane=lane))
    service.store.clock_offset_ms += 4000
    put(service, new(priority=0, lane=lane))
    service.store.clock_offset_ms += 2000
    put(service, new(priority=0, lane=lane))
    assert [job.priority for job in take(service, most=3)] == [0, 5, 0]


def test_without_aging_priority_is_strict(service: Service) -> None:
    put(service, new(priority=5))
    service.store.clock_offset_ms += 3_600_000
    put(service, new(priority=0))
    assert priorities(service) == [0, 5]


def test_it_is_switched_on_and_off_while_jobs_wait(service: Service) -> None:
    for lane in ("", "a"):
        put(service, new(priority=5, lane=lane), new(priority=5, lane=lane))
    service.store.clock_offset_ms += 10_000
    put(service, new(priority=0), new(priority=0))
    service.configure("q", {"aging_ms": 1000}).wait()
    assert priorities(service, 1) == [5]
    service.configure("q", {"aging_ms": None}).wait()
    assert priorities(service) == [0, 0, 5, 5, 5]


def test_many_jobs_are_rearranged_in_steps(service: Service) -> None:
    put(service, *(new(priority=at % 7) for at in range(1000)))
    service.store.clock_offset_ms += 60_000
    put(service, *(new(priority=at % 7) for at in range(500)))
    service.configure("q", {"aging_ms": 1}).wait()
    jobs = take(service, most=1000) + take(service, most=1000)
    assert len({job.id for job in jobs}) == 1500
    assert [job.priority + job.run_at_ms for job in jobs] == sorted(job.priority + job.run_at_ms for job in jobs)


def test_an_exact_priority_cannot_be_asked_for(service: Service) -> None:
    service.configure("q", {"aging_ms": 1000}).wait()
    put(service, new())
    with pytest.raises(NoExactPriority):
        take(service, wants=Filter(priority=0))


@pytest.mark.parametrize("wrong", [-1, 2**20 + 1, 1.5, True])
def test_a_wrong_step_is_refused(service: Service, wrong: object) -> None:
    with pytest.raises(BadInput):
        service.configure("q", {"aging_ms": wrong})  # type: ignore[dict-item]
