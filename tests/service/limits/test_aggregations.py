"""Keys with their own caps: set by the first job, enforced strictly, removed when the key has had no jobs for a while,
and listed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.helpers import new, put, read, take
from tests.support.namespace import list_keys
from windlass.core.errors import BadInput, Refusal, UnknownLimit
from windlass.core.job import Blob, Cap, Job, NewJob
from windlass.core.limits.limit import Aggregation, Limit, Matcher
from windlass.core.operations import Edit, Fail, Filter, Finish, LeaseRef, Take, Taken
from windlass.service import Service
from windlass.store.store import Store

LIMIT = Limit(name="each", matches=Matcher(queue="q"), running=4, key="aggr", own_caps=True)
IDLE_MS = 5_000
AGO_MS = 600_000  # a clock set back by so much is in time, however slow the test is


@pytest.fixture(autouse=True)
def _limited(service: Service) -> None:
    service.limit(LIMIT).wait()


def job(key: Any, cap: int = 0, note: str = "", **terms: Any) -> NewJob:
    given = Cap(limit="each", running=cap, note=note) if cap else None
    return new(payload=Blob(json.dumps({"aggr": key}).encode()), cap=given, **terms)


def taken_keys(service: Service, most: int = 100) -> list[str]:
    return [json.loads(one.payload.data)["aggr"] for one in take(service, most=most)]


def finish(service: Service, *jobs: Job) -> None:
    service.finish([Finish(one.id, one.lease_token) for one in jobs]).wait()


def listed(service: Service) -> dict[str, Aggregation]:
    return {one.key: one for one in service.aggregations("each").wait().aggregations}


def cap_of(service: Service, key: str) -> int | None:
    return service.aggregation("each", key).wait().cap


def test_the_first_job_of_a_key_brings_its_cap(service: Service) -> None:
    put(service, *(job("a", cap=2) for _ in range(5)), *(job("b", cap=3) for _ in range(5)))
    assert sorted(taken_keys(service)) == ["a", "a", "b", "b", "b"]
    assert taken_keys(service) == []


def test_without_a_cap_the_limit_counts(service: Service) -> None:
    put(service, *(job("a") for _ in range(6)))
    assert len(take(service, most=10)) == 4


def test_later_jobs_do_not_change_it(service: Service) -> None:
    put(service, job("a", cap=1, note="first"), job("a", cap=5, note="second"))
    put(service, job("a", cap=7))
    assert len(take(service, most=10)) == 1
    assert listed(service)["a"] == Aggregation(key="a", queued=2, scheduled=0, running=1, cap=1, note="first")


def test_a_freed_place_goes_to_the_next_job_of_the_key(service: Service) -> None:
    put(service, *(job("a", cap=1) for _ in range(3)), job("b", cap=1))
    first, other = take(service, most=10)
    finish(service, first)
    (second,) = take(service, most=10)
    assert json.loads(second.payload.data)["aggr"] == "a"
    assert take(service, most=10) == []
    finish(service, other)
    assert take(service, most=10) == []


def test_a_cap_that_comes_after_jobs_without_one_lets_more_of_them_go(service: Service) -> None:
    put(service, *(job("a") for _ in range(8)))
    assert len(take(service, most=10)) == 4
    assert take(service, most=10) == []
    put(service, job("a", cap=6))
    assert len(take(service, most=10)) == 2


@pytest.mark.anyio
async def test_such_a_cap_wakes_who_waits(store: Store) -> None:
    service = Service(store)
    async with store:
        await service.enqueue([job("a") for _ in range(5)])
        assert len((await service.take(Take(queues=("q",), most=4))).jobs) == 4
        waiting = asyncio.create_task(_waiting_take(service))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await service.enqueue([job("a", cap=5)])
        async with asyncio.timeout(10):
            assert len((await waiting).jobs) == 1


async def _waiting_take(service: Service) -> Taken:
    return await service.take(Take(queues=("q",), wait_ms=20_000))


@pytest.mark.parametrize("end", ["finish", "fail", "cancel", "delete"])
def test_the_cap_is_forgotten_some_time_after_the_last_job(service: Service, store: Store, end: str) -> None:
    put(service, job("a", cap=1))
    (one,) = take(service)
    _end(service, one, end)
    store.clock_offset_ms -= AGO_MS
    put(service, job("a", cap=9))  # in time: as it was
    assert cap_of(service, "a") == 1
    store.clock_offset_ms += AGO_MS
    (one,) = take(service)
    _end(service, one, end)
    store.clock_offset_ms += IDLE_MS
    assert cap_of(service, "a") is None
    assert listed(service) == {}
    put(service, job("a", cap=2), job("a"), job("a"))
    assert len(take(service, most=10)) == 2
    assert_healthy(service)


def _end(service: Service, one: Job, end: str) -> None:
    if end == "finish":
        finish(service, one)
    elif end == "fail":
        service.fail([Fail(id=one.id, token=one.lease_token)]).wait()
    elif end == "cancel":
        service.cancel([one.id]).wait()
        service.fail([Fail(id=one.id, token=one.lease_token, then="cancelled")]).wait()
    else:
        service.delete([one.id], even_leased=True).wait()


def test_a_job_that_waits_for_its_next_attempt_keeps_the_cap(service: Service, store: Store) -> None:
    put(service, job("a", cap=1))
    (one,) = take(service)
    service.fail([Fail(id=one.id, token=one.lease_token, then="retry", delay_ms=3_600_000)]).wait()
    store.clock_offset_ms += 1_800_000
    service.clean().wait()
    assert listed(service) == {"a": Aggregation(key="a", queued=0, scheduled=1, running=0, cap=1)}


def test_a_job_that_comes_back_without_its_cap_runs_under_the_limit(service: Service, store: Store) -> None:
    put(service, *(job("a", cap=1) for _ in range(3)))
    ids = []
    for _ in range(3):
        (one,) = take(service)
        ids.append(one.id)
        service.fail([Fail(id=one.id, token=one.lease_token)]).wait()
    store.clock_offset_ms += IDLE_MS
    service.retry(ids).wait()
    assert cap_of(service, "a") is None
    assert len(take(service, most=10)) == 3


def test_the_janitor_leaves_nothing_behind(service: Service, store: Store) -> None:
    put(service, job("a", cap=1, note="x" * 4096), job("b" * 200, cap=2), job("c"))
    finish(service, *take(service, most=10))
    assert _kept(store) == {"caps", "keyed", "idle_caps"}
    store.clock_offset_ms += IDLE_MS
    service.clean().wait()
    assert _kept(store) == set()


def _kept(store: Store) -> set[str]:
    kinds = {key.partition(b":")[0].decode() for key in list_keys(store)}
    return kinds & {"caps", "keyed", "under", "idle_caps"}


def test_the_janitor_knows_when_a_cap_expires(service: Service, store: Store) -> None:
    put(service, job("a", cap=1))
    finish(service, *take(service))
    store.clock_offset_ms -= AGO_MS
    step = service.clean().wait()
    assert step.next_at_ms is not None
    assert 0 < step.next_at_ms - step.now_ms <= AGO_MS + IDLE_MS


def test_a_refused_job_brings_no_cap(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    put(service, job("a", cap=1))
    (refused,) = service.enqueue([job("b", cap=1)]).wait()
    assert isinstance(refused, Refusal)
    assert list(listed(service)) == ["a"]


def test_a_cap_needs_its_limit(service: Service, store: Store) -> None:
    put(service, job("a"))
    for name in ("other", "plain"):
        service.limit(Limit(name="plain", matches=Matcher(queue="q"), running=50, key="aggr")).wait()
        wrong = new(payload=Blob(b'{"aggr": "a"}'), cap=Cap(limit=name, running=1))
        (answer,) = service.enqueue([wrong]).wait()
        assert isinstance(answer, UnknownLimit)
        (answer, second) = service.enqueue([wrong, job("a")], whole=True).wait()
        assert isinstance(answer, UnknownLimit)
        assert isinstance(second, UnknownLimit)
    fresh = Service(store)
    elsewhere = NewJob(queue="elsewhere", name="n", cap=Cap(limit="each", running=1))
    assert isinstance(fresh.enqueue([elsewhere]).wait()[0], UnknownLimit)
    assert listed(service)["a"].queued == 1


def test_a_cap_with_all_that_a_job_may_bring(service: Service) -> None:
    (first,) = put(service, new(name="first"))
    together = [
        job("a", cap=1, unique="u", unique_check="refuse", after=(first.id,)),
        job("a", cap=3, after=(first.id,)),
    ]
    assert [one.status for one in service.enqueue(together, whole=True).wait()] == ["waiting", "waiting"]  # type: ignore[union-attr]
    assert listed(service)["a"] == Aggregation(key="a", queued=0, scheduled=2, running=0, cap=1)
    finish(service, *take(service, most=10))
    assert len(take(service, most=10)) == 1


def test_a_debounced_job_moves_to_the_key_of_its_last_content(service: Service, store: Store) -> None:
    put(service, job("a", cap=1, unique="u", debounce_ms=1_000))
    put(service, job("b", cap=2, unique="u", debounce_ms=1_000))
    store.clock_offset_ms -= AGO_MS
    assert {key: (one.scheduled, one.cap) for key, one in listed(service).items()} == {"a": (0, 1), "b": (1, 2)}
    store.clock_offset_ms += AGO_MS + IDLE_MS
    assert list(listed(service)) == ["b"]


def test_an_edited_job_moves_to_its_new_key(service: Service, store: Store) -> None:
    (one, _) = put(service, job("a", cap=1), job("b", cap=1))
    service.edit([Edit(id=one.id, payload=Blob(b'{"aggr": "b"}'))]).wait()
    store.clock_offset_ms -= AGO_MS
    assert {key: (row.queued, row.cap) for key, row in listed(service).items()} == {"a": (0, 1), "b": (2, 1)}
    store.clock_offset_ms += AGO_MS
    assert len(take(service, most=10)) == 1
    assert_healthy(service)


def test_it_is_switched_on_and_off_while_jobs_are_there(service: Service, store: Store) -> None:
    put(service, *(job("a", cap=1) for _ in range(6)))
    assert len(take(service, most=10)) == 1
    service.limit(Limit(name="each", matches=Matcher(queue="q"), running=4, key="aggr")).wait()
    store.clock_offset_ms -= AGO_MS
    assert listed(service)["a"].queued == 0
    store.clock_offset_ms += AGO_MS
    assert len(take(service, most=10)) == 3
    service.limit(LIMIT).wait()
    assert listed(service)["a"].running == 4
    assert_healthy(service)


def test_when_the_limit_goes_so_do_the_caps(service: Service) -> None:
    put(service, *(job("a", cap=1) for _ in range(3)))
    service.unlimit("each").wait()
    assert len(take(service, most=10)) == 3
    with pytest.raises(UnknownLimit):
        service.aggregations("each").wait()
    assert_healthy(service)


def test_pages_in_the_order_of_keys(service: Service) -> None:
    put(service, *(job(f"k{number:02}", cap=1) for number in range(25)))
    found, cursor = [], ""
    while True:
        page = service.aggregations("each", most=10, cursor=cursor).wait()
        found += [one.key for one in page.aggregations]
        cursor = page.cursor
        if not cursor:
            break
    assert found == [f"k{number:02}" for number in range(25)]


@pytest.mark.parametrize(
    "key", ["", "plain", "with = and : in it", "ü\u200b", "line\nbreak", "k" * 3_000, 7, None, [1], "\0"]
)
def test_any_key(service: Service, key: Any) -> None:
    put(service, *(job(key, cap=2, note="n") for _ in range(3)))
    assert len(take(service, most=10)) == 2
    (found,) = service.aggregations("each").wait().aggregations
    assert (found.queued, found.running, found.cap, found.note) == (1, 2, 2, "n")
    assert found.key == (key[:1024] if isinstance(key, str) else json.dumps(key, separators=(",", ":")))
    if isinstance(key, str):
        assert service.aggregation("each", key).wait() == found


def test_explain_names_the_cap(service: Service) -> None:
    put(service, job("a", cap=1))
    (waiting,) = put(service, job("a"))
    take(service)
    found = service.explain(waiting.id).wait()
    assert any(getattr(reason, "cap", None) == 1 for reason in found.reasons)


def test_a_released_job_and_a_lost_lease_keep_their_key(service: Service, store: Store) -> None:
    put(service, job("a", cap=1, lease_ms=1_000), job("a"))
    (one,) = take(service)
    service.release([LeaseRef(one.id, one.lease_token)]).wait()
    assert listed(service)["a"].queued == 2
    take(service)
    store.clock_offset_ms += 1_001
    service.recover().wait()
    assert listed(service)["a"] == Aggregation(key="a", queued=2, scheduled=0, running=0, cap=1)
    assert read(service, one.id).limits == (f'{_number(service)}="a"',)


def _number(service: Service) -> int:
    return next(iter(service.store.limit_cache.table(0).limits))


def test_names_and_lanes_beside_the_key(service: Service) -> None:
    service.configure("q", {"name_lanes": True, "fair_share": True}).wait()
    put(service, *(job("a", cap=2, name=name, lane=lane) for name in "xyz" for lane in ("1", "2")))
    held = take(service, most=10)
    assert len(held) == 2
    wanted = Take(queues=("q",), most=10, wants=Filter(only=("z",)))
    assert service.take(wanted).wait().jobs == []
    finish(service, held[0])
    assert len(service.take(wanted).wait().jobs) == 1


@pytest.mark.parametrize(
    "cap", [Cap(limit="", running=1), Cap(limit="each", running=0), Cap(limit="each", running=1, note="x" * 5_000)]
)
def test_bad_caps(service: Service, cap: Cap) -> None:
    with pytest.raises(Refusal, match="cap"):
        service.enqueue([new(cap=cap)])


def test_own_caps_needs_a_key_and_running() -> None:
    service: Any = Service.__new__(Service)
    for terms in ({"running": 1}, {"rate": 1, "key": "a"}):
        with pytest.raises(BadInput, match="own_caps"):
            service.limit(Limit(name="l", matches=Matcher(), own_caps=True, **terms))  # type: ignore[arg-type]
