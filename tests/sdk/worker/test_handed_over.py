"""Direct handoff: a waiting worker gets a job with its wakeup. Order of acceptance and code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from windlass import Windlass, Worker
from windlass.core.job import Blob, NewJob
from windlass.core.states import State
from windlass.store.connection.connection import Connection

LIMIT_S = 30.0


async def _until_it_waits(app: Windlass) -> None:
    store = (await app.aservice()).store
    async with asyncio.timeout(LIMIT_S):
        while not await store._connection("calls").call("EXISTS", f"{store.root(0)}:waiters:default"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.anyio
async def test_its_acceptance_leaves_before_its_code_runs(
    app: Windlass, working: Callable[..., AbstractAsyncContextManager[Worker]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code that ends the process at once has spent its attempt."""
    seen: list[str] = []
    begin = Connection.start_within

    def start_within(self: Connection, timeout_s: float, packed: bytes) -> Any:
        try:
            return begin(self, timeout_s, packed)
        finally:
            seen.append("accept" if b"accept" in packed else "exchange")

    monkeypatch.setattr(Connection, "start_within", start_within)

    @app.task
    async def note() -> None:
        seen.append("code")

    async with working(app), asyncio.timeout(LIMIT_S):
        while "accept" not in seen:  # until the worker waits again, a job is taken without handoff
            await _until_it_waits(app)
            await (await note.aenqueue()).aresult(timeout=LIMIT_S)
    at = seen.index("accept")
    assert seen[at : at + 2] == ["accept", "code"]


@pytest.mark.anyio
async def test_one_that_nobody_here_knows_waits_for_another(
    app: Windlass, working: Callable[..., AbstractAsyncContextManager[Worker]]
) -> None:
    has_run = asyncio.Event()

    @app.task
    async def known() -> None:
        has_run.set()

    async with working(app, concurrency=1) as worker, asyncio.timeout(LIMIT_S):
        await (await known.aenqueue()).aresult(timeout=LIMIT_S)
        has_run.clear()
        await _until_it_waits(app)
        service = await app.aservice()
        strange = await service.enqueue([NewJob(queue="default", name="strange", payload=Blob(b"{}"))]).one()
        await known.aenqueue()
        await has_run.wait()
        job = (await service.job([strange.id]).one()).job
        while job.state is not State.QUEUED:
            job = (await service.job([strange.id]).one()).job
        assert job.attempt == 0
    assert worker.running == 0
