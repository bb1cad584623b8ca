"""Cancel requests: a worker gets them by wakeup, before its next heartbeat."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.namespace import send_command
from windlass.core.job import NewJob
from windlass.core.operations import Take, WorkerInfo
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
WORKER = b"w" * 16


async def test_a_registered_worker_learns_of_it_at_once(service: Service, store: Store) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    async with store, asyncio.timeout(10):
        service.hear_cancels(heard.put_nowait)
        await service.register(WORKER, WorkerInfo())
        await service.enqueue([NewJob(queue="q", name="n")]).one()
        (job,) = (await service.take(Take(queues=("q",), worker=WORKER))).jobs
        assert await service.cancel([job.id]).one() == "requested"
        assert await heard.get() == job.id


async def test_a_worker_that_does_not_listen_leaves_no_wakeup_list_behind(service: Service, store: Store) -> None:
    async with store:
        await service.register(WORKER, WorkerInfo())
        await service.enqueue([NewJob(queue="q", name="n")]).one()
        (job,) = (await service.take(Take(queues=("q",), worker=WORKER))).jobs
        await service.cancel([job.id]).one()
        wakeup_lists = send_command(store, "KEYS", f"{store.namespace}*bell*")
        assert wakeup_lists == []
