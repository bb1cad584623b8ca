"""Server that is killed while it pushes: no job is lost, and no attempt is spent."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.background.worker_server import WorkerServer
from tests.support.server_process import ServerProcess, store_options
from windlass.core.errors import Refusal
from windlass.core.ids import format_id, parse_id
from windlass.core.job import NewJob
from windlass.core.operations import Enqueued, Finish
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
JOBS = 20


@contextlib.asynccontextmanager
async def server(store: Store) -> AsyncIterator[ServerProcess]:
    """The worker is in this event loop: nothing may block it."""
    process = ServerProcess(store_options(store))
    await asyncio.to_thread(process.__enter__)
    try:
        yield process
    finally:
        await asyncio.to_thread(process.__exit__, None, None, None)


async def test_a_killed_server_loses_no_job_that_it_was_pushing(service: Service, store: Store) -> None:
    is_first_dead = asyncio.Event()

    async def hold_then_work(message: dict[str, Any]) -> int:
        """The first server never gets the answer; the second gets it after the result."""
        if not is_first_dead.is_set():
            await is_first_dead.wait()
            return 202
        await service.finish([Finish(parse_id(message["id"]), 0)])
        return 202

    async with store, WorkerServer(hold_then_work, slots=5).open() as worker, asyncio.timeout(60):
        await worker.register(service)
        made = await service.enqueue([NewJob(queue="q", name="n", result_ttl_ms=60_000) for _ in range(JOBS)])
        ids = [one.id for one in made if isinstance(one, Enqueued)]
        async with server(store) as first:
            for _ in range(5):
                await worker.got.get()
            first.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(first.process.wait)
        is_first_dead.set()
        assert (await service.stats(["q"]))[0].running == 5
        store.clock_offset_ms += 10_000  # by then a worker must have taken them on
        await service.recover()
        async with server(store):
            ends = [await service.result(job_id, wait_ms=30_000) for job_id in ids]
        assert {end.state for end in ends if end is not None} == {State.FINISHED}
        assert sorted(set(worker.jobs)) == sorted(format_id(job_id) for job_id in ids)
        assert len(worker.jobs) == JOBS + 5
        jobs = await service.job(ids)
        assert {one.job.attempt for one in jobs if not isinstance(one, Refusal)} == {1}
