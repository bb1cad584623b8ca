"""Worker in the test's own event loop: outcomes of jobs on the event loop and in threads."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from tests.support.engine_process import EngineProcess
from windlass import Backoff, Context, GiveUp, JobCancelled, JobFailed, Limit, ResultGone, Windlass, Worker
from windlass.core.errors import EngineFull
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import Take
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection

pytestmark = pytest.mark.anyio
AT_ONCE = Backoff(tries=3, base=0)


async def test_results_of_async_and_sync_tasks(app: Windlass, working: Any) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def where() -> str:
        return threading.current_thread().name

    async with working(app):
        handle = await add.aenqueue(2, b=3)
        assert await handle == 5
        assert await handle.acancel() == "ended"
        assert "windlass-job" in await (await where.aenqueue())


async def test_a_result_is_awaited_without_an_event_loop(app: Windlass, working: Any) -> None:
    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    async with working(app):
        assert await asyncio.to_thread(lambda: add.enqueue(2, 3).result(timeout=10)) == 5


async def test_a_result_that_does_not_come(app: Windlass) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    handle = await add.aenqueue(1)
    with pytest.raises(TimeoutError):
        await handle.aresult(timeout="10ms")
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(handle.result, timeout=0.01)
    await app.aclose()


async def test_a_failure_is_tried_again_and_told(app: Windlass, working: Any) -> None:
    attempts = []

    @app.task(retry=AT_ONCE)
    async def fail(ctx: Context, word: str) -> None:
        attempts.append(ctx.attempt)
        raise ValueError(word)

    async with working(app):
        handle = await fail.aenqueue("no")
        with pytest.raises(JobFailed) as told:
            await handle
        timeline = await (await app.aservice()).job([handle.id_bytes]).one()
    assert attempts == [1, 2, 3]
    error = told.value
    assert (error.type, error.message, error.reason, error.attempts) == ("ValueError", "no", "error", 3)
    assert "raise ValueError(word)" in error.traceback
    assert [attempt.reason for attempt in timeline.attempts] == ["error"] * 3


async def test_an_attempt_may_succeed_after_a_failure(app: Windlass, working: Any) -> None:
    @app.task(retry=AT_ONCE)
    def flaky(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise OSError
        return ctx.attempt

    async with working(app):
        assert await (await flaky.aenqueue()) == 3


async def test_giving_up_and_asking_for_another_attempt(app: Windlass, working: Any) -> None:
    @app.task(retry=AT_ONCE)
    async def give_up(ctx: Context) -> None:
        raise GiveUp(f"in attempt {ctx.attempt}")

    @app.task(retry=Backoff(tries=2, base="1h"))
    async def again(ctx: Context) -> int:
        if ctx.attempt == 1:
            ctx.retry(delay=0, reason="not yet")
        return ctx.attempt

    async with working(app):
        with pytest.raises(JobFailed, match="in attempt 1"):
            await (await give_up.aenqueue())
        assert await (await again.aenqueue()) == 2


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), MemoryError()], ids=repr
)
async def test_whatever_code_raises_fails_its_job_alone(app: Windlass, working: Any, error: BaseException) -> None:
    @app.task(retry=1)
    async def in_loop() -> None:
        raise error

    @app.task(retry=1)
    def in_thread() -> None:
        raise error

    @app.task
    async def well() -> int:
        return 1

    async with working(app):
        for task in (in_loop, in_thread):
            with pytest.raises(JobFailed):
                await (await task.aenqueue())
        assert await (await well.aenqueue()) == 1


async def test_a_payload_that_is_no_call(app: Windlass, working: Any) -> None:
    @app.task
    async def add(a: int) -> int:
        return a

    async with working(app):
        service = await app.aservice()
        new = NewJob(queue="default", name="add", payload=Blob(b'{"a": "one"}', Codec.JSON))
        enqueued = await service.enqueue([new]).one()
        ending = await service.result(enqueued.id, wait_ms=10_000)
    assert ending is not None
    assert ending.last_attempt is not None
    assert (ending.state.label, ending.last_attempt.reason) == ("failed", "bad_arguments")


async def test_a_payload_of_another_dialect(app: Windlass, working: Any) -> None:
    @app.task
    async def double(a: int) -> int:
        return a * 2

    async with working(app):
        service = await app.aservice()
        for payload in (b'{"a": 21}', b"21"):
            new = NewJob(queue="default", name="double", payload=Blob(payload), result_ttl_ms=60_000)
            enqueued = await service.enqueue([new]).one()
            ending = await service.result(enqueued.id, wait_ms=10_000)
            assert ending is not None
            assert ending.result is not None
            assert ending.result.data == b"*"


async def test_a_result_that_cannot_be_stored(app: Windlass, working: Any) -> None:
    @app.task
    async def strange() -> Any:
        return object()

    @app.task
    async def huge() -> bytes:
        return b"x" * (2**20 + 1)

    async with working(app):
        for task in (strange, huge):
            with pytest.raises(JobFailed) as told:
                await (await task.aenqueue())
            assert told.value.reason == "bad_result"


async def test_what_is_not_kept(app: Windlass, working: Any) -> None:
    @app.task
    async def nothing() -> None: ...

    @app.task(keep_result=None)
    async def something() -> int:
        return 1

    async with working(app):
        first, second = await nothing.aenqueue(), await something.aenqueue()
        await first
        await second
        assert [await first, await second] == [None, None]
        with pytest.raises(ResultGone):
            await app.job(second.id)


async def test_time_limits(app: Windlass, working: Any) -> None:
    @app.task(timeout="100ms", retry=1)
    async def in_loop() -> None:
        await asyncio.sleep(60)

    @app.task(timeout="100ms", retry=1)
    def in_thread() -> None:
        while True:
            time.sleep(0.001)

    async with working(app):
        for task in (in_loop, in_thread):
            with pytest.raises(JobFailed) as told:
                await (await task.aenqueue())
            assert told.value.reason == "timeout"


async def test_code_that_does_not_stop_loses_its_say(app: Windlass, working: Any) -> None:
    may_end = threading.Event()

    @app.task(timeout="50ms", grace="50ms", retry=1)
    def stubborn() -> None:
        may_end.wait(30)

    async with working(app, concurrency=1):
        with pytest.raises(JobFailed) as told:
            await (await stubborn.aenqueue())
        assert told.value.reason == "timeout"
        may_end.set()

        @app.task
        async def well() -> int:
            return 1

        assert await (await well.aenqueue()) == 1  # its slot is free again


async def test_cancel_while_it_runs(app: Windlass, working: Any) -> None:
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    cleaned: list[str] = []

    @app.task
    async def in_loop() -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("loop")

    @app.task
    def in_thread(ctx: Context) -> None:
        loop.call_soon_threadsafe(started.set)
        while not ctx.cancelled:
            time.sleep(0.001)
        cleaned.append("thread")

    @app.task(grace="50ms")
    def deaf() -> None:
        loop.call_soon_threadsafe(started.set)
        while True:
            time.sleep(0.001)

    async with working(app):
        for task in (in_loop, deaf):
            started.clear()
            handle = await task.aenqueue()
            await started.wait()
            assert await handle.acancel() == "requested"
            with pytest.raises(JobCancelled):
                await handle
        started.clear()
        handle = await in_thread.aenqueue()
        await started.wait()
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle
    assert cleaned == ["loop", "thread"]


async def test_cancel_before_it_runs(app: Windlass) -> None:
    @app.task
    async def never() -> None: ...

    handle = await never.aenqueue()
    assert await handle.acancel() == "cancelled"
    with pytest.raises(JobCancelled):
        await handle
    await app.aclose()


async def test_progress_values_and_events(app: Windlass, working: Any) -> None:
    may_go = asyncio.Event()

    @app.task
    async def report(ctx: Context) -> str:
        await may_go.wait()
        ctx.progress(1, 4, "first page")
        ctx.emit({"page": 1})
        ctx.emit([2])
        ctx.log.warning("page %d is long", 2)
        return "done"

    async with working(app):
        handle = await report.aenqueue()
        events = []
        async for event in handle.events():
            if not events:
                may_go.set()
            events.append(event)
        assert await handle == "done"
        logs = await handle.alogs()
    assert [(line.attempt, line.level, line.text) for line in logs.lines] == [(1, "warning", "page 2 is long")]
    seen = [(event.kind, event.value) for event in events if event.kind == "emitted"]
    assert seen == [("emitted", {"page": 1}), ("emitted", [2])]
    assert [(event.progress, event.note) for event in events if event.kind == "progress"] == [(0.25, "first page")]
    assert events[-1].kind == "finished"


async def test_no_more_jobs_than_slots(app: Windlass, working: Any) -> None:
    now, most = 0, 0
    may_end, is_full = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 3:
            is_full.set()
        await may_end.wait()
        now -= 1

    async with working(app, concurrency=3):
        handles = await app.aenqueue_many(hold.call() for _ in range(7))
        service = await app.aservice()
        await is_full.wait()
        (stats,) = await service.stats(["default"])
        assert (stats.running, stats.queued) == (3, 4)
        may_end.set()
        for handle in handles:
            await handle
    assert most == 3


async def test_a_name_that_no_worker_knows_waits_and_is_run_by_one_that_does(app: Windlass, working: Any) -> None:
    @app.task
    async def known() -> int:
        return 1

    service = await app.aservice()
    enqueued = await service.enqueue([NewJob(queue="default", name="newer", result_ttl_ms=60_000)]).one()
    async with working(app):
        assert await (await known.aenqueue()) == 1
        assert await (await known.aenqueue()) == 1
        service = await app.aservice()
        found = (await service.job([enqueued.id]).one()).job
        assert (found.state.label, found.attempt) == ("queued", 0)
        assert "newer" in (await service.explain(enqueued.id)).summary

    @app.task
    async def newer() -> int:
        return 2

    async with working(app):
        assert await app.job(found.key) == 2


async def test_limits_of_a_task(app: Windlass, working: Any) -> None:
    now: dict[str, int] = {}
    most: dict[str, int] = {}

    @app.task(limits=[Limit(2, key=lambda shop, number: shop)])
    async def sync(shop: str, number: int) -> None:
        now[shop] = now.get(shop, 0) + 1
        most[shop] = max(most.get(shop, 0), now[shop])
        await asyncio.sleep(0.01)
        now[shop] -= 1

    async with working(app):
        handles = await app.aenqueue_many(sync.call(shop, n) for n in range(6) for shop in ("a", "b"))
        for handle in handles:
            await handle
    assert most == {"a": 2, "b": 2}


async def test_a_worker_is_listed_with_what_it_runs(app: Windlass, working: Any) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> None:
        started.set()
        await may_end.wait()

    async with working(app, name="first"):
        handle = await hold.aenqueue()
        await started.wait()
        found = await (await app.aservice()).workers()
        assert [(listed.info.name, listed.info.queues, listed.running[0].id) for listed in found] == [
            ("first", ("default",), handle.id_bytes)
        ]
        may_end.set()
        await handle
    assert await (await app.aservice()).workers() == []
    await app.aclose()


async def test_stopping_gives_back_what_does_not_end(app: Windlass, working: Any) -> None:
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.sleep(60)

    async with working(app, grace=0):
        handle = await endless.aenqueue()
        await started.wait()
    job = await handle.ainfo()
    assert (job.state.label, job.attempt) == ("queued", 0)
    await app.aclose()


async def test_stopping_lets_jobs_end_within_the_grace(app: Windlass, working: Any) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.task
    async def hold() -> int:
        started.set()
        await may_end.wait()
        return 1

    async with working(app, grace=60) as worker:
        handle = await hold.aenqueue()
        await started.wait()
        worker.stop()
        waiting = await hold.aenqueue()
        may_end.set()
        assert await handle == 1
    assert (await waiting.ainfo()).state.label == "queued"
    await app.aclose()


async def test_a_lease_that_is_lost_stops_the_code_and_its_result_is_refused(app: Windlass, working: Any) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task(lease="300ms")
    async def hold() -> int:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            return 1
        return 2

    async with working(app, has_loops=False):
        handle = await hold.aenqueue()
        await started.wait()
        service = await app.aservice()
        assert await service.requeue([handle.id_bytes]).one()
        taken = await service.take(Take(queues=("default",), worker=b"x" * 16))
        if taken.jobs:  # otherwise the worker itself has taken it again
            await stopped.wait()
            job = await handle.ainfo()
            assert (job.state.label, job.lease_token) == ("running", taken.jobs[0].lease_token)


async def test_burst_ends_when_nothing_is_left(app: Windlass) -> None:
    ran = []

    @app.task
    async def note(number: int) -> None:
        ran.append(number)

    await app.aenqueue_many(note.call(number) for number in range(250))
    worker = Worker(app, concurrency=10, burst=True)
    await worker.run()
    assert (sorted(ran), worker.done) == (list(range(250)), 250)
    await app.aclose()


async def test_middlewares_are_called_around_each_job(app: Windlass, working: Any) -> None:
    order: list[str] = []

    @app.middleware
    async def outer(ctx: Context, call_next: Any) -> Any:
        order.append(f"before {ctx.task.name}")
        try:
            return await call_next()
        finally:
            order.append("after")

    @app.middleware
    async def inner(ctx: Context, call_next: Any) -> Any:
        return await call_next() + 1

    @app.task
    async def one() -> int:
        return 1

    @app.task
    def two() -> int:
        return 2

    async with working(app):
        assert [await (await task.aenqueue()) for task in (one, two)] == [2, 3]
    assert order == ["before one", "after", "before two", "after"]


async def test_a_worker_that_starts_late_drains_an_engine_that_is_full() -> None:
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as engine:
        app = Windlass(engine.unix_url)

        @app.task
        async def note(text: bytes) -> None: ...

        await app.aenqueue_many(note.call(b"x" * 1000) for _ in range(100))
        await app.aclose()
        control = SyncConnection.open(parse_url(engine.unix_url))
        control.call("CONFIG", "SET", "maxmemory", "1mb")
        control.close()
        with pytest.raises(EngineFull):
            await note.aenqueue(b"one more")
        worker = Worker(app, burst=True)
        await worker.run()
        await app.aclose()
    assert worker.done == 100
