"""Caps changed while jobs run: more jobs start at once, fewer when running ones have ended."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.helpers import new, put, take
from windlass.core.errors import UnknownLimit, UnknownLimitKey
from windlass.core.job import Blob, Cap, Job, NewJob
from windlass.core.limits.limit import Aggregation, Limit, Matcher, encode_key
from windlass.core.operations import Finish, Take, Taken
from windlass.service import Service
from windlass.store.store import Store

LIMIT = Limit(name="each", matches=Matcher(queue="q"), running=4, key="aggr", own_caps=True)
IDLE_MS = 5_000


@pytest.fixture(autouse=True)
def _limited(service: Service) -> None:
    service.limit(LIMIT).wait()


def job(key: Any = "a", cap: int = 0, note: str = "", **terms: Any) -> NewJob:
    given = Cap(limit="each", running=cap, note=note) if cap else None
    return new(payload=Blob(json.dumps({"aggr": key}).encode()), cap=given, **terms)


def finish(service: Service, *jobs: Job) -> None:
    service.finish([Finish(one.id, one.lease_token) for one in jobs]).wait()


def test_a_higher_cap_lets_more_jobs_start(service: Service) -> None:
    put(service, *(job(cap=1, note="proxy") for _ in range(6)))
    assert len(take(service, most=10)) == 1
    changed = service.set_cap("each", "a", running=3).wait()
    assert changed == Aggregation(key="a", queued=5, scheduled=0, running=1, cap=3, note="proxy")
    assert len(take(service, most=10)) == 2
    assert service.aggregation("each", "a").wait().cap == 3
    assert_healthy(service)


def test_the_jobs_of_a_key_with_its_own_cap_are_listed(service: Service) -> None:
    put(service, *(job(key, cap=2) for key in ("a", "a", "a", "b")))
    held = take(service, most=10)
    for key, count in (("a", 2), ("b", 1), ("c", 0)):
        found = service.holders("each", key=encode_key(key)).wait()
        assert found.count == count
        wanted = {one.id for one in held if json.loads(one.payload.data)["aggr"] == key}
        assert {holder.id for holder in found.holders} == wanted


def test_a_lower_cap_lets_running_jobs_end(service: Service) -> None:
    put(service, *(job(cap=3) for _ in range(6)))
    held = take(service, most=10)
    assert len(held) == 3
    assert service.set_cap("each", "a", running=1).wait().running == 3
    for one in held[:2]:
        finish(service, one)
        assert take(service, most=10) == []
    finish(service, held[2])
    assert len(take(service, most=10)) == 1
    assert_healthy(service)


@pytest.mark.anyio
async def test_a_higher_cap_wakes_who_waits(store: Store) -> None:
    service = Service(store)
    async with store:
        await service.enqueue([job(cap=1) for _ in range(3)])
        assert len((await service.take(Take(queues=("q",), most=4))).jobs) == 1

        async def waiting_take() -> Taken:
            return await service.take(Take(queues=("q",), most=4, wait_ms=20_000))

        waiting = asyncio.create_task(waiting_take())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await service.set_cap("each", "a", running=3)
        async with asyncio.timeout(10):
            assert len((await waiting).jobs) in (1, 2)


def test_the_note_alone(service: Service) -> None:
    put(service, job(cap=2, note="old"))
    assert service.set_cap("each", "a", note="new").wait() == Aggregation(
        key="a", queued=1, scheduled=0, running=0, cap=2, note="new"
    )
    assert service.set_cap("each", "a", note="").wait().note == ""
    both = service.set_cap("each", "a", running=7, note="both").wait()
    assert (both.cap, both.note) == (7, "both")


def test_later_jobs_do_not_change_it(service: Service) -> None:
    put(service, job(cap=1))
    service.set_cap("each", "a", running=2).wait()
    put(service, job(cap=9), job(cap=9))
    assert service.aggregation("each", "a").wait().cap == 2
    assert len(take(service, most=10)) == 2


@pytest.mark.parametrize("key", ["a", "k" * 3_000, "ü\n"])
def test_jobs_without_a_cap_get_one(service: Service, key: str) -> None:
    put(service, *(job(key) for _ in range(6)))
    changed = service.set_cap("each", key, note="n").wait()
    assert (changed.key, changed.cap, changed.note) == (key[:1024], 4, "n")
    assert service.set_cap("each", key, running=5).wait().note == "n"
    assert len(take(service, most=10)) == 5
    assert_healthy(service)


def test_other_keys_stay_as_they_are(service: Service) -> None:
    put(service, job("a", cap=1), job("b", cap=1), job("b", cap=1))
    service.set_cap("each", "a", running=5).wait()
    assert service.aggregation("each", "b").wait().cap == 1
    assert len(take(service, most=10)) == 2


def test_a_key_without_jobs_is_unknown(service: Service, store: Store) -> None:
    for limit, key, error in (("each", "a", UnknownLimitKey), ("none", "a", UnknownLimit)):
        with pytest.raises(error):
            service.set_cap(limit, key, running=1).wait()
    put(service, job(cap=1))
    finish(service, *take(service))
    assert service.set_cap("each", "a", running=2).wait().cap == 2  # for a moment its cap is still there
    store.clock_offset_ms += IDLE_MS
    with pytest.raises(UnknownLimitKey):
        service.set_cap("each", "a", running=3).wait()
    service.clean().wait()
    assert service.aggregation("each", "a").wait().cap is None
    assert_healthy(service)


def test_a_limit_whose_keys_have_no_caps_has_no_such_key(service: Service) -> None:
    service.limit(Limit(name="plain", matches=Matcher(queue="q"), running=5, key="aggr")).wait()
    put(service, job())
    with pytest.raises(UnknownLimitKey):
        service.set_cap("plain", "a", running=1).wait()
