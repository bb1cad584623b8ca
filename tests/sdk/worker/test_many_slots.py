"""Worker with so many slots that it reports by halves: each job runs once, and never more than there are slots."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from windlass import Windlass, Worker
from windlass.sdk.worker.fetcher import HALVE_FROM
from windlass.store.connection.connection import Connection

SLOTS = 2 * HALVE_FROM + 1
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


@pytest.mark.anyio
async def test_what_has_ended_is_on_its_way_before_the_next_half_begins(
    app: Windlass, working: Callable[..., AbstractAsyncContextManager[Worker]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two halves that were answered together would stay together, and engine and worker would take turns."""
    seen: list[str] = []
    has_all = asyncio.Event()
    begin = Connection.start_within

    def begun(self: Connection, timeout_s: float, packed: bytes) -> Any:
        if b"finish_and_take" in packed:
            seen.append("reported")
        return begin(self, timeout_s, packed)

    monkeypatch.setattr(Connection, "start_within", begun)

    @app.task
    async def note(number: int) -> None:
        seen.append("ran")
        if seen.count("ran") == COUNT:
            has_all.set()

    await app.aenqueue_many(note.call(number) for number in range(COUNT))
    async with working(app, concurrency=SLOTS):
        await has_all.wait()
    in_a_row = [len(list(group)) for word, group in itertools.groupby(seen) if word == "ran"]
    assert in_a_row[0] == SLOTS
    assert max(in_a_row[1:]) <= (SLOTS + 1) // 2
