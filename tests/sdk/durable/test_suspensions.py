"""Suspensions: how they unwind code, and which outcome wins."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from windlass import Backoff, Context, Depends, JobCancelled, JobFailed, Suspended, SyncContext, Testing, Windlass
from windlass.core.durable import WAITS_MAX
from windlass.sdk.tasks.middleware import CallNext

AT_ONCE = Backoff(tries=3, base=0)


def waits_of(app: Windlass, handle: Any) -> set[str]:
    return set(app.service.durable_states([handle.id_bytes]).one().wait().waits)


def reason_of(handle: Any) -> str:
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    return told.value.reason


def test_except_exception_does_not_swallow_it_and_finally_runs(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task
    async def task(ctx: Context) -> None:
        try:
            await ctx.sleep("1h")
        except Exception:
            ran.append("except")
        finally:
            ran.append("finally")

    task.enqueue()
    assert (t.run_all(raises=True).suspended, ran) == (1, ["finally"])


@pytest.mark.parametrize("is_async", [True, False])
def test_a_swallowed_suspension_fails_the_job(tested: Windlass, t: Testing, ran: list[Any], is_async: bool) -> None:
    if is_async:

        @tested.task(name="task")
        async def task(ctx: Context) -> str:
            with contextlib.suppress(Suspended):
                await ctx.sleep("1h")
            with contextlib.suppress(Suspended):
                await ctx.step("later", asyncio.sleep, 0)
                ran.append("a call after the suspension")
            return "done"
    else:

        @tested.task(name="task")
        def task(ctx: SyncContext) -> str:
            with contextlib.suppress(Suspended):
                ctx.sleep("1h")
            with contextlib.suppress(Suspended):
                ctx.step("later", lambda: None)
                ran.append("a call after the suspension")
            return "done"

    handle = task.enqueue()
    t.run_all()
    assert (reason_of(handle), ran) == ("suspension_swallowed", [])


def test_clean_up_that_raises_fails_the_attempt(tested: Windlass, t: Testing) -> None:
    @tested.task(retry=1)
    async def task(ctx: Context) -> None:
        try:
            await ctx.sleep("1h")
        finally:
            raise ValueError("clean-up")

    handle = task.enqueue()
    t.run_all()
    assert reason_of(handle) == "error"


# Groups


def test_a_group_suspends_on_all_its_conditions(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task
    async def task(ctx: Context) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            nap = group.create_task(ctx.sleep("1d"))
            first = group.create_task(ctx.wait_for("first", str))
            second = group.create_task(ctx.wait_for("second", int, timeout="2d"))
        return [nap.result(), first.result(), second.result()]

    handle = task.enqueue()
    assert t.run_all(raises=True).suspended == 1
    assert waits_of(tested, handle) == {"sleep", "first", "second"}
    t.signal(handle, "second", 2)
    assert t.run_all(raises=True).suspended == 1
    assert waits_of(tested, handle) == {"sleep", "first"}
    t.signal(handle, "first", "one")
    assert t.run_all(raises=True).suspended == 1
    t.advance("1d")
    assert t.run_all(raises=True).finished == 1
    assert handle.result(0) == [None, "one", 2]


def test_another_exception_of_a_group_wins(tested: Windlass, t: Testing) -> None:
    @tested.task(retry=1)
    async def task(ctx: Context) -> None:
        async def fail() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("beside")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(ctx.sleep("1d"))

    handle = task.enqueue()
    t.run_all()
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    assert (told.value.type, told.value.message) == ("ValueError", "beside")


def test_a_running_step_is_not_cut_off_by_a_sibling_that_sleeps(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task
    async def task(ctx: Context) -> None:
        async def slow() -> None:
            ran.append("begun")
            await asyncio.sleep(0.05)
            ran.append("ended")

        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.sleep("1d"))
            group.create_task(ctx.step("slow", slow))

    handle = task.enqueue()
    assert (t.run_all(raises=True).suspended, ran) == (1, ["begun", "ended"])
    t.advance("1d")
    assert t.run_all(raises=True).finished == 1
    assert (handle.state, ran) == ("ended", ["begun", "ended"])


def test_a_sleep_that_is_over_before_its_siblings_does_not_suspend(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def task(ctx: Context) -> str:
        async def nap() -> str:
            await ctx.sleep("2.1s")
            return "slept"

        async with asyncio.TaskGroup() as group:
            sleeping = group.create_task(nap())
            group.create_task(ctx.step("slow", asyncio.sleep, 2.3))
        return sleeping.result()

    handle = task.enqueue()
    assert t.run_all(raises=True).suspended == 0
    assert handle.result(0) == "slept"


@pytest.mark.parametrize("then", ["suspends", "fails"])
def test_a_bare_gather_leaves_no_step_behind(tested: Windlass, t: Testing, ran: list[Any], then: str) -> None:
    @tested.task(retry=1)
    async def task(ctx: Context) -> None:
        async def endless() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ran.append("ended")

        async def sibling() -> None:
            if then == "fails":
                raise ValueError
            await asyncio.wait_for(ctx.sleep("1d"), 0.05)  # not the suspension, but its wait for the step, times out

        await asyncio.gather(ctx.step("endless", endless), sibling())

    handle = task.enqueue()
    t.run_all()
    assert (reason_of(handle), ran) == ("error", ["ended"])


def test_too_many_conditions_are_refused(tested: Windlass, t: Testing) -> None:
    @tested.task(retry=1)
    async def task(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for at in range(WAITS_MAX + 1):
                group.create_task(ctx.sleep("1h", key=str(at)))

    handle = task.enqueue()
    t.run_all()
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    assert "at most 99 conditions" in told.value.traceback


# Cancel


def test_a_cancel_during_unwinding_wins(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def task(ctx: Context) -> None:
        try:
            await ctx.sleep("1d")
        finally:
            await tested.job(ctx.id).acancel()

    handle = task.enqueue()
    t.run_all()
    with pytest.raises(JobCancelled):
        handle.result(0)


def test_a_suspended_job_can_be_cancelled(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def task(ctx: Context) -> None:
        await ctx.sleep("1d")

    handle = task.enqueue()
    t.run_all()
    assert handle.cancel() == "cancelled"
    assert t.run_for("2d").ran == 0


# Around the task


def test_dependencies_and_middlewares_see_the_suspension(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    async def session() -> AsyncIterator[str]:
        try:
            yield "session"
        except BaseException as error:
            ran.append(f"rolled back: {type(error).__name__}")
            raise
        else:
            ran.append("committed")

    def sync_session() -> Iterator[str]:
        try:
            yield "session"
        except Suspended:
            ran.append("sync: rolled back")
            raise

    @tested.middleware
    async def watch(ctx: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except Suspended:
            ran.append("middleware")
            raise

    @tested.task
    async def task(ctx: Context, db: str = Depends(session), other: str = Depends(sync_session)) -> None:
        await ctx.sleep("1d")

    task.enqueue()
    assert t.run_all(raises=True).suspended == 1
    assert ran == ["sync: rolled back", "rolled back: Suspended", "middleware"]
    assert t.run_for("1d", raises=True).finished == 1
    assert ran[3:] == ["committed"]


def test_a_unique_key_stays_held(tested: Windlass, t: Testing) -> None:
    @tested.task(unique=True)
    async def task(ctx: Context) -> None:
        await ctx.sleep("1d")

    handle = task.enqueue()
    t.run_all()
    again = task.enqueue()
    assert (again.id, again.status) == (handle.id, "existing")
