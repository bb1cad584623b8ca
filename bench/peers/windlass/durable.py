"""Durable steps of Windlass through its SDK, as users run them. The measured worker runs in the process that enqueues
the jobs and waits for their results; a worker that is killed runs under the parent of `windlass worker --processes`."""

import asyncio
import os
import sys
from typing import Any

import uvloop
from stepping import URL, WARM_UP_STEPS, Spell, is_right, note, receipt

from windlass import Backoff, Context, SyncContext, Windlass, Worker

app = Windlass(url=URL)
QUEUE = "bench"
KEPT = "1h"  # the job and its steps are kept with the result, as DBOS keeps a workflow


async def charge(number: int) -> dict[str, Any]:
    return receipt(number)


@app.task(queue=QUEUE, keep_result=KEPT)
async def order(ctx: Context, steps: int) -> int:
    for number in range(steps):
        await ctx.step("charge", charge, number, key=str(number))
    return steps


@app.task(queue=QUEUE, keep_result=KEPT)
def order_in_thread(ctx: SyncContext, steps: int) -> int:
    for number in range(steps):
        ctx.step("charge", receipt, number, key=str(number))
    return steps


async def recorded(path: str, number: int, hangs_at: int) -> int:
    if not note(path, number) and number == hangs_at:
        await asyncio.Event().wait()
    return number


@app.task(queue=QUEUE, retry=Backoff(tries=3, base="100ms"))
async def recorded_order(ctx: Context, path: str, steps: int, hangs_at: int) -> int:
    for number in range(steps):
        await ctx.step("recorded", recorded, path, number, hangs_at, key=str(number))
    return steps


async def run(way: str, workflows: int, waves: int, steps: int) -> None:
    task = order if way == "async" else order_in_thread
    worker = Worker(app, queues=[QUEUE], concurrency=workflows)
    running = asyncio.ensure_future(worker.run())
    await (await task.aenqueue(WARM_UP_STEPS)).aresult()
    with Spell():
        for _ in range(waves):
            handles = await app.aenqueue_many(task.call(steps) for _ in range(workflows))
            results = await asyncio.gather(*(handle.aresult() for handle in handles))
            assert is_right(results, steps)
    running.cancel()


def work(processes: str) -> None:
    command = [sys.executable, "-m", "windlass", "worker", "durable:app", "--processes", processes, "-c", "10"]
    os.execv(sys.executable, command)  # noqa: S606 (a program of this repository)


def main() -> None:
    task, *words = sys.argv[1:]
    if task == "run":
        uvloop.run(run(words[0], *(int(word) for word in words[1:])))
    elif task == "begin":
        recorded_order.enqueue(words[0], int(words[1]), int(words[2]))
        print("ready", flush=True)
        app.close()
    else:
        work(words[0])


if __name__ == "__main__":
    main()
