"""Client whose instructions are counted: `python -m bench.programs.counted_client URL KIND`.

It prints `ready`, then runs as many calls as each line of its input names, and prints `done` after each line. A worker
runs jobs instead, with as many slots as the first line names.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable

import uvloop

from windlass import Windlass, Worker

TASKS = 50
app = Windlass(url=sys.argv[1])


@app.task(queue="bench", name="noop")
async def noop(number: int) -> None:
    pass


def enqueue(count: int) -> None:
    for number in range(count):
        noop.enqueue(number)


async def aenqueue(count: int) -> None:
    for number in range(count):
        await noop.aenqueue(number)


async def aenqueue_concurrently(count: int) -> None:
    await asyncio.gather(*(aenqueue(count // TASKS) for _ in range(TASKS)))


async def work(slots: int) -> None:
    await Worker(app, queues=["bench"], concurrency=slots).run()


ASYNC: dict[str, Callable[[int], Awaitable[None]]] = {"one": aenqueue, "tasks": aenqueue_concurrently, "work": work}


async def _run_async(call: Callable[[int], Awaitable[None]]) -> None:
    for line in sys.stdin:  # nothing else runs while this blocks
        await call(int(line))
        print("done", flush=True)


def main() -> None:
    logging.disable(logging.WARNING)
    kind = sys.argv[2]
    print("ready", flush=True)
    if kind in ASYNC:
        uvloop.run(_run_async(ASYNC[kind]))
    for line in sys.stdin:
        enqueue(int(line))
        print("done", flush=True)


if __name__ == "__main__":
    main()
