"""Takes and dispatches that the engine executed and whose answer was lost: the job still runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.background.worker_server import WorkerServer
from tests.downloads.origin import Origin, answer, at_work, end_of, put
from tests.support.engine_process import EngineProcess
from tests.support.lossy_connection import LIMIT_S, SETTLED_MS, LossyConnection, open_lossy_connection
from windlass.background import lease_holder, reconciler
from windlass.background.push_dispatcher import ACCEPT_MS, PushDispatcher
from windlass.core.job import Job, NewJob
from windlass.core.states import State
from windlass.downloads.worker import QUEUE
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
def lossy_connection(engine: EngineProcess) -> Iterator[LossyConnection]:
    with open_lossy_connection(engine) as found:
        yield found


@pytest.fixture
async def lossy(store: Store, lossy_connection: LossyConnection) -> AsyncIterator[Service]:
    """In the namespace of `store`, over the lossy connection."""
    async with store, lossy_connection.store_like(store) as found, asyncio.timeout(LIMIT_S):
        yield Service(found)


async def read(service: Service, job_id: bytes) -> Job:
    return (await service.job([job_id]).one()).job


async def test_a_download_whose_take_was_lost(
    lossy: Service, service: Service, lossy_connection: LossyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_holder, "BEAT_EVERY_S", 0.1)
    monkeypatch.setattr(reconciler, "SETTLE_S", 0.05)
    async with Origin(answer(b"whole")).open() as origin:
        job_id = await put(service, origin.url())
        lossy_connection.lose_call_with(QUEUE)  # its take; the files that are to be deleted have a queue of their own
        async with at_work(lossy, tmp_path, lease_ms=3_600_000):
            await lossy_connection.wait_lost()
            assert (await read(service, job_id)).state is State.RUNNING
            service.store.clock_offset_ms += SETTLED_MS
            assert (await end_of(service, job_id))["success"]
    assert (await read(service, job_id)).attempt == 1


async def test_a_dispatch_whose_push_was_never_made_goes_back_unless_it_is_accepted_in_time(
    lossy: Service, service: Service, lossy_connection: LossyConnection
) -> None:
    async with WorkerServer(slots=1).open() as worker, Outbound(parse_policy("", is_local=True)) as outbound:
        await worker.register(service)
        job_id = (await service.enqueue([NewJob(queue="q", name="n")]).one()).id
        lossy_connection.lose("dispatch")
        assert await PushDispatcher(outbound).push_once(lossy) == 0
        assert ((await read(service, job_id)).state, worker.jobs) == (State.DISPATCHED, [])
        service.store.clock_offset_ms += ACCEPT_MS
        await service.recover()
        assert await PushDispatcher(outbound).push_once(lossy) == 1
        job = await read(service, job_id)
        assert (job.state, job.attempt, len(worker.jobs)) == (State.RUNNING, 1, 1)
