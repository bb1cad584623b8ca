"""Application of durable tasks for workers that are killed, and for child processes."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from windlass import Backoff, Context, SyncContext, Windlass

app = Windlass()
AGAIN = Backoff(tries=20, base=0)


def note(place: str, word: str) -> str:
    """Append a line in one write, so that lines of several processes do not mix."""
    with open(Path(place) / "notes", "ab", buffering=0) as notes:
        notes.write(f"{word} 0 {os.getpid()}\n".encode())
    return word


def wait_to_go(place: str) -> None:
    note(place, "waits")
    while not (Path(place) / "go").exists():
        time.sleep(0.01)


async def anote(place: str, word: str) -> str:
    return note(place, word)


async def await_to_go(place: str) -> None:
    note(place, "waits")
    while not (Path(place) / "go").exists():  # noqa: ASYNC110 (it waits for another process)
        await asyncio.sleep(0.01)


async def work(ctx: Context, place: str) -> list[Any]:
    first = await ctx.step("first", anote, place, "first")
    second = await ctx.step("second", anote, place, "second")
    await ctx.step("waits", await_to_go, place)
    await ctx.sleep("2100ms")
    return [first, second, await ctx.wait_for("approval", str), ctx.attempt]


def work_sync(ctx: SyncContext, place: str) -> list[Any]:
    first = ctx.step("first", note, place, "first")
    second = ctx.step("second", note, place, "second")
    ctx.step("waits", wait_to_go, place)
    ctx.sleep("2100ms")
    return [first, second, ctx.wait_for("approval", str), ctx.attempt]


def _declare(name: str, function: Callable[..., Any], **options: Any) -> Any:
    return app.task(name=name, lease="1s", retry=AGAIN, **options)(function)


in_loop = _declare("in_loop", work)
in_thread = _declare("in_thread", work_sync)
in_process = _declare("in_process", work_sync, pool="process")
in_process_loop = _declare("in_process_loop", work, pool="process")


async def tell(ctx: Context, place: str) -> None:
    async def tell_and_wait() -> None:
        await ctx.stream.write("in a step")
        await await_to_go(place)

    await ctx.stream.write(0, 1)
    await ctx.stream.write(2)
    await ctx.step("waits", tell_and_wait)
    await ctx.stream.write(3)


def tell_sync(ctx: SyncContext, place: str) -> None:
    def tell_and_wait() -> None:
        ctx.stream.write("in a step")
        wait_to_go(place)

    ctx.stream.write(0, 1)
    ctx.stream.write(2)
    ctx.step("waits", tell_and_wait)
    ctx.stream.write(3)


tell_in_loop = _declare("tell_in_loop", tell)
tell_in_thread = _declare("tell_in_thread", tell_sync)
tell_in_process = _declare("tell_in_process", tell_sync, pool="process")
tell_in_process_loop = _declare("tell_in_process_loop", tell, pool="process")


@app.task(pool="process")
def swallow(ctx: SyncContext) -> str:
    try:
        ctx.sleep("1h")
    except BaseException:
        return "swallowed"
    return "slept"


@app.task(pool="process")
def parent(ctx: SyncContext) -> list[int]:
    return ctx.gather(child.call(at) for at in range(3))


@app.task(pool="process")
def child(number: int) -> int:
    return number * number
