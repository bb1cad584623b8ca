"""stats and queues: counts from the indexes, ages, names."""

from __future__ import annotations

import random

import pytest

from tests.service.helpers import counts, new, put, take
from tests.support.namespace import dump_keys
from windlass.core.job import Blob
from windlass.core.operations import Fail, Finish
from windlass.service import Service
from windlass.store.store import Store


def test_counts_add_up_through_a_random_life(service: Service) -> None:
    chance = random.Random(5)
    service.configure("q", {"history_length": 10_000}).wait()
    kept = {"retried": 0}
    total = 200
    delays = (0, 0, 50_000)
    put(service, *(new(lane=chance.choice(("", "a")), delay_ms=chance.choice(delays)) for _ in range(total)))
    for _ in range(30):
        jobs = take(service, most=7)
        for job in jobs:
            what = chance.choice(("finish", "fail", "retry", "cancel", "leave"))
            if what == "finish":
                service.finish([Finish(job.id, job.lease_token)]).one().wait()
            elif what == "fail":
                service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
            elif what == "retry":
                service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=5)]).one().wait()
                kept["retried"] += 1
            elif what == "cancel":
                service.cancel([job.id]).one().wait()
        service.store.clock_offset_ms += 7_000
        assert sum(counts(service).values()) == total
    assert kept["retried"]


def test_bytes_are_those_of_jobs_that_have_not_ended(service: Service) -> None:
    put(service, *(new(payload=Blob(b"x" * 1_000)) for _ in range(3)))
    (stats,) = service.stats(["q"]).wait()
    assert 3_000 < stats.bytes < 3_600
    jobs = take(service, most=2)
    assert service.stats(["q"]).wait()[0].bytes == stats.bytes
    service.finish([Finish(jobs[0].id, jobs[0].lease_token)]).one().wait()
    service.fail([Fail(id=jobs[1].id, token=jobs[1].lease_token)]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == stats.bytes // 3


def test_the_oldest_age_over_priorities_and_lanes(service: Service) -> None:
    assert service.stats(["q"]).wait()[0].oldest_age_ms is None
    put(service, new(priority=5))
    service.store.clock_offset_ms += 10_000
    put(service, new(priority=-5), new(priority=0, lane="l"), new(priority=9))
    age = service.stats(["q"]).wait()[0].oldest_age_ms
    assert age is not None
    assert 10_000 <= age < 15_000


def test_a_scheduled_job_has_no_age_but_a_due_time(service: Service) -> None:
    (job,) = put(service, new(delay_ms=60_000))
    (stats,) = service.stats(["q"]).wait()
    assert stats.oldest_age_ms is None
    assert stats.next_due_at_ms == service.job([job.id]).one().wait().job.run_at_ms


def test_lanes_are_counted_while_they_hold_something(service: Service) -> None:
    put(service, new(), new(lane="a"), new(lane="a"), new(lane="b"))
    assert service.stats(["q"]).wait()[0].lanes == 2
    take(service, most=10)
    assert service.stats(["q"]).wait()[0].lanes == 0


def test_dispatched_jobs_count_as_running(service: Service) -> None:
    put(service, new(), new())
    take(service, accept_ms=1_000)
    assert counts(service) == {"queued": 1, "running": 1}


def test_many_queues_in_the_order_asked_for(service: Service) -> None:
    names = [f"q{number}" for number in range(250)]
    put(service, *(new(queue=name) for name in names))
    asked = [*names[::-1], "empty"]
    found = service.stats(asked).wait()
    assert [one.queue for one in found] == asked
    assert [one.queued for one in found] == [1] * 250 + [0]
    assert service.stats([]).wait() == []


def test_the_names_of_all_queues_in_order(service: Service) -> None:
    assert service.queues().wait() == []
    names = [f"q{number:04}" for number in range(700)]
    put(service, *(new(queue=name) for name in names))
    service.configure("configured", {"max_length": 5}).wait()
    assert service.queues().wait() == ["configured", *names]


def test_reading_changes_nothing(service: Service, store: Store) -> None:
    put(service, new())
    before = dump_keys(store)
    service.stats(["q", "unknown"]).wait()
    service.queues().wait()
    service.configuration("q").wait()
    service.configuration("unknown").wait()
    assert dump_keys(store) == before


@pytest.mark.anyio
async def test_waiting_takers_are_counted(service: Service, store: Store) -> None:
    import asyncio

    from windlass.core.operations import Take

    waiting = asyncio.ensure_future(service.take(Take(queues=("q",), wait_ms=10_000)))
    while (await service.stats(["q"]))[0].waiting_takers == 0:  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.002)
    await service.enqueue([new()]).one()
    assert len((await waiting).jobs) == 1
    assert (await service.stats(["q"]))[0].waiting_takers == 0
    await store.close()


def test_the_overview_tells_of_all_queues_and_is_remembered_for_a_second(service: Service) -> None:
    put(service, new(queue="b"), new(queue="a"), new(queue="a"))
    first = service.overview().wait()
    assert [(one.queue, one.queued) for one in first] == [("a", 2), ("b", 1)]
    put(service, new(queue="a"))
    service.store.clock_offset_ms += 2_000
    again = service.overview().wait()
    assert [one.queued for one in again] == [3, 1]
    assert again[1].oldest_age_ms >= 2_000  # type: ignore[operator]
