"""Worker that is asked from outside to stop: it takes no more jobs, drains and deregisters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from windlass import Windlass, Worker
from windlass.sdk.worker import worker as worker_module

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_remote", [False, True], ids=["engine", "over HTTP"])
async def test_it_ends_gently(
    app: Windlass, is_remote: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(worker_module, "BEAT_EVERY_S", 0.05)
    monkeypatch.setattr(worker_module, "REMOTE_BEAT_EVERY_S", 0.05)
    served = Windlass(request.getfixturevalue("served")) if is_remote else app
    begun, may_end = asyncio.Event(), asyncio.Event()
    done: list[int] = []

    @served.task
    async def slow(number: int) -> None:
        begun.set()
        await may_end.wait()
        done.append(number)

    worker = Worker(served, concurrency=1, grace=60)
    running = asyncio.create_task(worker.run())
    await worker.wait_until_ready()
    service: Any = await app.aservice()
    await slow.aenqueue(1)
    await begun.wait()
    await slow.aenqueue(2)
    assert await service.stop_worker(worker.id) is True
    async with asyncio.timeout(30):
        while not worker._is_stopping:  # noqa: ASYNC110 (there is no event to wait for)
            await asyncio.sleep(0.01)
        may_end.set()
        await running
    assert done == [1], "what it ran has ended, and nothing more was taken"
    assert await service.workers() == []
    (stats,) = await service.stats(["default"])
    assert (stats.queued, stats.running) == (1, 0)
    await served.aclose()
    await app.aclose()
