"""Application whose tasks run in child processes with dependencies made there; a file records the order."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from windlass import Backoff, Context, Depends, Windlass

app = Windlass()


def say(what: str) -> None:
    with Path(os.environ["SAID"]).open("a") as file:
        file.write(f"{what}\n")


def get_pool() -> Iterator[int]:
    say("open pool")
    yield os.getpid()
    say("close pool")


async def get_client() -> AsyncIterator[str]:
    say("connect")
    try:
        yield "client"
    finally:
        say("disconnect")


@app.task(pool="process")
def plain(client: str = Depends(get_client), pool: int = Depends(get_pool, scope="worker")) -> list[bool | str]:
    return [client, pool == os.getpid()]


@app.task(pool="process")
async def waits(client: str = Depends(get_client), pool: int = Depends(get_pool, scope="worker")) -> list[bool | str]:
    return [client, pool == os.getpid()]


@app.task(pool="process")
def hold(started: str, client: str = Depends(get_client)) -> None:
    Path(started).touch()
    signal.pause()


@app.task(pool="process", retry=Backoff(tries=3, base=0), retry_on=OSError)
def fail(ctx: Context, kind: str) -> None:
    raise {"os": OSError, "value": ValueError}[kind](f"attempt {ctx.attempt}")
