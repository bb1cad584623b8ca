"""Batch tasks: one call for many jobs, each with its own end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from windlass import Backoff, Context, Depends, GiveUp, JobCancelled, JobFailed, Windlass, Worker
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import LeaseRef
from windlass.sdk.tasks.arguments import WrongCall

pytestmark = pytest.mark.anyio
AT_ONCE = Backoff(tries=2, base=0)
LONG = "1h"  # only a full batch begins


class Page(msgspec.Struct):
    number: int
    text: str = ""


@pytest.fixture
def begun(app: Windlass) -> asyncio.Event:
    """Set an event when a job begins, even if it waits for others."""
    event = asyncio.Event()

    @app.middleware
    async def beginning(ctx: Context, call_next: Any) -> Any:
        event.set()
        return await call_next()

    return event


async def results_of(handles: list[Any]) -> list[Any]:
    return await asyncio.gather(*(handle.aresult(timeout=30) for handle in handles), return_exceptions=True)


async def test_one_call_gets_the_arguments_of_many_jobs(app: Windlass, working: Any) -> None:
    calls: list[list[Page]] = []

    @app.batch_task(most=3, wait=LONG)
    async def index(pages: list[Page]) -> None:
        calls.append(pages)

    handles = [await index.aenqueue(Page(number)) for number in range(6)]
    async with working(app):
        assert await results_of(handles) == [None] * 6
    assert [[page.number for page in call] for call in calls] == [[0, 1, 2], [3, 4, 5]]


async def test_a_batch_that_does_not_fill_begins_after_a_while(app: Windlass, working: Any) -> None:
    @app.batch_task(most=3, wait="10ms")
    async def count(pages: list[int]) -> list[int]:
        return [len(pages)] * len(pages)

    async with working(app):
        assert await (await count.aenqueue(1)).aresult(timeout=30) == 1


async def test_each_job_has_its_own_result_or_error(app: Windlass, working: Any) -> None:
    seen: list[int] = []

    @app.batch_task(most=3, wait="100ms", retry=AT_ONCE)
    async def half(numbers: list[int]) -> list[int | Exception]:
        seen.extend(numbers)
        return [n // 2 if n % 2 == 0 else ValueError("odd") if n < 5 else GiveUp("too odd") for n in numbers]

    handles = [await half.aenqueue(number) for number in (4, 3, 5)]
    async with working(app):
        four, three, five = await results_of(handles)
    assert four == 2
    assert (three.type, three.attempts, five.type, five.attempts) == ("ValueError", 2, "GiveUp", 1)
    assert sorted(seen) == [3, 3, 4, 5]


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_error_fails_all_each_by_its_own_policy(app: Windlass, working: Any, is_async: bool) -> None:
    async def in_loop(numbers: list[int]) -> None:
        raise OSError("down")

    def in_thread(numbers: list[int]) -> None:
        raise OSError("down")

    task: Any = app.batch_task(most=2, wait="50ms", name="fail", retry=AT_ONCE)(in_loop if is_async else in_thread)
    handles = [await task.using(retry=1).aenqueue(1), await task.aenqueue(2)]
    async with working(app):
        errors = await results_of(handles)
    assert [(error.type, error.attempts) for error in errors] == [("OSError", 1), ("OSError", 2)]
    assert "raise OSError" in errors[0].traceback


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError()], ids=repr
)
async def test_whatever_a_batch_raises_fails_its_jobs_alone(app: Windlass, working: Any, error: BaseException) -> None:
    @app.batch_task(most=1, retry=1)
    async def in_loop(numbers: list[int]) -> None:
        raise error

    @app.batch_task(most=1, retry=1)
    def in_thread(numbers: list[int]) -> None:
        raise error

    @app.batch_task(most=1)
    async def well(numbers: list[int]) -> None: ...

    async with working(app):
        for task in (in_loop, in_thread):
            with pytest.raises(JobFailed):
                await (await task.aenqueue(1)).aresult(timeout=30)
        await (await well.aenqueue(1)).aresult(timeout=30)


async def test_results_that_do_not_fit_fail_all(app: Windlass, working: Any) -> None:
    @app.batch_task(most=1, retry=1)
    def short(numbers: list[int]) -> list[int]:
        return []

    @app.batch_task(most=1, retry=1)
    def odd(numbers: list[int]) -> list[int]:
        return {1: 2}  # type: ignore[return-value]

    async with working(app):
        with pytest.raises(JobFailed, match="returned 0 results for 1 jobs"):
            await (await short.aenqueue(1))
        with pytest.raises(JobFailed, match="not dict"):
            await (await odd.aenqueue(1))


async def test_a_payload_that_is_no_call_fails_alone(app: Windlass, working: Any) -> None:
    @app.batch_task(most=2, wait="50ms")
    async def total(numbers: list[int]) -> list[int]:
        return [sum(numbers)] * len(numbers)

    good = await total.aenqueue(1)
    service = await app.aservice()
    for data in (b'{"numbers": "x"}', b"5"):  # the second is the argument itself
        await service.enqueue(
            [NewJob(name="total", payload=Blob(data, Codec.JSON), queue="default", result_ttl_ms=1000)]
        )
    async with working(app):
        assert await good == 6


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_cancelled_job_leaves_its_batch_and_the_others_go_on(
    app: Windlass, working: Any, is_async: bool
) -> None:
    began, go_on = threading.Event(), threading.Event()

    async def in_loop(numbers: list[int]) -> list[int]:
        began.set()
        await asyncio.to_thread(go_on.wait, 10)
        return [n * 10 for n in numbers]

    def in_thread(numbers: list[int]) -> list[int]:
        began.set()
        go_on.wait(10)
        return [n * 10 for n in numbers]

    task: Any = app.batch_task(most=3, wait=LONG, name="times")(in_loop if is_async else in_thread)
    handles = [await task.aenqueue(number) for number in (1, 2, 3)]
    async with working(app):
        await asyncio.to_thread(began.wait, 10)
        await handles[1].acancel()
        with pytest.raises(JobCancelled):
            await handles[1]
        go_on.set()
        assert [await handles[0], await handles[2]] == [10, 30]


@pytest.mark.parametrize("is_async", [True, False])
async def test_when_all_jobs_are_cancelled_the_code_is_stopped(app: Windlass, working: Any, is_async: bool) -> None:
    began, ended = threading.Event(), threading.Event()

    async def in_loop(numbers: list[int]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)  # until then, the ends of the jobs are not reported
            ended.set()

    def in_thread(numbers: list[int]) -> None:
        began.set()
        try:
            while True:
                threading.Event().wait(0.01)
        finally:
            ended.set()

    task: Any = app.batch_task(most=2, wait=LONG, name="endless")(in_loop if is_async else in_thread)
    handles = [await task.aenqueue(number) for number in (1, 2)]
    async with working(app, concurrency=2):
        await asyncio.to_thread(began.wait, 10)
        for handle in handles:
            await handle.acancel()
        assert all(isinstance(result, JobCancelled) for result in await results_of(handles))
        assert ended.is_set()


async def test_a_job_cancelled_while_it_waits_for_others_is_no_part(
    app: Windlass, working: Any, begun: asyncio.Event
) -> None:
    @app.batch_task(most=2, wait=LONG)
    async def seen(numbers: list[int]) -> list[list[int]]:
        return [numbers] * len(numbers)

    async with working(app):
        first = await seen.aenqueue(1)
        await begun.wait()
        await first.acancel()
        with pytest.raises(JobCancelled):
            await first
        handles = [await seen.aenqueue(number) for number in (2, 3)]
        assert await results_of(handles) == [[2, 3]] * 2


async def test_the_timeout_of_the_task_stops_the_batch(app: Windlass, working: Any) -> None:
    stopped = threading.Event()

    @app.batch_task(most=2, wait=LONG, timeout="200ms", retry=1)
    async def endless(numbers: list[int]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    handles = [await endless.aenqueue(number) for number in (1, 2)]
    async with working(app):
        assert [error.reason for error in await results_of(handles)] == ["timeout"] * 2
    assert stopped.is_set()


async def test_a_lost_job_is_dropped_and_the_others_go_on(app: Windlass, working: Any) -> None:
    began, go_on, dropped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.middleware
    async def watched(ctx: Context, call_next: Any) -> Any:
        try:
            return await call_next()
        except asyncio.CancelledError:
            dropped.set()
            raise

    @app.batch_task(most=2, wait=LONG, lease="3s")
    async def times(numbers: list[int]) -> list[int]:
        began.set()
        await go_on.wait()
        return [n * 10 for n in numbers]

    handles = [await times.aenqueue(number) for number in (1, 2)]
    async with working(app, concurrency=2):
        await began.wait()
        service = await app.aservice()
        held = (await handles[0].ainfo()).lease_token
        await service.pause("default")
        await service.release([LeaseRef(handles[0].id_bytes, held)])
        await dropped.wait()  # the next heartbeat reports it
        go_on.set()
        assert await handles[1] == 20
        assert (await handles[0].ainfo()).state.label == "queued"


async def test_a_worker_that_ends_gives_back_what_waits_for_others(app: Windlass, begun: asyncio.Event) -> None:
    @app.batch_task(most=2, wait=LONG)
    async def index(numbers: list[int]) -> None: ...

    handle = index.enqueue(1)
    worker = Worker(app, grace=0)
    running = asyncio.create_task(worker.run())
    await worker.wait_until_ready()
    await begun.wait()
    worker.stop()
    await running
    await app.aclose()
    assert (handle.info().state.label, handle.info().attempt) == ("queued", 0)


async def test_a_batch_larger_than_the_worker_does_not_wait_for_the_impossible(
    app: Windlass, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @app.batch_task(most=100, wait=LONG)
    def count(numbers: list[int]) -> list[int]:
        return [len(numbers)] * len(numbers)

    handles = [await count.aenqueue(number) for number in range(4)]
    async with working(app, concurrency=4):
        assert await results_of(handles) == [4] * 4
    assert "count wants batches of 100 jobs and this worker has 4 slots" in caplog.text


async def test_dependencies_are_made_once_per_batch_and_middleware_runs_per_job(app: Windlass, working: Any) -> None:
    said: list[str] = []

    def session() -> Iterator[str]:
        said.append("open")
        yield "s"
        said.append("close")

    @app.middleware
    async def counted(ctx: Context, call_next: Any) -> Any:
        said.append("job")
        return await call_next()

    @app.batch_task(most=2, wait=LONG)
    def index(numbers: list[int], db: str = Depends(session)) -> list[str]:
        return [f"{db}{number}" for number in numbers]

    handles = [await index.aenqueue(number) for number in (1, 2)]
    async with working(app):
        assert await results_of(handles) == ["s1", "s2"]
    assert said == ["job", "job", "open", "close"]


async def test_inline_and_wrong_calls(app: Windlass) -> None:
    @app.batch_task(most=2)
    async def index(pages: list[Page]) -> list[int]:
        return [page.number for page in pages]

    @app.batch_task(most=2)
    def double(numbers: list[int]) -> list[int | Exception]:
        return [n * 2 for n in numbers]

    assert await index([Page(1), Page(2)]) == [1, 2]
    assert double([1, 2]) == [2, 4]
    assert (index.result_type, double.result_type) == (int, int)
    with pytest.raises(WrongCall):
        index.call("page").new_job()  # type: ignore[arg-type]


async def test_declarations_that_cannot_work(app: Windlass) -> None:
    batched: Any = app.batch_task(most=2, name="x")

    def no_list(page: int) -> None: ...
    def two(pages: list[int], more: int) -> None: ...
    def one_result(pages: list[int]) -> int: ...  # type: ignore[empty-body]
    def context(ctx: Context, pages: list[int]) -> None: ...
    def plain(pages: list[int]) -> None: ...

    for wrong in (no_list, two, one_result):
        with pytest.raises(BadInput, match="takes one list"):
            batched(wrong)
    with pytest.raises(BadInput, match="context"):
        batched(context)
    with pytest.raises(BadInput, match="child process"):
        app.batch_task(most=2, pool="process")(plain)
    for most in (0, True, "3"):
        with pytest.raises(BadInput, match="most"):
            app.batch_task(most=most)  # type: ignore[arg-type]
