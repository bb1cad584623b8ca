"""Application whose tasks try to end the process that runs them."""

from __future__ import annotations

import asyncio
import sys

from windlass import Backoff, Depends, Windlass

app = Windlass()
TWICE = Backoff(tries=2, base=0)


def leave(how: str) -> None:
    if how == "SystemExit":
        sys.exit(1)
    raise KeyboardInterrupt


async def aleave(how: str) -> None:
    await asyncio.sleep(0)
    leave(how)


@app.task(retry=TWICE)
async def in_loop(how: str) -> None:
    await aleave(how)


@app.task(retry=TWICE)
def in_thread(how: str) -> None:
    leave(how)


@app.task(retry=TWICE, pool="process")
def in_process(how: str) -> None:
    leave(how)


@app.task(retry=TWICE, pool="process")
async def in_loop_of_process(how: str) -> None:
    await asyncio.gather(aleave(how))


@app.task(retry=TWICE)
async def in_subtask(how: str) -> None:
    await asyncio.gather(aleave(how))


@app.task(retry=TWICE)
async def in_task_group(how: str) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(aleave(how))


@app.batch_task(most=2, wait="1ms", retry=TWICE)
async def in_batch(hows: list[str]) -> None:
    await aleave(hows[0])


async def fail_to_open() -> int:
    sys.exit(1)


@app.task(retry=TWICE)
async def in_dependency(how: str, pool: int = Depends(fail_to_open, scope="worker")) -> int:
    return pool


@app.task
async def leave_behind(how: str) -> None:
    """Start code that outlives the job and then tries to end the process."""
    asyncio.get_running_loop().call_soon(leave, how)


@app.task
async def add(a: int, b: int) -> int:
    return a + b
