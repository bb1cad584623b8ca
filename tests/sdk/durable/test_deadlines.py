"""Limits of time: `timeout` bounds a run, `deadline` the whole job with its waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import Context, JobFailed, Testing, Windlass


def failure_of(handle: Any) -> tuple[str, int]:
    with pytest.raises(JobFailed) as told:
        handle.result(0)
    return told.value.reason, told.value.attempts


def test_a_deadline_ends_a_job_that_waits(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(deadline="1d")
    async def task(ctx: Context) -> None:
        ran.append(ctx.attempt)
        await ctx.wait_for("approval")

    handle = task.enqueue()
    t.run_for("23h", raises=True)
    assert handle.state == "suspended"
    t.run_for("1h")
    assert (failure_of(handle), ran) == (("deadline", 1), [1])


def test_a_deadline_stops_running_code(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(deadline="1500ms")  # a busy machine begins the job late
    async def task() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ran.append("stopped")

    handle = task.enqueue()
    t.run_all()
    assert (failure_of(handle), ran) == (("deadline", 1), ["stopped"])


def test_a_deadline_counts_from_the_creation(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(deadline="1h")
    async def task() -> None:
        ran.append("ran")

    handle = task.enqueue()
    t.advance("1h")
    t.run_all()
    assert (failure_of(handle), ran) == (("deadline", 1), [])


def test_a_timeout_bounds_one_run(tested: Windlass, t: Testing) -> None:
    @tested.task(timeout="1h", deadline="9d")
    async def task(ctx: Context) -> str:
        for _ in range(3):
            await ctx.sleep("1d")
        return "rested"

    handle = task.enqueue()
    t.run_for("3d", raises=True)
    assert handle.result(0) == "rested"


def test_a_timeout_during_unwinding_wins(tested: Windlass, t: Testing) -> None:
    @tested.task(timeout="300ms", retry=1)
    async def task(ctx: Context) -> None:
        try:
            await ctx.sleep("1d")
        finally:
            await asyncio.Event().wait()

    handle = task.enqueue()
    assert t.run_all().suspended == 0
    assert failure_of(handle) == ("timeout", 1)
