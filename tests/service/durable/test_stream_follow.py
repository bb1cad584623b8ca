"""follow_stream: entries as they come, from any position, until the end of the job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.service.helpers import new
from windlass.core.durable import StreamPage, StreamWrite
from windlass.core.errors import AlreadyEnded, BadInput, UnknownJob
from windlass.core.ids import make_id
from windlass.core.job import Blob, Job
from windlass.core.operations import ANY_JOB_WITH_STEPS, Fail, Finish, LeaseRef, Take
from windlass.core.states import State
from windlass.service import Service
from windlass.service.streams import feed
from windlass.service.streams.follower import StreamFollower
from windlass.store.operation import Operation
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
READERS = 50


class CountedReads(Service):
    """Service that counts the reads of streams."""

    reads = 0

    def read_stream(self, job_id: bytes, *, after: int = 0, most: int = 500) -> Operation[StreamPage]:
        self.reads += 1
        return super().read_stream(job_id, after=after, most=most)


@pytest.fixture
async def counted(store: Store) -> AsyncIterator[CountedReads]:
    yield CountedReads(store)
    await store.close()


async def start(service: Service, **kw: Any) -> Job:
    await service.enqueue([new(**kw)])
    return await take(service)


async def take(service: Service) -> Job:
    (job,) = (await service.take(Take(queues=("q",), wants=ANY_JOB_WITH_STEPS))).jobs
    return job


async def write(service: Service, job: Job, *values: int, sequence: int = 0) -> None:
    blobs = tuple(Blob(b"%d" % value) for value in values)
    request = StreamWrite(id=job.id, token=job.lease_token, values=blobs, sequence=sequence)
    await service.write_stream([request]).one()


async def finish(service: Service, job: Job) -> None:
    await service.finish([Finish(job.id, job.lease_token)]).one()


async def read_all(service: Service, job: Job, after: int = 0) -> tuple[list[int | None], State]:
    async with asyncio.timeout(20), service.follow_stream(job.id, after=after) as follower:
        found = [int(item.value.data) if item.value else None async for item in follower]
        return found, follower.state


async def next_values(follower: StreamFollower, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += [int(shared.item.value.data) for shared in await follower.next_batch() if shared.item.value]
    return found


async def test_a_reader_follows_the_run_until_its_end(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, 1, 2)
    async with counted.follow_stream(job.id) as follower:
        assert await next_values(follower, 2) == [1, 2]
        await write(counted, job, 3, sequence=2)
        assert await next_values(follower, 1) == [3]
        waiting = asyncio.create_task(follower.next_batch())
        await finish(counted, job)
        assert await asyncio.wait_for(waiting, 20) == []
        assert follower.state is State.FINISHED


async def test_a_stream_is_read_after_the_end_from_any_position(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, *range(1_200))
    await finish(counted, job)
    assert await read_all(counted, job) == (list(range(1_200)), State.FINISHED)
    assert await read_all(counted, job, after=1_190) == (list(range(1_190, 1_200)), State.FINISHED)
    assert await read_all(counted, job, after=5_000) == ([], State.FINISHED)


async def test_a_reader_that_starts_ahead_waits_for_its_position(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, 1)
    reading = asyncio.create_task(read_all(counted, job, after=2))
    await write(counted, job, 2, 3, sequence=1)
    await finish(counted, job)
    assert await reading == ([3], State.FINISHED)


async def test_readers_share_their_reads(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, 0)
    followers = [counted.follow_stream(job.id) for _ in range(READERS)]
    for follower in followers:
        await follower.__aenter__()
        assert await next_values(follower, 1) == [0]
    counted.reads = 0
    for number in range(1, 6):
        await write(counted, job, number, sequence=number)
        assert [await next_values(follower, 1) for follower in followers] == [[number]] * READERS
    assert counted.reads <= 5
    for follower in followers:
        await follower.__aexit__()


async def test_a_slow_reader_loses_nothing(counted: CountedReads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "WINDOW_BYTES", 1_000)
    job = await start(counted)
    await write(counted, job, 0)
    async with counted.follow_stream(job.id) as slow, counted.follow_stream(job.id) as fast:
        assert await next_values(slow, 1) == [0]
        for number in range(1, 100):
            await write(counted, job, number, sequence=number)
        assert await next_values(fast, 100) == list(range(100))
        assert await next_values(slow, 99) == list(range(1, 100))


async def test_a_late_reader_joins_a_feed_that_started_ahead_of_it(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, *range(10))
    async with counted.follow_stream(job.id, after=8) as ahead, counted.follow_stream(job.id) as late:
        assert await next_values(ahead, 2) == [8, 9]
        assert await next_values(late, 10) == list(range(10))


async def test_a_failed_attempt_is_marked_and_the_reader_goes_on(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, 1)
    reading = asyncio.create_task(read_all(counted, job))
    await counted.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one()
    again = await take(counted)
    await write(counted, again, 2)
    await counted.fail([Fail(id=job.id, token=again.lease_token)]).one()
    assert await reading == ([1, None, 2], State.FAILED)


async def test_a_reader_of_a_released_job_waits_for_its_next_run(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, 1)
    async with counted.follow_stream(job.id) as follower:
        assert await next_values(follower, 1) == [1]
        waiting = asyncio.create_task(next_values(follower, 1))
        await counted.release([LeaseRef(job.id, job.lease_token)]).one()
        again = await take(counted)
        await write(counted, again, 2)
        assert await waiting == [2]


async def test_a_deleted_job_ends_its_readers_with_an_error(counted: CountedReads) -> None:
    job = await start(counted)
    await write(counted, job, 1)
    async with counted.follow_stream(job.id) as follower:
        assert await next_values(follower, 1) == [1]
        waiting = asyncio.create_task(follower.next_batch())
        await counted.release([LeaseRef(job.id, job.lease_token)]).one()
        await counted.delete([job.id]).one()
        with pytest.raises((AlreadyEnded, UnknownJob)):
            await asyncio.wait_for(waiting, 20)


async def test_an_unknown_job_is_refused_at_the_start(counted: CountedReads) -> None:
    with pytest.raises(UnknownJob):
        await counted.follow_stream(make_id(1, 0, 7)).__aenter__()
    with pytest.raises(BadInput):
        counted.follow_stream(make_id(1, 0, 7), after=-1)


async def test_the_feed_of_the_last_reader_ends(counted: CountedReads) -> None:
    job = await start(counted)
    async with counted.follow_stream(job.id):
        assert any(task.get_name() == "windlass-stream-feed" for task in asyncio.all_tasks())
    assert not any(task.get_name() == "windlass-stream-feed" for task in asyncio.all_tasks())


async def test_a_reader_of_a_repeating_job_ends_with_the_occurrence(counted: CountedReads) -> None:
    job = await start(counted, repeat="FINISHED, +1 HOUR")
    await write(counted, job, 1, 2)
    async with counted.follow_stream(job.id) as follower:
        assert await next_values(follower, 2) == [1, 2]
        waiting = asyncio.create_task(follower.next_batch())
        await finish(counted, job)
        assert await asyncio.wait_for(waiting, 20) == []
        assert follower.state is State.SCHEDULED
    counted.store.clock_offset_ms += 3_600_000
    again = await take(counted)
    await write(counted, again, 3)
    async with counted.follow_stream(job.id) as follower:
        assert await next_values(follower, 1) == [3]
