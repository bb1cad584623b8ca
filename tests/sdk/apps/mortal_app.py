"""Application whose tasks kill their worker once; run as a program, it is a worker.

The environment names its engine and the file in which it records runs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from windlass import Backoff, Context, Windlass, Worker

app = Windlass()
NOTES = Path(os.environ.get("MORTAL_NOTES", "."))
AGAIN = Backoff(tries=5, base=0)


def note(word: str) -> int:
    """Record a run and return how often it was recorded before."""
    with (NOTES / word).open("ab") as file:
        before = file.tell()
        file.write(b".")
    return before


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(retry=AGAIN, lease="1s")
def square(number: int) -> int:
    note(f"square {number}")
    return number * number


@app.task(retry=AGAIN, lease="1s")
def parent(ctx: Context, numbers: list[int]) -> int:
    if ctx.is_resumed:
        if note("resumed") == 0:
            die()
        return sum(child.result for child in ctx.children)
    ctx.spawn_many({str(number): square.call(number) for number in numbers})
    if note("spawned") == 0:
        die()
    return 0


@app.task(retry=AGAIN, lease="1s")
def add(number: int, more: int) -> int:
    if note("add") == 0:
        die()
    return number + more


if __name__ == "__main__":
    asyncio.run(Worker(app, concurrency=4).run())
