"""Push dispatcher against real workers: good, slow, dead, lying and invalid ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.background.worker_server import WorkerServer
from windlass.background.push_dispatcher import PushDispatcher
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.operations import Finish, Take
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
POLICY = parse_policy("", is_local=True)
A, B = b"a" * 16, b"b" * 16


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        await service.configure("q", {"name_lanes": True})
        yield service


@contextlib.asynccontextmanager
async def dispatcher(**options: Any) -> AsyncIterator[PushDispatcher]:
    async with Outbound(POLICY) as outbound:
        yield PushDispatcher(outbound, **options)


@contextlib.asynccontextmanager
async def dispatching(service: Service, **options: Any) -> AsyncIterator[None]:
    async with dispatcher(**options) as one:
        running = asyncio.create_task(one.run(service))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})


async def put(service: Service, count: int = 1, **fields: Any) -> list[bytes]:
    jobs = [NewJob(**({"queue": "q", "name": "n"} | fields)) for _ in range(count)]
    return [one.id for one in await service.enqueue(jobs)]  # type: ignore[union-attr]


async def read(service: Service, job_id: bytes) -> Job:
    return (await service.job([job_id]).one()).job


async def test_a_push_has_all_that_the_worker_needs(opened: Service) -> None:
    payload = Blob(msgspec.msgpack.encode({"text": "ü", "bin": b"\0\xff", "big": 2**63, "nil": None}), Codec.MSGPACK)
    async with WorkerServer().open() as worker, dispatching(opened):
        await worker.register(opened)
        (job_id,) = await put(opened, name="mail", payload=payload, timeout_ms=90_000)
        message = await worker.got.get()
        assert message["path"] == "/base/worker-job"
        assert message["id"] == message["job_id"] == format_id(job_id)
        assert (message["name"], message["timeout"]) == ("mail", 90)
        assert message["argument"] == {"text": "ü", "bin": b"\0\xff", "big": 2**63, "nil": None}
        assert message["headers"]["worker-id"] == format_id(worker.worker)
        assert message["headers"]["content-type"] == "application/msgpack"


@pytest.mark.parametrize(
    ("payload", "argument"), [(Blob(b'{"a":[1,null]}'), {"a": [1, None]}), (Blob(b"\0raw", Codec.RAW), b"\0raw")]
)
async def test_other_payloads_become_messagepack(opened: Service, payload: Blob, argument: Any) -> None:
    async with WorkerServer().open() as worker, dispatcher() as one:
        await worker.register(opened)
        await put(opened, payload=payload)
        await one.push_once(opened)
        assert (await worker.got.get())["argument"] == argument


async def test_an_accepted_job_runs_until_its_timeout_decides(opened: Service, store: Store) -> None:
    async with WorkerServer().open() as worker, dispatcher() as one:
        await worker.register(opened)
        (job_id,) = await put(opened, timeout_ms=60_000, retry=Backoff(tries=2))
        await one.push_once(opened)
        job = await read(opened, job_id)
        assert (job.state, job.attempt) == (State.RUNNING, 1)
        store.clock_offset_ms += 60_000  # the lease is longer: it gets no heartbeats
        await opened.recover()
        found = await opened.job([job_id]).one()
        assert [attempt.reason for attempt in found.attempts] == ["timeout"]
        assert found.job.state is State.SCHEDULED


async def test_a_worker_that_is_silent_after_its_202_keeps_nothing(opened: Service, store: Store) -> None:
    """The worker accepts the job and never reports again. Its slot is free after the timeout."""
    async with WorkerServer(slots=1).open() as worker, dispatcher() as one:
        await worker.register(opened)
        first, second = await put(opened, 2, timeout_ms=5_000, retry=Backoff(tries=1))
        assert await one.push_once(opened) == 1
        assert await one.push_once(opened) == 0
        store.clock_offset_ms += 5_000
        await opened.recover()
        assert (await read(opened, first)).state is State.FAILED
        assert await one.push_once(opened) == 1
        assert (await read(opened, second)).state is State.RUNNING


async def test_a_result_may_come_before_the_202(opened: Service) -> None:
    async def finish_first(message: dict[str, Any]) -> int:
        await opened.finish([Finish(parse_id(message["id"]), 0)]).one()
        return 202

    async with WorkerServer(finish_first).open() as worker, dispatcher() as one:
        await worker.register(opened)
        (job_id,) = await put(opened, result_ttl_ms=60_000)
        await one.push_once(opened)
        job = await read(opened, job_id)
        assert (job.state, job.attempt) == (State.FINISHED, 1)


async def test_a_name_that_is_unknown_to_one_goes_to_another(opened: Service) -> None:
    async with (
        WorkerServer(404, worker=A, slots=20).open() as ignorant,
        WorkerServer(202, worker=B, slots=5).open() as other,
        dispatching(opened),
    ):
        await ignorant.register(opened)
        await other.register(opened)
        (job_id,) = await put(opened, name="rare")
        await other.got.get()
        assert (await _until(opened, job_id, State.RUNNING)).attempt == 1
        await put(opened, name="rare")
        await other.got.get()
        assert len(ignorant.jobs) == 1  # it is not asked twice


async def test_an_unknown_name_stays_queued_until_a_worker_registers(opened: Service) -> None:
    async with WorkerServer(404, worker=A).open() as ignorant, WorkerServer(worker=B).open() as late:
        async with dispatching(opened):
            await ignorant.register(opened)
            (job_id,) = await put(opened, name="rare")
            await ignorant.got.get()
            await _until(opened, job_id, State.QUEUED)
            explained = await opened.explain(job_id)
            assert 'no worker has a task called "rare"' in explained.summary
            await late.register(opened)
            await late.got.get()
            assert (await _until(opened, job_id, State.RUNNING)).attempt == 1
        assert len(ignorant.jobs) == 1


async def test_a_job_that_one_finds_invalid_goes_to_another(opened: Service) -> None:
    async with (
        WorkerServer(400, worker=A, slots=20).open() as picky,
        WorkerServer(202, worker=B).open() as other,
        dispatcher() as one,
    ):
        await picky.register(opened)
        await other.register(opened)
        (job_id,) = await put(opened)
        await one.push_once(opened)
        job = await read(opened, job_id)
        assert (job.state, job.worker, job.attempt) == (State.RUNNING, B, 1)
        assert picky.jobs == other.jobs == [format_id(job_id)]


async def test_a_job_that_all_find_invalid_has_failed_once(opened: Service) -> None:
    async with (
        WorkerServer(400, worker=A).open() as first,
        WorkerServer(400, worker=B).open() as second,
        dispatcher() as one,
    ):
        await first.register(opened)
        await second.register(opened)
        (retried,) = await put(opened, retry=Backoff(tries=2))
        (final,) = await put(opened, retry=Backoff(tries=1))
        await one.push_once(opened)
        found = await opened.job([retried]).one()
        assert (found.job.state, found.attempts[0].reason) == (State.SCHEDULED, "other")
        assert (await read(opened, final)).state is State.FAILED
        assert len(first.jobs) == len(second.jobs) == 2


@pytest.mark.parametrize("status", [500, 503, 301, 429])
async def test_trouble_of_a_worker_costs_no_attempt(opened: Service, status: int) -> None:
    async with WorkerServer(status).open() as worker, dispatching(opened):
        await worker.register(opened)
        (job_id,) = await put(opened, retry=Backoff(tries=1))
        await worker.got.get()
        await worker.got.get()  # after its pause it is tried again
        worker.answer = 202
        assert (await _until(opened, job_id, State.RUNNING)).attempt == 1


async def test_a_dead_worker_is_suspended_then_dropped_and_its_jobs_stay(opened: Service, store: Store) -> None:
    async with WorkerServer().open() as worker:
        await worker.register(opened)
    (job_id,) = await put(opened, retry=Backoff(tries=1))
    async with dispatcher() as one:
        tries = 0
        for _ in range(300):
            if not await opened.workers():
                break
            tries += await one.push_once(opened)
            store.clock_offset_ms += 100
            await opened.recover()
        assert await opened.workers() == []
        assert 3 <= tries <= 10
    job = await read(opened, job_id)
    assert (job.state, job.attempt) == (State.QUEUED, 0)


async def test_a_worker_that_is_slow_to_answer_counts_as_unreachable(opened: Service) -> None:
    is_over = asyncio.Event()

    async def hang(_: dict[str, Any]) -> int:
        await is_over.wait()
        return 202

    async with WorkerServer(hang).open() as worker, dispatcher(answer_s=0.1) as one:
        await worker.register(opened)
        (job_id,) = await put(opened, retry=Backoff(tries=1))
        await one.push_once(opened)
        job = await read(opened, job_id)
        assert (job.state, job.attempt) == (State.QUEUED, 0)
        is_over.set()


async def test_a_worker_that_says_it_is_another_now_is_dropped_at_once(opened: Service) -> None:
    async with WorkerServer(410).open() as worker, dispatcher() as one:
        await worker.register(opened)
        await put(opened)
        await one.push_once(opened)
        await opened.recover()
        assert await opened.workers() == []


async def test_an_address_that_must_not_be_dialled_is_not(opened: Service) -> None:
    async with WorkerServer().open() as worker, Outbound(parse_policy("no", is_local=True)) as outbound:
        await worker.register(opened)
        (job_id,) = await put(opened)
        await PushDispatcher(outbound).push_once(opened)
        assert worker.jobs == []
        assert (await read(opened, job_id)).state is State.QUEUED


async def test_a_job_that_is_cancelled_while_it_is_pushed_stays_cancelled(opened: Service) -> None:
    async def cancel(message: dict[str, Any]) -> int:
        await opened.cancel([parse_id(message["id"])]).one()
        return 503

    async with WorkerServer(cancel).open() as worker, dispatcher() as one:
        await worker.register(opened)
        (job_id,) = await put(opened)
        await one.push_once(opened)
        assert (await read(opened, job_id)).state is State.CANCELLED


async def test_a_dispatcher_that_dies_in_the_middle_loses_nothing(opened: Service, store: Store) -> None:
    """Jobs that it leased and that were not accepted go back by themselves."""
    async with WorkerServer().open() as worker, dispatcher() as one:
        await worker.register(opened)
        jobs = await put(opened, 5, retry=Backoff(tries=1))
        assert len((await opened.dispatch(accept_ms=10_000)).jobs) == 5  # and then it is killed
        store.clock_offset_ms += 10_000
        await opened.recover()
        await one.push_once(opened)
        assert sorted(worker.jobs) == sorted(format_id(job) for job in jobs)
        assert {(await read(opened, job)).attempt for job in jobs} == {1}


async def test_a_stopping_dispatcher_still_processes_answers_in_flight(opened: Service) -> None:
    may_answer = asyncio.Event()

    async def wait(_: dict[str, Any]) -> int:
        await may_answer.wait()
        return 202

    async with WorkerServer(wait).open() as worker, dispatcher() as one:
        await worker.register(opened)
        (job_id,) = await put(opened)
        running = asyncio.create_task(one.run(opened))
        await worker.got.get()
        running.cancel()
        await asyncio.sleep(0)
        may_answer.set()
        await asyncio.wait({running})
        assert (await read(opened, job_id)).state is State.RUNNING


async def test_two_dispatchers_push_no_job_twice_and_never_exceed_the_room(opened: Service) -> None:
    """Two dispatchers with a store each, like two processes."""
    other = Service(Store(opened.store.endpoint, namespace=opened.store.namespace, is_test=True, patience_s=10.0))
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()
    ending: set[asyncio.Task[None]] = set()

    def worker_with(slots: int) -> WorkerServer:
        async def work(message: dict[str, Any]) -> int:
            running[slots] += 1
            most[slots] = max(most[slots], running[slots])
            ending.add(asyncio.create_task(end(message)))
            return 202

        async def end(message: dict[str, Any]) -> None:
            await asyncio.sleep(0)
            running[slots] -= 1
            await opened.finish([Finish(parse_id(message["id"]), 0)]).one()

        return WorkerServer(work, worker=bytes([slots]) * 16, slots=slots)

    async with other.store, worker_with(2).open() as small, worker_with(3).open() as large:
        await small.register(opened)
        await large.register(opened)
        async with dispatching(opened), dispatching(other):
            ids = await put(opened, 200, result_ttl_ms=60_000)
            for job_id in ids:
                await _until(opened, job_id, State.FINISHED)
            await asyncio.gather(*ending)
    assert sorted(small.jobs + large.jobs) == sorted(format_id(job_id) for job_id in ids)
    assert most[2] <= 2
    assert most[3] <= 3


async def test_a_taker_and_a_push_worker_share_a_queue(opened: Service) -> None:
    async with WorkerServer(slots=1).open() as worker, dispatching(opened):
        await worker.register(opened)
        await put(opened)
        await worker.got.get()
        await put(opened)
        taken = await opened.take(Take(queues=("q",), wait_ms=15_000))
        assert len(taken.jobs) == 1
        assert len(worker.jobs) == 1


async def _until(service: Service, job_id: bytes, state: State) -> Job:
    while True:
        job = await read(service, job_id)
        if job.state is state:
            return job
        await asyncio.sleep(0.005)


# Jobs without the fields that LightJQ's jobs have


async def test_a_refused_job_without_a_policy_is_not_pushed_forever(opened: Service, store: Store) -> None:
    async with WorkerServer(400).open() as picky, dispatcher() as one:
        await picky.register(opened)
        (job_id,) = await put(opened)
        for attempt in range(1, 12):
            assert await one.push_once(opened) == 1
            job = await read(opened, job_id)
            assert (job.state, job.attempt) == (State.SCHEDULED if attempt < 11 else State.FAILED, attempt)
            store.clock_offset_ms += 400_000
            await opened.promote()
        assert len(picky.jobs) == 11


@pytest.mark.parametrize(
    ("queue", "settings", "fields", "lease_ms", "timeout"),
    [
        ("job_queue_x", {}, {}, 30_000, 30),
        ("job_queue_x", {}, {"lease_ms": 5_000}, 5_000, 5),
        ("job_queue_x", {}, {"lease_ms": 90_000}, 90_000, 90),
        ("job_queue_x", {}, {"lease_ms": 90_000, "timeout_ms": 20_000}, 90_000, 20),
        ("job_queue_x", {"lease_ms": 15_000}, {}, 15_000, 15),
        ("job_queue_x", {"lease_renewal": True}, {"lease_ms": 5_000}, 40_000, 30),
        ("x", {"lease_renewal": False, "lease_ms": 15_000}, {}, 15_000, 15),
        ("x", {"lease_renewal": False, "lease_ms": FOREVER_MS}, {}, 40_000, 30),
    ],
)
async def test_a_fixed_lease_is_the_lease_and_the_timeout_of_a_push(
    opened: Service, queue: str, settings: dict[str, Any], fields: dict[str, int], lease_ms: int, timeout: int
) -> None:
    if settings:
        await opened.configure(queue, settings)
    async with WorkerServer().open() as worker, dispatcher() as one:
        await worker.register(opened, queue)
        (job_id,) = await put(opened, queue=queue, **fields)
        await one.push_once(opened)
        assert (await worker.got.get())["timeout"] == timeout
        job = await read(opened, job_id)
        assert job.state is State.RUNNING
        assert (job.lease_deadline_at_ms or 0) - (job.started_at_ms or 0) == pytest.approx(lease_ms, abs=3_000)


async def test_a_queue_is_divided_by_name_when_a_name_is_unknown(opened: Service, store: Store) -> None:
    async with WorkerServer(404).open() as ignorant, dispatcher() as one:
        await ignorant.register(opened, "plain")
        first, second = await put(opened, 2, queue="plain", name="rare")
        assert not (await opened.configuration("plain")).name_lanes
        assert await one.push_once(opened) == 2
        assert (await opened.configuration("plain")).name_lanes
        store.clock_offset_ms += 1_000
        await opened.promote()
        assert [(await read(opened, job_id)).state for job_id in (first, second)] == [State.QUEUED] * 2
        assert await one.push_once(opened) == 0, "the name is not offered again"
        ignorant.answer = 202
        await put(opened, queue="plain", name="common")
        assert await one.push_once(opened) == 1
