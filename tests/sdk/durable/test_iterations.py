"""Iterations that remember their cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from windlass import Backoff, Context, SyncContext, Testing, Windlass
from windlass.core.durable import StepKind, StepStatus
from windlass.core.errors import BadInput

AT_ONCE = Backoff(tries=3, base=0)


@dataclass
class Row:
    id: str


async def read_numbers(start: int) -> AsyncIterator[int]:
    for number in range(start, 5):
        yield number


def read_rows(after: str) -> Iterator[Row]:
    return (Row(letter) for letter in "abcde" if letter > after)


def test_a_later_attempt_continues_behind_the_last_completed_row(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(retry=AT_ONCE)
    async def task(ctx: Context) -> str:
        async for number in ctx.each("numbers", read_numbers, start=0):
            ran.append(number)
            if number == 2 and ctx.attempt == 1:
                raise ValueError
        if ctx.attempt == 2:
            raise ValueError  # the loop is done, so the last attempt skips it
        return "done"

    handle = task.enqueue()
    t.run_all()
    assert (handle.result(0), ran) == ("done", [0, 1, 2, 2, 3, 4])
    (step,) = handle.steps().steps
    assert (step.kind, step.status) == (StepKind.CURSOR, StepStatus.DONE)


def test_the_same_in_a_thread_with_a_cursor_of_the_row(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task(retry=AT_ONCE)
    def task(ctx: SyncContext) -> str:
        for row in ctx.each("rows", read_rows, "", cursor=lambda row: row.id, every=2):
            ran.append(row.id)
            if row.id == "d" and ctx.attempt == 1:
                raise ValueError
        return "done"

    handle = task.enqueue()
    t.run_all()
    assert (handle.result(0), ran) == ("done", [*"abcd", *"cde"])


def test_a_loop_can_be_left_and_can_wait(tested: Windlass, t: Testing, ran: list[Any]) -> None:
    @tested.task
    async def task(ctx: Context) -> None:
        async for number in ctx.each("numbers", read_numbers):
            await ctx.sleep("1h", key=str(number))
            ran.append(number)
            if number == 2:
                break

    task.enqueue()
    assert t.run_for("3h", raises=True).finished == 1
    assert ran == [0, 1, 2]


@pytest.mark.parametrize("wrong", [{"every": 0}, {"every": True}, {"start": ""}])
def test_wrong_arguments(tested: Windlass, wrong: Any) -> None:
    @tested.task
    def task(ctx: SyncContext) -> None:
        ctx.each("rows", read_rows, **wrong)

    with pytest.raises(BadInput, match="number of rows"):
        task()


def test_an_inline_call_iterates(tested: Windlass) -> None:
    @tested.task
    def task(ctx: SyncContext) -> list[str]:
        return [row.id for row in ctx.each("rows", read_rows, "c", cursor=lambda row: row.id)]

    assert task() == ["d", "e"]
