"""A take that the engine carried out and whose answer was lost: the worker gives the job back, and it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from engine_process import EngineProcess
from lost_replies import LIMIT_S, SETTLED_MS, LossyWay, lossy_way
from sdk.conftest import at_work
from windlass import Windlass
from windlass.core.ids import parse_id
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.sdk.worker import worker as worker_module
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio



@pytest.fixture
def way(engine: EngineProcess) -> Iterator[LossyWay]:
    with lossy_way(engine) as found:
        yield found


@pytest.fixture
def lossy_app(store: Store, way: LossyWay) -> Iterator[Windlass]:
    """In the namespace of `store`, over the lossy way."""
    app = Windlass()
    app.connect(way.store_like(store))
    yield app
    app.close()


@pytest.fixture(autouse=True)
def short_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "BEAT_EVERY_S", 0.1)
    monkeypatch.setattr(worker_module, "REMOTE_BEAT_EVERY_S", 0.1)


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_so():  # noqa: ASYNC110 (a condition of the engine)
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def stranded(app: Windlass, service: Service, way: LossyWay, lease_ms: int) -> AsyncIterator[list[int]]:
    """A living worker that does not know of the only job, which is leased to it. Yields what ran."""
    ran: list[int] = []

    @app.task
    def work(number: int) -> None:
        ran.append(number)

    queue = work.queue
    await service.configure(queue, {"lease_ms": lease_ms})
    handle = await work.aenqueue(7)
    way.lose("take")
    async with at_work(app, concurrency=2) as worker:
        await way.has_lost()
        found = (await service.job([parse_id(handle.id)]).one()).job
        assert (found.state, found.worker, worker.running) == (State.RUNNING, worker.id, 0)
        yield ran


@pytest.mark.parametrize("lease_ms", [FOREVER_MS, 3_600_000], ids=["without end", "an hour"])
async def test_the_worker_gives_it_back_and_it_runs(
    lossy_app: Windlass, store: Store, way: LossyWay, lease_ms: int
) -> None:
    async with store, stranded(lossy_app, Service(store), way, lease_ms) as ran:
        store.clock_offset_ms += SETTLED_MS
        await until(lambda: ran == [7])
