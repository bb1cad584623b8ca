"""A worker with so many slots that it reports by halves: each job runs once, and never more than there are slots."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from windlass import Windlass, Worker
from windlass.sdk.worker.pump import HALVED_FROM

SLOTS = 2 * HALVED_FROM + 1
COUNT = 7 * SLOTS + 3


@pytest.mark.anyio
@pytest.mark.parametrize("pause_s", [None, 0.0])
async def test_each_job_runs_once_within_the_slots(
    app: Windlass, working: Callable[..., AbstractAsyncContextManager[Worker]], pause_s: float | None
) -> None:
    seen: list[int] = []
    at_once: set[int] = set()
    most = 0
    has_all = asyncio.Event()

    @app.task
    async def note(number: int) -> None:
        nonlocal most
        at_once.add(number)
        most = max(most, len(at_once))
        if pause_s is not None:
            await asyncio.sleep(pause_s)
        at_once.discard(number)
        seen.append(number)
        if len(seen) == COUNT:
            has_all.set()

    await app.aenqueue_many(note.call(number) for number in range(COUNT))
    async with working(app, concurrency=SLOTS) as worker:
        await has_all.wait()
    assert sorted(seen) == list(range(COUNT))
    assert most <= SLOTS
    assert worker.done == COUNT
    (stats,) = await (await app.aservice()).stats(["default"])
    assert (stats.queued, stats.running) == (0, 0)
