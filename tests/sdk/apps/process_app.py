"""Application whose tasks run in child processes. They load this module and find the engine by the environment."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

from windlass import Backoff, Context, Windlass

app = Windlass()
AT_ONCE = Backoff(tries=0, base=0)


@app.task(pool="process")
def pid() -> int:
    return os.getpid()


@app.task(pool="process")
async def in_a_loop(word: str) -> str:
    await asyncio.sleep(0)
    return word.upper()


@app.task(pool="process", retry=1)
def wrong(word: str) -> None:
    raise ValueError(word)


@app.task(pool="process", retry=AT_ONCE, max_crashes=2)
def crash() -> None:
    os._exit(3)


@app.task(pool="process", retry=AT_ONCE, max_crashes=2, memory="64MiB")
def greedy() -> int:
    return len(bytearray(1 << 30))


@app.task(pool="process", timeout="300ms", retry=1)
def slow() -> None:
    time.sleep(60)


@app.task(pool="process", timeout="300ms", grace="100ms", retry=1)
def stubborn() -> None:
    while True:
        with contextlib.suppress(BaseException):  # it does not want to stop
            time.sleep(60)


@app.task(pool="process")
def hold(started: str, cleaned: str = "") -> None:
    Path(started).touch()
    try:
        signal.pause()
    finally:
        if cleaned:
            Path(cleaned).touch()


@app.task(pool="process")
def talk(ctx: Context) -> str:
    ctx.progress(1, 2, "half")
    ctx.emit({"from": "child"})
    ctx.log.info("said in a child")
    return ctx.id
