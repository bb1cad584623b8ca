"""Durable calls, never run. Each marked line must be an error of the given code, and no other line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import assert_type

from windlass import Backoff, Context, SyncContext, Windlass

app = Windlass()


@dataclass
class Receipt:
    id: str


async def charge(order: int, note: str = "") -> Receipt:
    return Receipt(note)


def charge_sync(order: int) -> Receipt:
    return Receipt("")


async def read_rows(start: int) -> AsyncIterator[Receipt]:
    yield Receipt(str(start))


def read_rows_sync(start: int) -> Iterator[Receipt]:
    yield Receipt(str(start))


@app.task
def child(number: int) -> float:
    return number


@app.task(deadline="1d")
async def fulfil(ctx: Context, order: int) -> str:
    assert_type(await ctx.step("charge", charge, order), Receipt)
    assert_type(await ctx.step("charge", charge, order, "note", key="2", retry=Backoff(tries=2), timeout=3), Receipt)
    assert_type(await ctx.step("thread", asyncio.to_thread, charge_sync, order), Receipt)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(ctx.step("charge", charge, order, key="3"))
    assert_type(running.result(), Receipt)
    assert_type(await ctx.wait_for("approval", Receipt, timeout="3d"), Receipt)
    assert_type(await ctx.run(child.call(1)), float)
    assert_type(await ctx.gather(child.call(1), child.call(2)), list[float])
    assert_type(await ctx.gather(child.call(at) for at in range(3)), list[float])
    async for row in ctx.each("rows", read_rows, start=0, cursor=lambda row: int(row.id)):
        assert_type(row, Receipt)
    await ctx.sleep("1d")
    await ctx.sleep(None)  # error: arg-type
    await ctx.step("charge", charge, order, retry=3)  # error: call-overload
    await ctx.step("charge", charge, "order")  # error: arg-type
    await ctx.step("charge", charge)  # error: call-arg, arg-type
    await ctx.wait_for(1)  # error: call-overload
    await ctx.run(child)  # error: arg-type
    await ctx.gather(1)  # error: arg-type
    ctx.step_id = ""  # error: misc
    receipt = ctx.step("charge", charge, order)
    return receipt.id  # error: no-any-return, attr-defined


@app.task
def fulfil_sync(ctx: SyncContext, order: int) -> str:
    assert_type(ctx.step("charge", charge_sync, order), Receipt)
    assert_type(ctx.wait_for("approval", Receipt), Receipt)
    assert_type(ctx.run(child.call(1)), float)
    assert_type(ctx.gather(child.call(1), child.call(2)), list[float])
    for row in ctx.each("rows", read_rows_sync):
        assert_type(row, Receipt)
    ctx.sleep("1d")
    ctx.step("charge", charge_sync, "order")  # error: unused-coroutine, arg-type
    return ctx.step("charge", charge_sync, order)  # error: return-value


fulfil.enqueue(1)
fulfil_sync.enqueue(1)
fulfil_sync.enqueue("one")  # error: arg-type
fulfil_sync(1).upper()
app.task(deadline=[])  # error: call-overload
