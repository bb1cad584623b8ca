"""Sleeps: they free the slot, spend no attempt, end in time and never start over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import Backoff, Context, JobFailed, SyncContext, Testing, Windlass
from windlass.core.durable import StepKind, StepStatus

AT_ONCE = Backoff(tries=3, base=0)


def steps_of(app: Windlass, handle: Any) -> dict[str, Any]:
    state = app.service.durable_states([handle.id_bytes]).one().wait()
    return {step.name: step for step in state.steps}


def declare(app: Windlass, kind: str, ran: list[Any]) -> Any:
    """Declare a task that sleeps a day between two steps, of one of the three kinds."""

    def note(word: str) -> str:
        ran.append(word)
        return word

    async def anote(word: str) -> str:
        return note(word)

    if kind == "async":

        @app.task(name="nap")
        async def async_nap(ctx: Context) -> tuple[str, int]:
            await ctx.step("before", anote, "before")
            await ctx.sleep("1d")
            return await ctx.step("after", anote, "after"), ctx.attempt

        return async_nap

    @app.task(name="nap", pool=kind)  # type: ignore[call-overload,untyped-decorator]
    def nap(ctx: SyncContext) -> tuple[str, int]:
        ctx.step("before", note, "before")
        ctx.sleep("1d")
        return ctx.step("after", note, "after"), ctx.attempt

    return nap


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_a_long_sleep_suspends_the_job(tested: Windlass, t: Testing, ran: list[Any], kind: str) -> None:
    handle = declare(tested, kind, ran).enqueue()
    assert (t.run_all(raises=True).suspended, handle.state, ran) == (1, "suspended", ["before"])
    t.advance("23h")
    assert (t.run_all().ran, handle.state) == (0, "suspended")
    t.advance("1h")
    assert t.run_all(raises=True).finished == 1
    assert handle.result(0) == ("after", 1)
    assert ran == ["before", "after"]
    slept = steps_of(tested, handle)["sleep"]
    assert (slept.kind, slept.status) == (StepKind.SLEEP, StepStatus.DONE)


def test_a_sleep_counts_from_its_call(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def nap(ctx: Context) -> None:
        try:
            await ctx.sleep("1h")
        finally:
            await asyncio.sleep(0.3)  # clean-up that takes time

    handle = nap.enqueue()
    t.run_all()
    slept = steps_of(tested, handle)["sleep"]
    assert slept.wake_at_ms - slept.begun_at_ms <= 3_600_000 - 300


def test_a_spurious_wakeup_does_not_restart_a_sleep(tested: Windlass, t: Testing) -> None:
    @tested.task(keep_result="7d")
    async def nap(ctx: Context) -> None:
        await ctx.sleep("1h")

    handle = nap.enqueue()
    t.run_all()
    before = steps_of(tested, handle)["sleep"]
    t.advance("30m")
    tested.service.requeue([handle.id_bytes]).wait()
    assert t.run_all(raises=True).suspended == 1
    assert steps_of(tested, handle)["sleep"].wake_at_ms == before.wake_at_ms
    t.advance("30m")
    assert t.run_all(raises=True).finished == 1


@pytest.mark.parametrize("is_async", [True, False])
def test_a_short_sleep_stays_in_place_and_is_stored(
    tested: Windlass, t: Testing, ran: list[Any], is_async: bool
) -> None:
    if is_async:

        @tested.task(name="nap", retry=AT_ONCE)
        async def nap(ctx: Context) -> None:
            await ctx.sleep("10ms")
            ran.append(ctx.attempt)
            if ctx.attempt == 1:
                raise ValueError
    else:

        @tested.task(name="nap", retry=AT_ONCE)
        def nap(ctx: SyncContext) -> None:
            ctx.sleep("10ms")
            ran.append(ctx.attempt)
            if ctx.attempt == 1:
                raise ValueError

    handle = nap.using(keep_result="1h").enqueue()
    assert (t.run_all().suspended, ran) == (0, [1, 2])
    assert steps_of(tested, handle)["sleep"].status is StepStatus.DONE


def test_sleeps_have_names(tested: Windlass, t: Testing) -> None:
    @tested.task(keep_result="7d")
    async def nap(ctx: Context) -> None:
        await ctx.sleep("1h")
        await ctx.sleep("1h")
        await ctx.sleep("1h", name="cool", key="down")

    handle = nap.enqueue()
    assert t.run_for("3h", raises=True).suspended == 3
    assert handle.state == "finished"
    assert list(steps_of(tested, handle)) == ["sleep", "sleep#2", "cool:down"]


def test_attempts_are_spent_by_failures_only(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(retry=Backoff(tries=2, base=0))
    async def nap(ctx: Context) -> None:
        for _ in range(5):
            await ctx.sleep("1h")
        ran.append(ctx.attempt)
        raise ValueError("after the naps")

    handle = nap.enqueue()
    summary = t.run_for("5h")
    assert (summary.suspended, summary.retried, summary.failed, ran) == (5, 1, 1, [1, 2])
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    assert told.value.attempts == 2


def test_a_long_pause_of_a_step_suspends_the_job(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    async def flaky() -> str:
        ran.append("flaky")
        if len(ran) < 3:
            raise OSError("not yet")
        return "done"

    @tested.task(retry=1)
    async def task(ctx: Context) -> str:
        return await ctx.step("flaky", flaky, retry=Backoff(tries=3, base="1h", cap="1h", jitter=0))

    handle = task.enqueue()
    assert t.run_all(raises=True).suspended == 1
    step = steps_of(tested, handle)["flaky"]
    assert (step.tries, step.status) == (1, StepStatus.WAITING)
    tested.service.requeue([handle.id_bytes]).wait()  # too early: the pause goes on
    assert (t.run_all(raises=True).suspended, len(ran)) == (1, 1)
    assert t.run_for("2h", raises=True).finished == 1
    assert handle.result(0) == "done"
    assert steps_of(tested, handle)["flaky"].tries == 3


def test_a_step_cannot_wait(tested: Windlass, t: Testing) -> None:
    @tested.task(retry=1)
    async def task(ctx: Context) -> None:
        async def nap() -> None:
            await ctx.sleep("1h")

        await ctx.step("nap", nap)

    handle = task.enqueue()
    t.run_all()
    with pytest.raises(JobFailed, match="cannot wait durably"):
        handle.result(0)
