"""Rules for the hard cases: lost leases, occurrences, retries by a person, bounds, code that changes, stubs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.support.namespace import send_command
from windlass import Backoff, Context, JobFailed, SyncContext, Testing, Windlass
from windlass.core.durable import SUSPENSIONS_MAX
from windlass.core.errors import BadInput
from windlass.service import Service
from windlass.store.store import Store

AT_ONCE = Backoff(tries=3, base=0)
SECONDS = 20


def failure_of(handle: Any) -> JobFailed:
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    return told.value


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_run_that_has_lost_its_lease_stores_nothing(
    app: Windlass, store: Store, working: Any, ran: list[Any], is_async: bool
) -> None:
    """The step of the first run ends when another run has the lease. Its value is dropped, and its code is stopped with
    an exception that `except Exception` does not catch."""
    service = Service(store)
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def charge(attempt: int) -> int:
        if attempt == 1:
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(SECONDS)
        return attempt

    if is_async:

        @app.task(name="task", retry=AT_ONCE)
        async def task(ctx: Context) -> int:
            try:
                found = await ctx.step("charge", asyncio.to_thread, charge, ctx.attempt)
            except Exception:
                ran.append("refund")
                raise
            ran.append(found)
            return found
    else:

        @app.task(name="task", retry=AT_ONCE)
        def task(ctx: SyncContext) -> int:
            try:
                found = ctx.step("charge", charge, ctx.attempt)
            except Exception:
                ran.append("refund")
                raise
            ran.append(found)
            return found

    async with working(app):
        handle = await task.aenqueue()
        await begun.wait()
        await asyncio.to_thread(service.requeue([handle.id_bytes]).wait)
        go_on.set()
        assert await handle.aresult(SECONDS) == 2
    assert ran == [2]


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_step_that_cannot_be_stored_now_is_stored_later(
    app: Windlass, store: Store, working: Any, ran: list[Any], is_async: bool, caplog: Any
) -> None:
    def charge() -> str:
        ran.append("charge")
        send_command(store, "CONFIG", "SET", "maxmemory", 1)  # the engine takes no new data
        return "charged"

    async def acharge() -> str:
        return charge()

    if is_async:

        @app.task(name="task")
        async def task(ctx: Context) -> str:
            return await ctx.step("charge", acharge)
    else:

        @app.task(name="task")
        def task(ctx: SyncContext) -> str:
            return ctx.step("charge", charge)

    async with working(app):
        handle = await task.aenqueue()
        try:
            async with asyncio.timeout(SECONDS):
                while "Could not store a step" not in caplog.text:  # noqa: ASYNC110 (it waits for a log line)
                    await asyncio.sleep(0.01)
        finally:
            send_command(store, "CONFIG", "SET", "maxmemory", 0)
        assert await handle.aresult(SECONDS) == "charged"
    assert ran == ["charge"]


def test_too_many_suspensions_fail_the_job(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def task(ctx: Context) -> None:
        await ctx.sleep("1h")
        await ctx.sleep("1h")

    handle = task.enqueue()
    assert t.run_all(raises=True).suspended == 1
    state = f"{tested.store.root(0)}:y:".encode() + handle.id_bytes
    assert send_command(tested.store, "HSET", state, "k", SUSPENSIONS_MAX) == 0  # the field exists
    t.run_for("1h")
    assert failure_of(handle).reason == "too_many_suspensions"


def test_each_occurrence_of_a_repeating_job_starts_empty(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task
    async def task(ctx: Context) -> None:
        async def charge() -> None:
            ran.append(ctx.step_id)

        await ctx.step("charge", charge)
        await ctx.sleep("10s")
        await ctx.step("again", charge)

    handle = task.using(repeat="SCHEDULED, +1 HOUR").enqueue()
    t.run_for("125m", raises=True)
    assert len(ran) == len(set(ran)) == 6
    assert all(key.startswith(f"{handle.id}:") for key in ran)


def test_a_retry_by_a_person_keeps_results_and_repeats_failures(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task
    async def task(ctx: Context) -> str:
        async def charge() -> str:
            ran.append("charge")
            return "charged"

        async def ship() -> None:
            ran.append("ship")
            if ran.count("ship") == 1:
                raise OSError

        charged = await ctx.step("charge", charge)
        await ctx.step("ship", ship, retry=Backoff(tries=1))
        return charged

    handle = task.enqueue()
    t.run_all()
    assert failure_of(handle).type == "StepFailed"
    tested.service.retry([handle.id_bytes]).one().wait()
    t.run_all(raises=True)
    assert handle.result(0) == "charged"
    assert ran == ["charge", "ship", "ship"]


def test_a_fresh_retry_drops_everything(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(retry=1)
    async def task(ctx: Context) -> None:
        async def charge() -> None:
            ran.append("charge")

        await ctx.step("charge", charge)
        if len(ran) == 1:
            raise ValueError

    handle = task.enqueue()
    t.run_all()
    assert failure_of(handle).type == "ValueError"
    tested.service.retry([handle.id_bytes], fresh=True).one().wait()
    t.run_all(raises=True)
    assert ran == ["charge", "charge"]


def test_code_may_change_between_attempts(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    """New steps run, and removed steps are ignored."""

    async def note(word: str) -> str:
        ran.append(word)
        return word

    @tested.task(retry=AT_ONCE)
    async def task(ctx: Context) -> list[str]:
        if ctx.attempt == 1:
            await ctx.step("removed", note, "removed")
            await ctx.step("kept", note, "kept")
            raise ValueError
        return [await ctx.step("new", note, "new"), await ctx.step("kept", note, "not called")]

    handle = task.enqueue()
    t.run_all()
    assert handle.result(0) == ["new", "kept"]
    assert ran == ["removed", "kept", "new"]


def test_a_name_of_another_kind_is_refused(tested: Windlass, t: Testing) -> None:
    @tested.task(retry=Backoff(tries=2, base=0))
    async def task(ctx: Context) -> None:
        if ctx.attempt == 1:
            await ctx.step("pause", asyncio.sleep, 0)
            raise ValueError
        await ctx.sleep("1h", name="pause")

    handle = task.enqueue()
    t.run_all()
    assert "is stored as a step, and this code uses it as a sleep" in failure_of(handle).message


def test_steps_can_be_stubbed(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    async def charge(order: int) -> int:
        raise AssertionError("not in a test")

    @tested.task
    async def fulfil(ctx: Context, order: int) -> int:
        return await ctx.step("charge", charge, order, key=str(order))

    @tested.task
    def fulfil_sync(ctx: SyncContext, order: int) -> int:
        return ctx.step("charge", abs, order)

    with t.stub_step("charge", returns=5), t.stub_step("other", returns=6):
        first, second = fulfil.enqueue(7), fulfil_sync.enqueue(-7)
        t.run_all(raises=True)
    assert (first.result(0), second.result(0)) == (5, 5)
    with t.stub_step("charge", lambda order: ran.append(order) or order + 1):
        first = fulfil.enqueue(7)
        t.run_all(raises=True)
    assert (first.result(0), ran) == (8, [7])


def test_batch_tasks_have_no_durable_calls(tested: Windlass) -> None:
    with pytest.raises(BadInput, match="no single context"):

        @tested.batch_task(most=2, wait="1s")  # type: ignore[arg-type]
        async def index(pages: list[int], ctx: Context) -> None: ...


def test_a_durable_step_of_a_chain_keeps_its_upstream_result(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def fetch() -> str:
        return "page"

    @tested.task(keep_result="30d")
    async def index(page: str, ctx: Context) -> str:
        await ctx.sleep("30m")
        return f"{page} {ctx.is_resumed}"

    handle = fetch.call().then(index).enqueue()
    t.run_for("2h", raises=True)
    assert handle.result(0) == "page False"
