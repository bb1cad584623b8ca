"""result: end and result of a job, and waiting for them without polling."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.service.helpers import counts, new, put, take
from tests.support.namespace import dump_keys, leftover_keys, list_keys, send_command
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.job import Blob, Codec, Ending, Job
from windlass.core.operations import Fail, Finish, Take
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store


def finished(service: Service, result: Blob | None, ttl_ms: int = 60_000) -> Job:
    put(service, new(result_ttl_ms=ttl_ms))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token, result)]).one().wait()
    return job


@pytest.mark.parametrize("result", [Blob(b"[1]"), Blob(b"", Codec.RAW), Blob(b"\xc0", Codec.MSGPACK), None])
def test_a_kept_result_is_read_as_often_as_wanted(service: Service, result: Blob | None) -> None:
    job = finished(service, result)
    for _ in range(2):
        assert service.result(job.id).wait() == Ending(state=State.FINISHED, result=result)


def test_it_goes_with_its_time(service: Service, store: Store) -> None:
    job = finished(service, Blob(b"1"), ttl_ms=10_000)
    service.store.clock_offset_ms += 9_000
    assert service.clean().wait().done == 0
    service.store.clock_offset_ms += 2_000
    assert service.clean().wait().done == 1
    with pytest.raises(AlreadyEnded):
        service.result(job.id).wait()
    assert leftover_keys(store) == []


def test_it_may_stay_for_ever(service: Service) -> None:
    job = finished(service, Blob(b"1"), ttl_ms=FOREVER_MS)
    service.store.clock_offset_ms += 50 * 365 * 86_400_000
    step = service.clean().wait()
    assert (step.done, step.next_at_ms) == (0, None)
    assert service.result(job.id).wait() == Ending(state=State.FINISHED, result=Blob(b"1"))


def test_consume_reads_once(service: Service) -> None:
    job = finished(service, Blob(b"1"))
    assert service.result(job.id, consume=True).wait() == Ending(state=State.FINISHED, result=Blob(b"1"))
    assert service.result(job.id, consume=True).wait() == Ending(state=State.FINISHED)
    assert counts(service) == {"finished": 1}


@pytest.mark.anyio
async def test_only_one_of_many_consumers_gets_it(service: Service, store: Store) -> None:
    job = await service.enqueue([new(result_ttl_ms=60_000)]).one()
    (taken,) = (await service.take(Take(queues=("q",)))).jobs
    await service.finish([Finish(job.id, taken.lease_token, Blob(b"1"))]).one()
    endings = await asyncio.gather(*(service.result(job.id, consume=True) for _ in range(10)))
    assert sorted(ending is not None and ending.result is not None for ending in endings) == [False] * 9 + [True]
    await store.close()


def test_a_result_that_is_not_kept_is_gone_with_the_job(service: Service, store: Store) -> None:
    job = finished(service, Blob(b"1"), ttl_ms=0)
    with pytest.raises(AlreadyEnded):
        service.result(job.id).wait()
    assert leftover_keys(store) == []


def test_a_job_that_failed_shows_its_last_attempt(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    failure = Fail(id=job.id, token=job.lease_token, reason="bad", error=Blob(b'"why"'))
    service.fail([failure]).one().wait()
    ending = service.result(job.id).wait()
    assert ending is not None
    assert ending.state is State.FAILED
    assert ending.last_attempt is not None
    assert (ending.last_attempt.reason, ending.last_attempt.error) == ("bad", Blob(b'"why"'))


def test_a_job_that_has_not_ended_has_no_ending_and_a_peek_leaves_nothing_behind(
    service: Service, store: Store
) -> None:
    (job,) = put(service, new())
    before = dump_keys(store)
    assert service.result(job.id).wait() is None
    assert dump_keys(store) == before


def test_an_unknown_job(service: Service) -> None:
    with pytest.raises(UnknownJob):
        service.result(service.store.new_id("q"), wait_ms=1_000).wait()


def test_waiting_without_an_event_loop_ends_with_the_job(service: Service, store: Store) -> None:
    put(service, new())
    (job,) = take(service)
    found: list[Ending | None] = []
    waiter = threading.Thread(target=lambda: found.append(service.result(job.id, wait_ms=60_000).wait()))
    waiter.start()
    while b"e:" + job.id not in list_keys(store):
        assert waiter.is_alive()
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    waiter.join(30)
    assert found == [Ending(state=State.FINISHED)]


def test_waiting_ends_with_its_time(service: Service) -> None:
    (job,) = put(service, new())
    assert service.result(job.id, wait_ms=20).wait() is None


async def _until_awaited(store: Store, job_id: bytes) -> None:
    while b"e:" + job_id not in await asyncio.to_thread(list_keys, store):  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.002)


@pytest.mark.anyio
@pytest.mark.parametrize("ttl_ms", [0, 60_000])
async def test_many_wait_for_one_job(service: Service, store: Store, ttl_ms: int) -> None:
    job = await service.enqueue([new(result_ttl_ms=ttl_ms)]).one()
    waiting = [asyncio.ensure_future(service.result(job.id, wait_ms=10_000)) for _ in range(20)]
    await _until_awaited(store, job.id)
    (taken,) = (await service.take(Take(queues=("q",)))).jobs
    await service.finish([Finish(job.id, taken.lease_token, Blob(b"5"))]).one()
    expected = Ending(state=State.FINISHED, result=Blob(b"5") if ttl_ms else None)
    assert await asyncio.gather(*waiting) == [expected] * 20
    await store.close()
    assert not [key for key in list_keys(store) if key.startswith(b"e:")]


@pytest.mark.anyio
async def test_a_retry_does_not_end_the_wait_and_a_cancel_does(service: Service, store: Store) -> None:
    job = await service.enqueue([new()]).one()
    waiting = asyncio.ensure_future(service.result(job.id, wait_ms=10_000))
    await _until_awaited(store, job.id)
    (taken,) = (await service.take(Take(queues=("q",)))).jobs
    await service.fail([Fail(id=job.id, token=taken.lease_token, then="retry")]).one()
    assert not waiting.done()
    await service.cancel([job.id], reason="enough").one()
    ending = await waiting
    assert ending is not None
    assert ending.state is State.CANCELLED
    await store.close()


@pytest.mark.anyio
async def test_waiting_costs_the_engine_no_calls(service: Service, store: Store) -> None:
    job = await service.enqueue([new()]).one()
    waiting = asyncio.ensure_future(service.result(job.id, wait_ms=10_000))
    await _until_awaited(store, job.id)
    before = await asyncio.to_thread(send_command, store, "INFO", "commandstats")
    await asyncio.sleep(0.1)
    after = await asyncio.to_thread(send_command, store, "INFO", "commandstats")
    assert _calls(after, b"fcall") == _calls(before, b"fcall")
    assert _calls(after, b"blpop") <= _calls(before, b"blpop") + 1  # its one blocking read
    await service.cancel([job.id]).one()
    assert await waiting is not None
    await store.close()


def _calls(stats: bytes, command: bytes) -> int:
    for line in stats.splitlines():
        if line.startswith(b"cmdstat_" + command + b":calls="):
            return int(line.split(b"=")[1].split(b",")[0])
    return 0
