"""follow(shared=True): followers of one process share a reader, and see the same events as a follower alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.service.helpers import new
from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from windlass.core.errors import BadInput, EngineUnavailable
from windlass.core.event import Emit, Event, EventKind
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Enqueued, Finish, Take
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.events.buffer import ROOM
from windlass.store.events.shared_follow import SharedFollower
from windlass.store.store import Store

valkey_only = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
pytestmark = pytest.mark.anyio
QUEUES = tuple(f"q{number}" for number in range(8))
KEPT = 10_000


@pytest.fixture
async def shared(store: Store) -> AsyncIterator[Service]:
    yield Service(store)
    await store.close()


@pytest.fixture
async def divided(divided_store: Callable[[int], Store]) -> AsyncIterator[Service]:
    store = divided_store(3)
    assert {store.partition_of_queue(queue) for queue in QUEUES} == {0, 1, 2}
    yield Service(store)
    await store.close()


async def put(service: Service, *jobs: NewJob) -> list[Enqueued]:
    answers = await service.enqueue(jobs)
    return [answer for answer in answers if isinstance(answer, Enqueued)]


async def numbered(service: Service, *numbers: int) -> None:
    for at in range(0, len(numbers), 1_000):
        await put(service, *(new(name=str(number)) for number in numbers[at : at + 1_000]))


async def read_events(following: Any, count: int) -> list[Event]:
    async with asyncio.timeout(20):
        return [await following.next() for _ in range(count)]


async def names(following: Any, count: int) -> list[str]:
    return [event.name or event.kind.label for event in await read_events(following, count)]


async def alone(service: Service, position: str, count: int, **which: Any) -> list[Event]:
    async with service.follow(position, **which) as following:
        return await read_events(following, count)


async def readers(store: Store) -> list[bytes]:
    """Connections that wait for events."""
    found: bytes = await asyncio.to_thread(send_command, store, "CLIENT", "LIST")
    return [line for line in found.splitlines() if b"cmd=xread" in line]


async def becomes(store: Store, count: int) -> None:
    async with asyncio.timeout(20):
        while len(await readers(store)) != count:  # noqa: ASYNC110 (only the engine knows)
            await asyncio.sleep(0.01)


# Visible events


async def test_events_and_positions_are_those_of_one_who_follows_alone(shared: Service) -> None:
    async with shared.follow(shared=True) as one, shared.follow(shared=True) as two:
        position = one.position
        (job, *_) = await put(shared, *(new(name=str(number)) for number in range(3)))
        taken = (await shared.take(Take(queues=("q",)))).jobs[0]
        await shared.emit([Emit(job.id, taken.lease_token, Blob(b"[1]"))]).one()
        await shared.finish([Finish(job.id, taken.lease_token)]).one()
        first, second = await read_events(one, 6), await read_events(two, 6)
        assert [event.kind.label for event in first] == ["queued"] * 3 + ["running", "emitted", "finished"]
        assert first == second == await alone(shared, position, 6)
        assert one.position == first[-1].position
        assert await alone(shared, first[3].position, 2) == first[4:]
        async with shared.follow(first[1].position, shared=True) as third:
            assert third.position == first[1].position
            assert await read_events(third, 4) == first[2:]
            await numbered(shared, 7)
            assert [await names(each, 1) for each in (one, two, third)] == [["7"]] * 3


async def test_only_what_comes_after_its_beginning(shared: Service) -> None:
    async with shared.follow(shared=True) as one:
        for number in range(20):
            await numbered(shared, number)
            async with shared.follow(shared=True) as another:
                await numbered(shared, 100 + number)
                assert await names(another, 1) == [str(100 + number)]
        assert len(await read_events(one, 40)) == 40


async def test_queue_and_job(shared: Service) -> None:
    first, second, third = await put(shared, new(), new("r"), new("r"))
    async with (
        shared.follow(queue="r", shared=True) as of_queue,
        shared.follow(job=first.id, shared=True) as of_job,
        shared.follow(queue="r", job=second.id, shared=True) as of_both,
        shared.follow(queue="r", job=first.id, shared=True) as of_none,
    ):
        start = of_job.position
        await shared.cancel([third.id, first.id, second.id])
        await put(shared, new("r", "last"))
        assert [event.job for event in await read_events(of_queue, 2)] == [third.id, second.id]
        assert await names(of_queue, 1) == ["last"]
        assert await read_events(of_job, 1) == await alone(shared, start, 1, job=first.id)
        assert [event.job for event in await read_events(of_both, 1)] == [second.id]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(of_none.next(), 0.01)


@valkey_only
async def test_who_follows_what_is_rare_can_go_on_past_the_rest(divided: Service) -> None:
    async with divided.follow(queue=QUEUES[0], shared=True) as rare, divided.follow(shared=True) as all_:
        start = rare.position
        assert rare.reached == start
        neighbour = next(one for one in QUEUES[1:] if _home(divided, one) == _home(divided, QUEUES[0]))
        await put(divided, new(QUEUES[0]), new(neighbour), new(neighbour))
        await read_events(all_, 3)
        assert rare.position == rare.reached == start  # something is still to be given out
        (event,) = await read_events(rare, 1)
        assert rare.position == event.position
        assert rare.reached in all_.position.split(",")
        assert rare.reached != event.position
        assert all_.reached == all_.position
        reached = rare.reached
        await put(divided, new(QUEUES[0], "next"))
        assert (await alone(divided, reached, 1, queue=QUEUES[0]))[0].name == "next"
        async with divided.follow(reached, queue=QUEUES[0], shared=True) as again:
            assert await names(again, 1) == ["next"]
            await read_events(rare, 1)
            assert again.position == again.reached == rare.reached


def _home(service: Service, queue: str) -> int:
    return service.store.partition_of_queue(queue)


async def test_a_loop_over_events_ends_cleanly(shared: Service) -> None:
    position = (await shared.events()).position
    await numbered(shared, *range(5))
    seen = []
    async for event in shared.follow(position, shared=True):
        seen.append(event.name)
        if len(seen) == 5:
            break
    assert seen == list("01234")


async def test_a_long_absence_is_read_by_pages(shared: Service) -> None:
    position = (await shared.events()).position
    await numbered(shared, *range(1_700))
    async with shared.follow(position, shared=True) as following:
        await numbered(shared, *range(1_700, 1_800))
        assert await names(following, 1_800) == [str(number) for number in range(1_800)]
        await numbered(shared, 1_800)
        assert await names(following, 1) == ["1800"]


async def test_bad_input(shared: Service) -> None:
    for position in ("x", "7:5-5"):
        with pytest.raises(BadInput):
            async with shared.follow(position, shared=True):
                pass
    with pytest.raises(BadInput, match="shared"):
        shared.follow(shared=5)  # type: ignore[call-overload]
    following = shared.follow(shared=True)
    with pytest.raises(RuntimeError, match="async with"):
        await following.next()


@valkey_only
async def test_all_partitions_and_on_from_any_event(divided: Service) -> None:
    async with divided.follow(shared=True) as one, divided.follow(queue=QUEUES[3], shared=True) as of_queue:
        await put(divided, *(new(queue) for queue in QUEUES))
        events = await read_events(one, len(QUEUES))
        assert [event.queue for event in await read_events(of_queue, 1)] == [QUEUES[3]]
        assert of_queue.position.count(":") == 1
        assert all(re.fullmatch(r"[0-9:,-]+", event.position) for event in events)  # fit for a line of any protocol
        assert sorted(event.queue for event in events) == sorted(QUEUES)
        for at, event in enumerate(events[:-1]):
            rest = {other.job for other in events[at + 1 :]}
            assert {other.job for other in await alone(divided, event.position, len(rest))} == rest
            async with divided.follow(event.position, shared=True) as again:
                assert {other.job for other in await read_events(again, len(rest))} == rest


# What it costs


@valkey_only
async def test_500_followers_are_one_connection_per_partition(divided: Service) -> None:
    store = divided.store
    jobs = await put(divided, *(new(QUEUES[number % 8], str(number)) for number in range(400)))
    wishes: list[dict[str, Any]] = [{}] * 50 + [{"queue": queue} for queue in QUEUES] * 7
    wishes += [{"job": job.id} for job in jobs[: 500 - len(wishes)]]
    followers = [divided.follow(shared=True, **wish) for wish in wishes]
    await asyncio.gather(*(follower.__aenter__() for follower in followers))
    await becomes(store, 3)
    await divided.cancel([job.id for job in jobs])
    for follower, wish in zip(followers, wishes, strict=True):
        count = 1 if "job" in wish else 50 if "queue" in wish else 400
        events = await read_events(follower, count)
        assert {event.job for event in events} <= {job.id for job in jobs}
        assert len({event.job for event in events}) == count
        assert all(event.job == wish.get("job", event.job) for event in events)
        assert all(event.queue == wish.get("queue", event.queue) for event in events)
    assert len(await readers(store)) == 3
    for follower in followers:
        await follower.__aexit__()


@valkey_only
async def test_the_connection_stays_for_a_while_and_then_goes(shared: Service) -> None:
    store = shared.store
    async with shared.follow(shared=True):
        await becomes(store, 1)
    (before,) = await readers(store)
    async with shared.follow(shared=True) as again:
        (after,) = await readers(store)
        assert before.split()[0] == after.split()[0]
        store.fanout.linger_s = 0.01
        await numbered(shared, 1)
        assert await names(again, 1) == ["1"]
    await becomes(store, 0)
    async with shared.follow(again.position, shared=True) as once_more:
        await numbered(shared, 2)
        assert await names(once_more, 1) == ["2"]
        await becomes(store, 1)


@valkey_only
async def test_who_comes_while_it_lingers_is_not_left_alone(shared: Service) -> None:
    shared.store.fanout.linger_s = linger_s = 0.2
    async with shared.follow(shared=True):
        pass
    async with shared.follow(shared=True) as again:
        await asyncio.sleep(linger_s * 1.2)
        await numbered(shared, 1)
        assert await names(again, 1) == ["1"]


@valkey_only
async def test_a_slow_follower_misses_events_and_blocks_no_other(shared: Service) -> None:
    more = ROOM + 500
    async with shared.follow(shared=True) as slow, shared.follow(shared=True) as quick:
        for at in range(0, more, 500):
            await numbered(shared, *range(at, at + 500))
            assert await names(quick, 500) == [str(number) for number in range(at, at + 500)]
        (missed,) = await read_events(slow, 1)
        assert missed.kind is EventKind.MISSED
        assert missed.missed is not None
        assert missed.missed >= more - ROOM
        rest = await read_events(slow, more - missed.missed)
        assert [event.name for event in rest] == [str(number) for number in range(missed.missed, more)]
        await numbered(shared, more)
        assert await names(slow, 1) == [str(more)]
        assert await alone(shared, missed.position, 3) == rest[:3]


@valkey_only
async def test_large_values_take_more_of_the_room(shared: Service) -> None:
    await put(shared, new())
    (job,) = (await shared.take(Take(queues=("q",)))).jobs
    async with shared.follow(job=job.id, shared=True) as slow, shared.follow(shared=True) as quick:
        for _ in range(ROOM // 100):
            await shared.emit([Emit(job.id, job.lease_token, Blob(b"x" * 16_384))] * 10)
        await shared.finish([Finish(job.id, job.lease_token)]).one()
        await until_finished(quick)
        events = await until_finished(slow)
        assert events[0].kind is EventKind.MISSED
        assert events[0].missed == ROOM // 10 + 2 - len(events)
        assert sum(len(event.value.data) for event in events if event.value) <= ROOM * 1024


async def until_finished(following: SharedFollower) -> list[Event]:
    events = await read_events(following, 1)
    while events[-1].kind is not EventKind.FINISHED:
        events += await read_events(following, 1)
    return events


# What goes wrong


async def kill_readers(store: Store) -> None:
    for line in await readers(store):
        await asyncio.to_thread(send_command, store, "CLIENT", "KILL", "ID", line.split()[0].removeprefix(b"id="))


@valkey_only
async def test_a_lost_connection_loses_nothing(shared: Service) -> None:
    async with shared.follow(shared=True) as one, shared.follow(queue="q", shared=True) as two:
        for round_ in range(10):
            await becomes(shared.store, 1)
            await numbered(shared, *range(round_ * 10, round_ * 10 + 5))
            await kill_readers(shared.store)
            await numbered(shared, *range(round_ * 10 + 5, round_ * 10 + 10))
        expected = [str(number) for number in range(100)]
        assert await names(one, 100) == expected
        assert await names(two, 100) == expected


@pytest.fixture
def mortal() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", config=("--appendonly", "yes", "--appendfsync", "always")) as process:
        yield process


@pytest.mark.parametrize("forgets", [False, True])
async def test_followers_survive_their_engine(mortal: EngineProcess, forgets: bool) -> None:
    store = Store(parse_url(mortal.unix_url), is_test=True)
    service = Service(store)
    async with service.follow(shared=True) as one, service.follow(queue="q", shared=True) as two:
        await put(service, new(name="before"))
        assert await names(one, 1) == await names(two, 1) == ["before"]
        await asyncio.to_thread(mortal.crash_and_start, forgets)
        seen: list[str] = []
        while "after" not in seen:
            await put(service, new(name="after"))
            seen += await names(one, 1)
        assert seen[0] == ("missed" if forgets else "after")
        assert await names(two, len(seen)) == seen
        async with service.follow(one.position, shared=True) as third:
            await put(service, new("r", "later"))
            while "later" not in seen:
                seen += await names(third, 1)
            assert seen.count("missed") == int(forgets)
    await store.close()


@valkey_only
async def test_trimmed_events_are_reported_to_a_follower_that_returns_too_late(shared: Service) -> None:
    async with shared.follow(shared=True) as present:
        position = present.position
        await numbered(shared, *range(KEPT + 1_000))
        kept = int(await asyncio.to_thread(send_command, shared.store, "XLEN", f"{shared.store.root(0)}:events"))
        async with shared.follow(position, shared=True) as late:
            first, second = await read_events(late, 2)
            assert (first.kind, first.missed) == (EventKind.MISSED, KEPT + 1_000 - kept)
            assert second.name == str(first.missed)


@valkey_only
async def test_a_time_without_followers_is_reported_only_to_absent_followers(shared: Service) -> None:
    async with shared.follow(shared=True) as following:
        await numbered(shared, 1)
        (event,) = await read_events(following, 1)
        root = shared.store.root(0)
        await asyncio.to_thread(send_command, shared.store, "DEL", f"{root}:followed")
        shared.store.clock_offset_ms += 1_000
        await numbered(shared, 2)
        async with shared.follow(event.position, shared=True) as resumed, shared.follow(shared=True) as fresh:
            await numbered(shared, 3)
            assert await names(resumed, 2) == ["missed", "3"]
            assert await names(following, 2) == ["missed", "3"]
            assert await names(fresh, 1) == ["3"]


@valkey_only
async def test_an_engine_that_has_lost_the_last_events_begins_again(shared: Service) -> None:
    async with shared.follow(shared=True) as one, shared.follow(queue="q", shared=True) as two:
        await numbered(shared, 1, 2, 3)
        assert await names(one, 3) == await names(two, 3) == ["1", "2", "3"]
        await becomes(shared.store, 1)
        # As after a failover to a replica that was behind: numbers come again.
        await asyncio.to_thread(send_command, shared.store, "DEL", f"{shared.store.root(0)}:events")
        await kill_readers(shared.store)
        assert await names(one, 1) == await names(two, 1) == ["missed"]
        await numbered(shared, 4)
        assert await names(one, 1) == await names(two, 1) == ["4"]


@valkey_only
async def test_a_closed_store_ends_all_followers(shared: Service) -> None:
    async with shared.follow(shared=True) as waiting, shared.follow(shared=True) as behind:
        await numbered(shared, 1)
        assert await names(waiting, 1) == ["1"]
        pending = asyncio.ensure_future(waiting.next())
        async with asyncio.timeout(20):
            await shared.store.close()
            for ended in (pending, waiting.next()):
                with pytest.raises(EngineUnavailable, match="closed"):
                    await ended
        assert await names(behind, 1) == ["1"]
        with pytest.raises(EngineUnavailable, match="closed"):
            await behind.next()
    await becomes(shared.store, 0)


@valkey_only
async def test_a_refusing_engine_ends_all_followers_and_the_next_start_fresh(shared: Service) -> None:
    store, key = shared.store, f"{shared.store.root(0)}:events"
    async with shared.follow(shared=True) as one, shared.follow(queue="q", shared=True) as two:
        await becomes(store, 1)
        await asyncio.to_thread(send_command, store, "SET", key, "no stream")
        await kill_readers(store)
        for follower in (one, two):
            with pytest.raises(Exception, match="WRONGTYPE"):
                await read_events(follower, 1)
        with pytest.raises(Exception, match="WRONGTYPE"):
            async with shared.follow(shared=True):
                pass
        await asyncio.to_thread(send_command, store, "DEL", key)
        async with shared.follow(shared=True) as three:
            await numbered(shared, 1)
            assert await names(three, 1) == ["1"]


@valkey_only
@pytest.mark.parametrize("steps", range(0, 40, 3))
async def test_who_is_cancelled_at_any_point_leaves_nothing_behind(divided: Service, steps: int) -> None:
    store = divided.store
    store.fanout.linger_s = 0.0
    position = (await divided.events()).position
    await put(divided, *(new(queue) for queue in QUEUES))

    async def follow() -> None:
        async with divided.follow(position, shared=True) as following:
            while True:
                await following.next()

    task = asyncio.ensure_future(follow())
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await becomes(store, 0)
    assert not store.fanout._shared
    async with divided.follow(position, shared=True) as again:
        assert len(await read_events(again, len(QUEUES))) == len(QUEUES)


@valkey_only
async def test_a_cancelled_next_loses_no_event(shared: Service) -> None:
    position = (await shared.events()).position
    await numbered(shared, *range(1_200))
    seen: list[str] = []
    async with shared.follow(position, shared=True) as following:
        for number in range(1_200, 1_300):
            task = asyncio.ensure_future(following.next())
            for _ in range(number % 5):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                seen.append(task.result().name)
            await numbered(shared, number)
        seen += await names(following, 1_300 - len(seen))
    assert seen == [str(number) for number in range(1_300)]
