"""Application whose workers write lines about their jobs."""

from __future__ import annotations

import time

from windlass import Backoff, Windlass

app = Windlass()


@app.task
async def send_mail(order: int) -> int:
    return order


@app.task
def pack(order: int) -> int:
    return order


@app.task(pool="process")
def resize(order: int) -> int:
    return order


@app.task(retry=Backoff(tries=2, base=0))
def fetch() -> None:
    raise OSError("connection refused")


@app.task
async def block(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 (the mistake that is meant)
