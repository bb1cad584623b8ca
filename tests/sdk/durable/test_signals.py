"""Waits for signals, and the signals that answer them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from windlass import Context, JobFailed, SignalTimeout, SyncContext, Testing, Windlass
from windlass.core.errors import BadInput


@dataclass
class Approval:
    by: str
    is_given: bool


def declare(app: Windlass, is_async: bool) -> Any:
    if is_async:

        @app.task(name="wait", keep_result="30d")
        async def wait(ctx: Context) -> str:
            approval = await ctx.wait_for("approval", Approval, timeout="3d")
            return f"{approval.by}: {approval.is_given}"

        return wait

    @app.task(name="wait", keep_result="30d")
    def sync_wait(ctx: SyncContext) -> str:
        approval = ctx.wait_for("approval", Approval, timeout="3d")
        return f"{approval.by}: {approval.is_given}"

    return sync_wait


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_signal_resumes_the_job(tested: Windlass, t: Testing, is_async: bool, comes_first: bool) -> None:
    handle = declare(tested, is_async).enqueue()
    if comes_first:
        assert handle.signal("approval", Approval("ann", True)) == "kept"
        assert t.run_all(raises=True).suspended == 0
    else:
        assert t.run_all(raises=True).suspended == 1
        assert handle.signal("approval", {"by": "ann", "is_given": True}) == "received"
        assert t.run_all(raises=True).finished == 1
    assert handle.result(0) == "ann: True"


def test_each_signal_goes_to_one_wait_in_order(tested: Windlass, t: Testing) -> None:
    @tested.task
    async def task(ctx: Context) -> list[int]:
        found = [await ctx.wait_for("number", int) for _ in range(3)]
        await ctx.sleep("5m")  # the values stay the same in later runs
        return found

    handle = task.enqueue()
    for number in (1, 2):
        t.signal(handle, "number", number)
    t.signal(handle, "other", 0)
    assert t.run_all(raises=True).suspended == 1
    t.signal(handle.id, "number", 3)
    assert t.run_for("5m", raises=True).finished == 1
    assert handle.result(0) == [1, 2, 3]
    assert [step.name for step in handle.steps().steps] == ["number", "number#2", "number#3", "sleep"]


def test_a_timeout_is_raised_in_every_later_attempt(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(keep_result="30d")
    async def task(ctx: Context) -> str:
        try:
            await ctx.wait_for("approval", timeout="1h")
        except SignalTimeout as error:
            ran.append(error.signal)
        await ctx.sleep("1h")
        return "without"

    handle = task.enqueue()
    assert t.run_for("1h", raises=True).suspended == 2
    t.signal(handle, "approval", "too late")
    assert t.run_for("1h", raises=True).finished == 1
    assert (handle.result(0), ran) == ("without", ["approval", "approval"])


def test_an_uncaught_timeout_fails_the_job_without_a_retry(tested: Windlass, t: Testing) -> None:
    handle = declare(tested, True).enqueue()
    t.run_for("3d")
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    assert (told.value.type, told.value.attempts) == ("SignalTimeout", 1)


def test_a_value_of_another_type_fails_the_job(tested: Windlass, t: Testing) -> None:
    handle = declare(tested, True).enqueue()
    t.signal(handle, "approval", "yes")
    t.run_all()
    with pytest.raises(JobFailed, match="The stored value of 'approval' is not a Approval"):
        handle.result(0)


def test_an_inline_call_cannot_wait(tested: Windlass) -> None:
    wait = declare(tested, False)
    with pytest.raises(BadInput, match="called inline"):
        wait()
