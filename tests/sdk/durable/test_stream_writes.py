"""ctx.stream.write: values are kept in order, and a repeated run writes none of them twice."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from windlass import Backoff, Context, JobHandle, SyncContext, Testing, Windlass
from windlass.core.durable import STREAM_VALUE_MAX
from windlass.core.errors import BadInput, TooLarge

AT_ONCE = Backoff(tries=3, base=0)


def entries(handle: JobHandle[Any], start: int = 0) -> list[Any]:
    """Values of a stream; "|" stands for the mark of a new attempt."""
    return ["|" if entry.is_new_attempt else entry.value for entry in handle.stream(start)]


@pytest.mark.parametrize("is_async", [True, False])
def test_values_are_kept_in_order(tested: Windlass, t: Testing, is_async: bool) -> None:
    if is_async:

        @tested.task(name="write")
        async def write(ctx: Context) -> None:
            await ctx.stream.write("a", {"b": 1})
            await ctx.stream.write(b"\xff")
    else:

        @tested.task(name="write")
        def write(ctx: SyncContext) -> None:
            ctx.stream.write("a", {"b": 1})
            ctx.stream.write(b"\xff")

    handle = write.enqueue()
    t.run_all(raises=True)
    assert entries(handle) == ["a", {"b": 1}, b"\xff"]
    assert entries(handle, start=2) == [b"\xff"]
    assert [(entry.position, entry.attempt) for entry in handle.stream()] == [(1, 1), (2, 1), (3, 1)]


def test_values_are_decoded_as_a_type(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def write(ctx: Context) -> None:
        await ctx.stream.write((1, 2))

    handle = write.enqueue()
    t.run_all(raises=True)
    assert [entry.value for entry in handle.stream(type=tuple[int, int])] == [(1, 2)]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_resumed_run_writes_values_outside_of_steps_once(tested: Windlass, t: Testing, is_async: bool) -> None:
    if is_async:

        @tested.task(name="write")
        async def write(ctx: Context) -> None:
            async def work() -> None:
                await ctx.stream.write("in a step")

            await ctx.stream.write("a")
            await ctx.step("work", work)
            await ctx.stream.write("b")
            await ctx.sleep("1d")
            await ctx.stream.write("c")
    else:

        @tested.task(name="write")
        def write(ctx: SyncContext) -> None:
            ctx.stream.write("a")
            ctx.step("work", lambda: ctx.stream.write("in a step"))
            ctx.stream.write("b")
            ctx.sleep("1d")
            ctx.stream.write("c")

    handle = write.enqueue()
    t.run_all(raises=True)
    t.advance("1d")
    t.run_all(raises=True)
    assert entries(handle) == ["a", "in a step", "b", "c"]


def test_a_step_that_is_repeated_writes_again_behind_a_mark(tested: Windlass, t: Testing) -> None:
    @tested.task(retry=AT_ONCE)
    async def answer(ctx: Context) -> None:
        async def ask_model() -> None:
            await ctx.stream.write("Hel")
            if ctx.attempt == 1:
                raise ConnectionError
            await ctx.stream.write("lo")

        await ctx.stream.write("begin")
        await ctx.step("ask", ask_model)

    handle = answer.enqueue()
    t.run_all()
    assert entries(handle) == ["begin", "Hel", "|", "Hel", "lo"]


def test_concurrent_writers_keep_the_order_of_their_calls(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def write(ctx: Context) -> None:
        calls = [ctx.stream.write(number, -number) for number in range(200)]
        await asyncio.gather(*reversed(calls))

    handle = write.enqueue()
    t.run_all(raises=True)
    assert entries(handle) == [value for number in range(200) for value in (number, -number)]


def test_threads_of_a_sync_task_write_side_by_side(tested: Windlass, t: Testing) -> None:
    @tested.task
    def write(ctx: SyncContext) -> None:
        threads = [
            threading.Thread(target=lambda first: ctx.stream.write(*range(first, first + 10)), args=(number * 10,))
            for number in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    handle = write.enqueue()
    t.run_all(raises=True)
    found = entries(handle)
    runs = [found[at : at + 10] for at in range(0, 100, 10)]
    assert all(run == list(range(run[0], run[0] + 10)) for run in runs)
    assert sorted(found) == list(range(100))


def test_many_and_large_values_in_one_call(tested: Windlass, t: Testing) -> None:
    large = "x" * (STREAM_VALUE_MAX - 10)

    @tested.task
    async def write(ctx: Context) -> None:
        await ctx.stream.write(*range(1_200))
        await ctx.stream.write(*[large] * 40)

    handle = write.enqueue()
    t.run_all(raises=True)
    assert entries(handle) == [*range(1_200), *[large] * 40]


def test_a_value_that_is_too_large_is_refused_at_the_call(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def write(ctx: Context) -> str:
        with pytest.raises(TooLarge, match="at most 65536 bytes") as caught:
            ctx.stream.write("x" * STREAM_VALUE_MAX)
        await ctx.stream.write("small")
        return str(caught.value)

    handle = write.enqueue()
    t.run_all(raises=True)
    assert entries(handle) == ["small"]


def test_a_full_stream_refuses_and_the_code_goes_on(
    tested: Windlass, t: Testing, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windlass.core.errors import StreamFull

    @tested.task
    async def write(ctx: Context) -> int:
        part, written = ["x" * 60_000] * 16, 0
        try:
            while True:
                await ctx.stream.write(*part)
                written += len(part)
        except StreamFull:
            await ctx.stream.write("last")
            return written

    handle = write.enqueue()
    t.run_all(raises=True)
    written = handle.result(0)
    assert written > 200
    assert entries(handle)[written:] == ["last"]


def test_a_thread_of_an_async_task_is_refused(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def write(ctx: Context) -> None:
        with pytest.raises(BadInput, match="event loop writes the stream"):
            await asyncio.to_thread(ctx.stream.write, 1)

    write.enqueue()
    t.run_all(raises=True)


def test_a_suspended_run_writes_nothing_more(tested: Windlass, t: Testing) -> None:
    @tested.task(retry=1)
    async def write(ctx: Context) -> None:
        try:
            await ctx.sleep("1d")
        finally:
            await ctx.stream.write("after the suspension")

    handle = write.enqueue()
    assert t.run_all().suspended == 1
    t.advance("1d")
    t.run_all(raises=True)
    assert entries(handle) == ["after the suspension"]


async def _inline(task: Any) -> None:
    assert await task() == "done"


def test_a_task_that_is_called_inline_writes_nothing() -> None:
    app = Windlass()

    @app.task
    async def write(ctx: Context) -> str:
        await ctx.stream.write(1)
        return "done"

    @app.task
    def write_sync(ctx: SyncContext) -> str:
        ctx.stream.write(1)
        return "done"

    asyncio.run(_inline(write))
    assert write_sync() == "done"
