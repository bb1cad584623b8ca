"""Takes that the engine carried out and whose answer was lost: the worker releases the job, and it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.sdk.conftest import at_work
from tests.support.engine_process import EngineProcess
from tests.support.lossy_connection import LIMIT_S, SETTLED_MS, LossyConnection, open_lossy_connection
from windlass import Windlass
from windlass.background import reconciler
from windlass.core.ids import parse_id
from windlass.core.job import NewJob
from windlass.core.operations import Take
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.sdk.worker import worker as worker_module
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


@pytest.fixture
def lossy_connection(engine: EngineProcess) -> Iterator[LossyConnection]:
    with open_lossy_connection(engine) as found:
        yield found


@pytest.fixture
def lossy_app(store: Store, lossy_connection: LossyConnection) -> Iterator[Windlass]:
    """Make an app in the namespace of `store`, over the lossy connection."""
    app = Windlass()
    app.connect(lossy_connection.store_like(store))
    yield app
    app.close()


@pytest.fixture(autouse=True)
def short_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler, "SETTLE_S", 0.05)
    monkeypatch.setattr(worker_module, "BEAT_EVERY_S", 0.1)
    monkeypatch.setattr(worker_module, "REMOTE_BEAT_EVERY_S", 0.1)


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_so():  # noqa: ASYNC110 (a condition of the engine)
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def stranded(
    app: Windlass, service: Service, lossy_connection: LossyConnection, lease_ms: int
) -> AsyncIterator[list[int]]:
    """Run a live worker that does not know of the only job, which is leased to it. Yields the jobs that ran."""
    ran: list[int] = []

    @app.task
    def work(number: int) -> None:
        ran.append(number)

    queue = work.queue
    await service.configure(queue, {"lease_ms": lease_ms})
    handle = await work.aenqueue(7)
    lossy_connection.lose("take")
    async with at_work(app, concurrency=2) as worker:
        await lossy_connection.wait_lost()
        found = (await service.job([parse_id(handle.id)]).one()).job
        assert (found.state, found.worker, worker.running) == (State.RUNNING, worker.id, 0)
        yield ran


@pytest.mark.parametrize("lease_ms", [FOREVER_MS, 3_600_000], ids=["without end", "an hour"])
async def test_the_worker_gives_it_back_and_it_runs(
    lossy_app: Windlass, store: Store, lossy_connection: LossyConnection, lease_ms: int
) -> None:
    async with store, stranded(lossy_app, Service(store), lossy_connection, lease_ms) as ran:
        store.clock_offset_ms += SETTLED_MS
        await until(lambda: ran == [7])


async def test_a_worker_over_http_gives_back_what_it_never_got(
    served: str, store: Store, engine_service: Service
) -> None:
    """The job is taken in its name by another client, as when the answer is lost between the engine and its server."""
    async with at_work(Windlass(served), queues=["served"]) as worker:
        job_id = (await engine_service.enqueue([NewJob(queue="elsewhere", name="n")]).one()).id
        request = Take(queues=("elsewhere",), worker=worker.id, lease_ms=FOREVER_MS)
        assert [job.id for job in (await engine_service.take(request)).jobs] == [job_id]
        store.clock_offset_ms += SETTLED_MS
        await until_queued(engine_service, job_id)


async def test_a_job_that_runs_stays_with_its_worker(app: Windlass, store: Store, engine_service: Service) -> None:
    may_end = asyncio.Event()
    ran: list[int] = []

    @app.task
    async def work(number: int) -> None:
        await may_end.wait()
        ran.append(number)

    await engine_service.configure(work.queue, {"lease_ms": FOREVER_MS})
    async with at_work(app, queues=[work.queue]) as worker:
        handle = await work.aenqueue(7)
        await until(lambda: worker.running == 1)
        job_id = (await engine_service.enqueue([NewJob(queue="elsewhere", name="n")]).one()).id
        await engine_service.take(Take(queues=("elsewhere",), worker=worker.id, lease_ms=FOREVER_MS))
        store.clock_offset_ms += SETTLED_MS
        await until_queued(engine_service, job_id)  # a heartbeat found it beside the running job and released it
        job = (await engine_service.job([parse_id(handle.id)]).one()).job
        assert (job.state, job.worker, job.attempt) == (State.RUNNING, worker.id, 1)
        may_end.set()
        await until(lambda: ran == [7])


async def until_queued(service: Service, job_id: bytes) -> None:
    async with asyncio.timeout(LIMIT_S):
        while (await service.job([job_id]).one()).job.state is not State.QUEUED:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
