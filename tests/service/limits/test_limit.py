"""Limits: never exceeded, never stuck below the limit, and no attempt or worker slot spent on a blocked job."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.service.helpers import another, counts, new, put, read, take
from tests.support.namespace import list_keys
from windlass.core.errors import BadInput, TooLarge, UnknownLimit
from windlass.core.job import Blob, Codec
from windlass.core.limits.limit import Limit, LimitTable, Matcher
from windlass.core.operations import Edit, Fail, Filter, Finish, LeaseRef, Take
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration
from windlass.store.store import Store
from windlass.store.waiting.take import take_flow


def payload(**fields: object) -> Blob:
    return Blob(json.dumps(fields).encode())


def limit(service: Service, name: str = "l", *, matches: Matcher | None = None, **terms: object) -> int:
    return service.limit(Limit(name=name, matches=matches or Matcher(queue="q"), **terms)).wait()  # type: ignore[arg-type]


def finish(service: Service, *jobs: object) -> None:
    service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()  # type: ignore[attr-defined]


def test_no_more_run_than_the_limit_allows(service: Service) -> None:
    limit(service, running=2)
    put(service, *(new() for _ in range(5)))
    first = take(service, most=10)
    assert len(first) == 2
    assert take(service, most=10) == []
    finish(service, first[0])
    assert len(take(service, most=10)) == 1
    assert take(service) == []


def test_a_limited_job_spends_no_attempt_and_blocks_no_other_job(service: Service) -> None:
    limit(service, matches=Matcher(name="slow"), running=1)
    ids = [one.id for one in put(service, new(name="slow"), new(name="slow"), new(name="fast"), new(name="slow"))]
    taken = take(service, most=10)
    assert [job.id for job in taken] == [ids[0], ids[2]]
    assert read(service, ids[1]).attempt == 0


def test_each_key_has_the_limit_for_itself(service: Service) -> None:
    limit(service, running=1, key="customer.id")
    put(service, *(new(payload=payload(customer={"id": id_})) for id_ in ("a", "a", "b", "b", 7)))
    taken = take(service, most=10)
    assert [json.loads(job.payload.data)["customer"]["id"] for job in taken] == ["a", "b", 7]


def test_limits_stack(service: Service) -> None:
    limit(service, "all", running=3)
    limit(service, "per customer", running=2, key="c")
    limit(service, "mail", matches=Matcher(name="mail"), running=1)
    put(service, *(new(name=name, payload=payload(c=c)) for c in "ab" for name in ("mail", "x", "x")))
    taken = take(service, most=10)
    assert len(taken) == 3
    assert sum(job.name == "mail" for job in taken) <= 1
    assert take(service, most=10) == []
    finish(service, *taken)
    assert len(take(service, most=10)) == 3


def test_a_matcher_wants_all_its_conditions(service: Service) -> None:
    table = LimitTable(1, {4: Limit(name="l", running=1, matches=Matcher(queue="q", name="n", payload={"a.b": 1}))})
    assert table.match("q", "n", "", payload(a={"b": 1})) == ("4",)
    assert table.match("q", "m", "", payload(a={"b": 1})) == ()
    assert table.match("p", "n", "", payload(a={"b": 1})) == ()
    assert table.match("q", "n", "", payload(a={"b": True})) == ()
    assert table.match("q", "n", "", payload(a={"b": "1"})) == ()
    assert table.match("q", "n", "", payload(a={})) == ()
    assert table.match("q", "n", "", Blob(b"\xff not json")) == ()
    assert table.match("q", "n", "", Blob(b"\x81\xa1a\x81\xa1b\x01", Codec.MSGPACK)) == ("4",)


def test_a_rate_lets_a_burst_through_and_then_one_by_one(service: Service) -> None:
    limit(service, rate=2, per_ms=100_000, burst=3)
    put(service, *(new() for _ in range(10)))
    assert len(take(service, most=10)) == 3
    assert take(service, most=10) == []
    service.store.clock_offset_ms += 49_000
    assert take(service, most=10) == []
    service.store.clock_offset_ms += 1_000
    assert len(take(service, most=10)) == 1
    service.store.clock_offset_ms += 1_000_000
    assert len(take(service, most=10)) == 3


def test_a_rate_says_when_to_look_again(service: Service) -> None:
    limit(service, rate=1, per_ms=60_000)
    put(service, new(), new())
    take(service)
    taken = service.take(Take(queues=("q",))).wait()
    assert taken.jobs == []
    assert taken.next_due_at_ms is not None
    service.store.clock_offset_ms += 60_000
    assert len(take(service)) == 1


@pytest.mark.anyio
async def test_room_that_appears_is_used_at_once(store: Store) -> None:
    service = Service(store)
    async with store:
        await service.limit(Limit(name="l", matches=Matcher(queue="q"), running=1))
        await service.enqueue([new(), new()])
        (first,) = (await service.take(Take(queues=("q",)))).jobs
        waiting = asyncio.create_task(_waiting_take(service))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await service.finish([Finish(first.id, first.lease_token)])
        async with asyncio.timeout(20):
            (second,) = (await waiting).jobs
        assert second.id != first.id


async def _waiting_take(service: Service, **options: object) -> object:
    return await service.take(Take(queues=("q",), wait_ms=60_000, **options))  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_room_goes_to_the_taker_that_wants_it(store: Store) -> None:
    """The first lane in line is of a name that the only waiting taker does not want."""
    service = Service(store)
    async with store:
        await service.configure("q", {"name_lanes": True})
        await service.limit(Limit(name="l", matches=Matcher(queue="q"), running=1))
        await service.enqueue([new(name=f"n{at}") for at in range(20)])
        (first,) = (await service.take(Take(queues=("q",)))).jobs
        waiting = asyncio.create_task(_waiting_take(service, wants=Filter(glob="*15")))
        await asyncio.sleep(0.05)
        await service.finish([Finish(first.id, first.lease_token)])
        async with asyncio.timeout(20):
            (second,) = (await waiting).jobs
        assert second.name == "n15"


@pytest.mark.anyio
async def test_every_kind_of_waiting_taker_is_asked(store: Store) -> None:
    """The taker that waits longest wants none of what has room now."""
    service = Service(store)
    async with store:
        await service.configure("q", {"name_lanes": True})
        await service.limit(Limit(name="l", matches=Matcher(queue="q"), running=1))
        await service.enqueue([new(name="a"), new(name="a")])
        (first,) = (await service.take(Take(queues=("q",)))).jobs
        other = asyncio.create_task(_waiting_take(service, wants=Filter(only=("b",))))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(_waiting_take(service, wants=Filter(only=("a",))))
        await asyncio.sleep(0.05)
        await service.finish([Finish(first.id, first.lease_token)])
        async with asyncio.timeout(20):
            assert len((await waiting).jobs) == 1
        other.cancel()


@pytest.mark.anyio
async def test_a_waiting_taker_gets_the_next_token_without_a_loop(store: Store) -> None:
    service = Service(store)
    async with store:
        await service.limit(Limit(name="l", matches=Matcher(queue="q"), rate=1, per_ms=300))
        await service.enqueue([new(), new()])
        assert len((await service.take(Take(queues=("q",)))).jobs) == 1
        async with asyncio.timeout(20):
            assert len((await _waiting_take(service)).jobs) == 1


def test_a_new_limit_counts_what_runs_already(service: Service) -> None:
    put(service, *(new() for _ in range(5)))
    running = take(service, most=2)
    assert limit(service, running=2) == 5
    assert take(service) == []
    finish(service, running[0])
    assert len(take(service, most=5)) == 1


def test_a_limit_is_changed_and_removed_while_jobs_wait(service: Service) -> None:
    limit(service, running=1)
    put(service, *(new() for _ in range(6)))
    assert len(take(service, most=9)) == 1
    limit(service, running=3)
    assert len(take(service, most=9)) == 2
    assert service.unlimit("l").wait() == 6
    assert len(take(service, most=9)) == 3
    assert service.limits().wait() == []


def test_a_removed_limit_of_many_keys_lets_all_go(service: Service) -> None:
    limit(service, running=0, key="k")
    put(service, *(new(payload=payload(k=at)) for at in range(300)))
    assert take(service, most=1000) == []
    service.unlimit("l").wait()
    assert len(take(service, most=1000)) == 300


def test_another_process_learns_of_a_limit_with_its_next_enqueue(service: Service) -> None:
    other = another(service)
    try:
        put(other, new())
        limit(service, running=1)
        put(other, new(), new())
        assert len(take(service, most=5)) == 1
    finally:
        other.store.close_sync()


def test_an_edited_job_is_matched_again(service: Service) -> None:
    limit(service, matches=Matcher(name="slow"), running=1)
    fast, slow = put(service, new(name="fast"), new(name="slow"))
    take(service, most=1)
    other = another(service)
    try:
        (answer,) = other.edit([Edit(id=slow.id, name="fast")]).wait()
        assert not isinstance(answer, Exception)
    finally:
        other.store.close_sync()
    assert read(service, slow.id).limits == ()
    assert read(service, fast.id).limits == ()


def test_a_replaced_job_is_matched_again(service: Service) -> None:
    limit(service, running=1, key="k")
    (job,) = put(service, new(unique="u", payload=payload(k="a")))
    put(service, new(unique="u", unique_check="replace", payload=payload(k="b")))
    assert [text.partition(":")[2] for text in read(service, job.id).limits] == ['"b"']


@pytest.mark.parametrize("way", ["release", "fail", "cancel", "delete", "requeue", "lost"])
def test_every_way_out_makes_room(service: Service, way: str) -> None:
    limit(service, running=1)
    put(service, new(retry=new().retry), new())
    (job,) = take(service)
    held = LeaseRef(job.id, job.lease_token)
    if way == "release":
        service.release([held]).wait()
    elif way == "fail":
        service.fail([Fail(id=job.id, token=job.lease_token)]).wait()
    elif way == "cancel":
        service.cancel([job.id]).wait()
        service.fail([Fail(id=job.id, token=job.lease_token, then="cancelled")]).wait()
    elif way == "delete":
        service.delete([job.id], even_leased=True).wait()
    elif way == "requeue":
        service.requeue([job.id]).wait()
    else:
        service.store.clock_offset_ms += 31_000
    assert len(take(service, most=5)) == 1
    assert take(service, most=5) == []


def test_an_overdue_redeliverable_job_can_be_taken_again(service: Service) -> None:
    limit(service, running=1)
    put(service, new(retake=True, lease_ms=1000), new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 1000
    (again,) = take(service)
    assert again.id != job.id or again.attempt == 2
    assert take(service) == []


def test_an_overdue_holder_loses_its_place_when_the_limit_is_full(service: Service) -> None:
    limit(service, running=1)
    put(service, new(retake=True, lease_ms=1000, priority=5), new())
    service.requeue([take(service)[0].id]).wait()
    (plain,) = take(service)
    finish(service, plain)
    (job,) = take(service)
    assert job.priority == 5
    service.store.clock_offset_ms += 1000
    put(service, new())
    assert len(take(service)) == 1
    (answer,) = service.extend([LeaseRef(job.id, job.lease_token)]).wait()
    assert getattr(answer, "code", None) == "stale_lease"


def test_levels_are_listed(service: Service) -> None:
    limit(service, "a", running=2)
    limit(service, "b", rate=1, per_ms=1000)
    limit(service, "c", running=1, key="k")
    put(service, *(new(payload=payload(k="x")) for _ in range(3)))
    take(service, most=5)
    take(service, most=5)
    a, b, c = service.limits().wait()
    assert (a.levels[0].running, a.levels[0].room) == (1, 1)
    assert b.levels[0].room == 0
    assert b.levels[0].next_token_at_ms is not None
    assert [(level.key, level.running, level.room) for level in c.levels] == [('"x"', 1, 0)]


def test_blocked_lanes_are_counted(service: Service) -> None:
    limit(service, running=1, key="k")
    put(service, *(new(payload=payload(k=k)) for k in "aabb"))
    take(service, most=9)
    take(service, most=9)
    (stats,) = service.stats(["q"]).wait()
    assert stats.blocked_lanes == 2
    assert counts(service) == {"queued": 2, "running": 2}


def test_a_name_filter_beside_a_limit(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    limit(service, running=1)
    put(service, *(new(name=name) for name in "abcabc"))
    (job,) = take(service, wants=Filter(only=("b",)))
    assert take(service, wants=Filter(only=("c",))) == []
    finish(service, job)
    assert [job.name for job in take(service, wants=Filter(only=("c",)))] == ["c"]


def test_a_limit_with_an_exact_priority(service: Service) -> None:
    limit(service, running=1)
    put(service, new(priority=1), new(priority=2), new(priority=2))
    assert [job.priority for job in take(service, most=5, wants=Filter(priority=2))] == [2]
    assert take(service, most=5, wants=Filter(priority=1)) == []


def test_many_keys_share_one_full_limit(service: Service) -> None:
    """A line of many parked lanes: each freed place serves the best of them, by priority."""
    limit(service, "all", running=1)
    limit(service, "each", running=5, key="k")
    put(service, *(new(payload=payload(k=at), priority=-at) for at in range(30)))
    seen = []
    while jobs := take(service, most=3):
        seen += [job.priority for job in jobs]
        assert len(jobs) == 1
        finish(service, *jobs)
    assert seen == sorted(seen)
    assert len(seen) == 30


@pytest.mark.parametrize(
    "wrong",
    [
        Limit(name="", matches=Matcher(), running=1),
        Limit(name="l", matches=Matcher()),
        Limit(name="l", matches=Matcher(), running=1, rate=1),
        Limit(name="l", matches=Matcher(), running=-1),
        Limit(name="l", matches=Matcher(), rate=0),
        Limit(name="l", matches=Matcher(), rate=1, per_ms=0),
        Limit(name="l", matches=Matcher(payload={"": 1}), running=1),
        Limit(name="l", matches=Matcher(payload={"a": [1]}), running=1),  # type: ignore[dict-item]
        Limit(name="l", matches=Matcher(queue=7), running=1),  # type: ignore[arg-type]
        Limit(name="l\n", matches=Matcher(), running=1),
    ],
)
def test_a_wrong_limit_is_refused(service: Service, wrong: Limit) -> None:
    with pytest.raises(BadInput):
        service.limit(wrong)
    assert service.limits().wait() == []


def test_too_many_conditions_are_refused(service: Service) -> None:
    with pytest.raises(TooLarge):
        service.limit(Limit(name="l", matches=Matcher(payload={f"f{at}": 1 for at in range(17)}), running=1))


def test_an_unknown_limit_cannot_be_removed(service: Service) -> None:
    with pytest.raises(UnknownLimit):
        service.unlimit("nothing").wait()


def test_jobs_of_a_schedule_are_limited_too(service: Service) -> None:
    other = another(service)
    try:
        other.schedule(Schedule(name="s", job=new(), every_ms=1_000, misfire="all")).wait()
        limit(service, running=1)
        service.store.clock_offset_ms = other.store.clock_offset_ms = 5_000
        for _ in range(3):
            other.fire().wait()
        other.run_schedule("s").wait()
        assert counts(service)["queued"] > 2
        assert len(take(service, most=9)) == 1
    finally:
        other.store.close_sync()


def test_a_job_replaced_in_the_call_that_made_it_leaves_no_trace_of_its_first_key(service: Service) -> None:
    limit(service, running=1, key="k")
    put(service, new(payload=payload(k=1)))
    take(service)
    waiting = take_flow(Take(queues=("q",)), ["q"], 0, WaitRegistration("bell", 100_000))
    assert service.store.run_sync(waiting).taken.jobs == []
    calls = [new(unique="u", unique_check="replace", payload=payload(k=k)) for k in (1, 2)]
    assert [one.status for one in put(service, *calls)] == ["queued", "replaced"]
    assert not [key for key in list_keys(service.store) if key.startswith((b"parked", b"room"))]


def test_a_job_replaced_by_one_of_another_name_counts_against_the_limits_of_that_name(service: Service) -> None:
    limit(service, matches=Matcher(name="rare"), running=0)
    put(service, new(name="common", unique="u"))
    (replaced,) = put(service, new(name="rare", unique="u", unique_check="replace", payload=payload(k=2)))
    assert read(service, replaced.id).name == "rare"
    assert take(service) == []
    put(service, new(name="common", lane="x", unique="u", unique_check="replace"))
    (job,) = take(service)
    assert (job.name, job.lane, job.limits) == ("common", "x", ())


@pytest.mark.anyio
async def test_a_job_that_came_while_the_limit_was_full_is_taken_when_it_has_room(store: Store) -> None:
    service = Service(store)
    async with store:
        await service.limit(Limit(name="l", matches=Matcher(queue="q"), running=1))
        await service.enqueue([new()])
        (first,) = (await service.take(Take(queues=("q",)))).jobs
        waiting = asyncio.create_task(_waiting_take(service))
        await asyncio.sleep(0.05)
        await service.enqueue([new()])
        await service.finish([Finish(first.id, first.lease_token)])
        async with asyncio.timeout(20):
            assert len((await waiting).jobs) == 1
