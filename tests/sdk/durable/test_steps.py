"""Steps of jobs: stored once, found by name, retried by themselves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from windlass import Backoff, Context, DuplicateStep, JobFailed, StepFailed, SyncContext, Windlass
from windlass.core.durable import StepKind, StepStatus

pytestmark = pytest.mark.anyio
SECONDS = 20
AT_ONCE = Backoff(tries=3, base=0)


@dataclass
class Receipt:
    id: str
    amount: int


@pytest.fixture
def ran() -> list[Any]:
    return []


async def steps_of(app: Windlass, handle: Any) -> dict[str, Any]:
    state = await (await app.aservice()).durable_states([handle.id_bytes]).one()
    return {step.name: step for step in state.steps}


async def test_a_stored_step_is_not_repeated(app: Windlass, ran: list[Any], working: Any) -> None:
    async def charge(order: int) -> Receipt:
        ran.append("charge")
        return Receipt(str(order), 100)

    async def ship(order: int) -> None:
        ran.append("ship")
        if ran.count("ship") == 1:
            raise ValueError("no label")

    @app.task(retry=AT_ONCE)
    async def fulfil(ctx: Context, order: int) -> str:
        receipt = await ctx.step("charge", charge, order)
        await ctx.step("ship", ship, order)
        return f"{type(receipt).__name__} {receipt.id} {ctx.attempt}"

    async with working(app):
        handle = await fulfil.aenqueue(7)
        assert await handle.aresult(SECONDS) == "Receipt 7 2"
    assert ran == ["charge", "ship", "ship"]


async def test_the_same_in_a_thread(app: Windlass, ran: list[Any], working: Any) -> None:
    def charge(order: int) -> Receipt:
        ran.append("charge")
        return Receipt(str(order), 100)

    def ship() -> None:
        ran.append("ship")
        if ran.count("ship") == 1:
            raise ValueError("no label")

    @app.task(retry=AT_ONCE)
    def fulfil(order: int, ctx: SyncContext) -> str:
        receipt = ctx.step("charge", charge, order)
        ctx.step("ship", ship)
        return receipt.id

    async with working(app):
        assert await (await fulfil.aenqueue(7)).aresult(SECONDS) == "7"
    assert ran == ["charge", "ship", "ship"]


async def test_the_first_run_sees_the_value_as_later_runs_do(app: Windlass, ran: list[Any], working: Any) -> None:
    @app.task(retry=AT_ONCE)
    async def task(ctx: Context) -> None:
        async def untyped():  # type: ignore[no-untyped-def]
            return Receipt("1", 2)

        ran.append(await ctx.step("untyped", untyped))
        if ctx.attempt == 1:
            raise ValueError

    async with working(app):
        await (await task.aenqueue()).aresult(SECONDS)
    assert ran == [{"id": "1", "amount": 2}] * 2


async def test_repeated_names_and_keys(app: Windlass, working: Any) -> None:
    async def echo(value: int) -> int:
        return value

    @app.task(keep_result="1h")
    async def task(ctx: Context) -> list[int]:
        found = [await ctx.step("echo", echo, at) for at in range(3)]
        found += await asyncio.gather(*(ctx.step("echo", echo, at, key=f"k{at}") for at in range(2)))
        return found

    async with working(app):
        handle = await task.aenqueue()
        assert await handle.aresult(SECONDS) == [0, 1, 2, 0, 1]
        assert list(await steps_of(app, handle)) == ["echo", "echo#2", "echo#3", "echo:k0", "echo:k1"]


async def test_the_same_name_at_the_same_time_is_refused(app: Windlass, working: Any) -> None:
    async def echo() -> None: ...

    @app.task
    async def task(ctx: Context) -> str:
        first = ctx.step("echo", echo)
        try:
            await ctx.step("echo", echo)
        except DuplicateStep:
            await first
            return "refused"
        return "accepted"

    async with working(app):
        assert await (await task.aenqueue()).aresult(SECONDS) == "refused"


async def test_names_are_fixed_by_the_call_not_by_the_await(app: Windlass, working: Any) -> None:
    async def echo(value: str) -> str:
        return value

    @app.task
    async def task(ctx: Context) -> None:
        first, second = ctx.step("one", echo, "one"), ctx.step("two", echo, "two")
        await second
        await first
        await ctx.step("one", echo, "later")

    async with working(app):
        handle = await task.using(keep_result="1h").aenqueue()
        await handle.aresult(SECONDS)
        assert list(await steps_of(app, handle)) == ["two", "one", "one#2"]


async def test_a_step_with_a_policy_is_tried_again_by_itself(app: Windlass, ran: list[Any], working: Any) -> None:
    async def flaky() -> str:
        ran.append("flaky")
        if len(ran) < 3:
            raise OSError("not yet")
        return "done"

    @app.task(retry=1)
    async def task(ctx: Context) -> tuple[str, int]:
        return await ctx.step("flaky", flaky, retry=Backoff(tries=5, base="10ms")), ctx.attempt

    async with working(app):
        handle = await task.aenqueue()
        assert await handle.aresult(SECONDS) == ("done", 1)
        step = (await steps_of(app, handle))["flaky"]
    assert (step.tries, step.status) == (3, StepStatus.DONE)


async def test_a_failed_step_is_stored_and_can_be_handled(app: Windlass, ran: list[Any], working: Any) -> None:
    async def refuse() -> None:
        ran.append("refuse")
        raise OSError("card refused")

    @app.task(retry=AT_ONCE)
    async def task(ctx: Context) -> str:
        try:
            await ctx.step("charge", refuse, retry=Backoff(tries=2, base=0))
        except StepFailed as error:
            if ctx.attempt == 1:
                raise ValueError("again") from error
            return f"{error.step} {error.type} {error.message} {error.tries}"
        return ""

    async with working(app):
        handle = await task.aenqueue()
        assert await handle.aresult(SECONDS) == "charge OSError card refused 2"
        step = (await steps_of(app, handle))["charge"]
    assert (step.kind, step.status) == (StepKind.STEP, StepStatus.FAILED)
    assert ran == ["refuse", "refuse"]


async def test_an_uncaught_failed_step_ends_the_job_without_a_retry(
    app: Windlass, ran: list[Any], working: Any
) -> None:
    def refuse() -> None:
        ran.append("refuse")
        raise OSError("card refused")

    @app.task(retry=AT_ONCE)
    def task(ctx: SyncContext) -> None:
        ctx.step("charge", refuse, retry=Backoff(tries=1))

    async with working(app):
        with pytest.raises(JobFailed) as told:
            await (await task.aenqueue()).aresult(SECONDS)
    assert (told.value.type, told.value.attempts) == ("StepFailed", 1)
    assert ran == ["refuse"]


async def test_a_value_that_cannot_be_stored_fails_the_step_for_good(
    app: Windlass, ran: list[Any], working: Any
) -> None:
    async def charge() -> object:
        ran.append("charge")
        return object()

    @app.task(retry=AT_ONCE)
    async def task(ctx: Context) -> None:
        await ctx.step("charge", charge)

    async with working(app):
        with pytest.raises(JobFailed) as told:
            await (await task.aenqueue()).aresult(SECONDS)
    assert told.value.type == "StepFailed"
    assert ran == ["charge"]


async def test_a_timeout_of_a_step(app: Windlass, working: Any) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.task
    async def task(ctx: Context) -> str:
        try:
            await ctx.step("slow", slow, timeout=0.01)
        except TimeoutError as error:
            return str(error)
        return ""

    async with working(app):
        assert "took longer than its timeout" in await (await task.aenqueue()).aresult(SECONDS)


async def test_functions_of_the_wrong_kind_are_refused(app: Windlass, working: Any) -> None:
    async def is_async() -> int:
        return 1

    def is_sync() -> int:
        return 1

    @app.task(retry=1)
    async def in_loop(ctx: Context) -> int:
        assert await ctx.step("right", asyncio.to_thread, is_sync) == 1
        return await ctx.step("wrong", is_sync)  # type: ignore[misc,no-any-return]

    @app.task(retry=1)
    def in_thread(ctx: SyncContext) -> int:
        return ctx.step("wrong", is_async)  # type: ignore[return-value]

    async with working(app):
        with pytest.raises(JobFailed, match=r"asyncio\.to_thread"):
            await (await in_loop.aenqueue()).aresult(SECONDS)
        with pytest.raises(JobFailed, match="is async, and its task is not"):
            await (await in_thread.aenqueue()).aresult(SECONDS)


async def test_the_id_of_a_step_is_the_same_in_all_attempts(app: Windlass, ran: list[Any], working: Any) -> None:
    @app.task(retry=AT_ONCE)
    async def task(ctx: Context) -> None:
        async def charge() -> None:
            ran.append(ctx.step_id)
            if len(ran) == 1:
                raise ValueError

        await ctx.step("charge", charge, key="a")

    async with working(app):
        handle = await task.aenqueue()
        await handle.aresult(SECONDS)
    assert ran == [f"{handle.id}:charge:a"] * 2


async def test_an_inline_call_runs_its_steps(app: Windlass) -> None:
    async def double(value: int) -> int:
        return 2 * value

    @app.task
    async def task(ctx: Context, value: int) -> int:
        await ctx.sleep(0)
        return await ctx.step("double", double, value)

    @app.task
    def sync_task(ctx: SyncContext, value: int) -> int:
        return ctx.step("abs", abs, value)

    assert await task(4) == 8
    assert sync_task(-4) == 4


def test_a_step_needs_no_settings_of_a_django_that_is_only_imported() -> None:
    code = "import django.db; from windlass.sdk.durable.step import refuse_in_transaction; refuse_in_transaction('s')"
    subprocess.run([sys.executable, "-c", code], check=True)
