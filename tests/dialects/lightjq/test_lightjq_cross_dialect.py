"""LightJQ jobs in other dialects, and jobs of other dialects in LightJQ."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.dialects.lightjq.lightjq_client import QUEUE, LightJqClient, hold
from tests.support.api_client import Api
from tests.support.engine_process import EngineProcess
from windlass import Windlass, Worker
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Codec
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def app(engine: EngineProcess, store: Store) -> AsyncIterator[Windlass]:
    app = Windlass()
    app.connect(Store(parse_url(engine.unix_url), namespace=store.namespace, is_test=True))
    yield app
    await app.aclose()


async def native_state(api: Api, job_id: str) -> str:
    return str((await api.get(f"/api/v1/jobs/{job_id}")).body["job"]["state"])


async def test_pushed_here_worked_by_the_sdk_watched_through_the_native_api(
    app: Windlass, lightjq: LightJqClient, json_api: Api
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @app.task(name="add", queue=QUEUE)
    async def add(left: int, right: int) -> dict[str, Any]:
        begun.set()
        await go_on.wait()
        return {"sum": left + right}

    @app.task(name="fail", queue=QUEUE)
    async def fail() -> None:
        raise ValueError("never works")

    job_id = await lightjq.push("add", {"left": 2, "right": 2**40}, keep_result=True)
    failing = await lightjq.push("fail", max_retry=0)
    assert await native_state(json_api, job_id) == "queued"
    worker = Worker(app, queues=[QUEUE], grace=5)
    working = asyncio.create_task(worker.run())
    async with asyncio.timeout(30):
        await begun.wait()
        assert await native_state(json_api, job_id) == "running"
        running = await lightjq.status(job_id)
        assert (running["status"], "worker_id" in running) == ("running", True)
        waiting = asyncio.create_task(lightjq("GET", f"/job/{job_id}/polling?timeout=30"))
        failed = await lightjq("GET", f"/job/{failing}/polling?timeout=30")
        go_on.set()
        response = await waiting
        worker.stop()
        await working
    assert (response.body["status"], response.body["result"]) == ("done", {"sum": 2 + 2**40})
    assert (failed.body["status"], failed.body["message"], failed.body["reason"]) == ("error", "never works", "other")
    assert failed.body["error"]["type"] == "ValueError"
    assert await native_state(json_api, job_id) == "finished"


async def test_enqueued_by_the_sdk_seen_and_worked_here(
    app: Windlass, lightjq: LightJqClient, service: Service
) -> None:
    @app.task(name="remote", queue=QUEUE, keep_result=60)
    async def remote(value: int) -> int:
        raise AssertionError("it is not worked here")

    handle = await remote.aenqueue(7)
    job_id = str(handle.id)
    assert (await lightjq.status(job_id)) == {"status": "queued", "retry_count": 0}
    worker = await lightjq.register()
    job = await hold(service, worker)
    assert job is not None
    assert job.key == job_id
    assert (await lightjq.status(job_id))["status"] == "running"
    assert (await lightjq("DELETE", f"/job/{job_id}")).status == 409
    assert (await lightjq.succeed(worker, job_id, result=49)).status == 204
    for _ in range(2):  # it was not pushed here: its result is its producer's, and looking uses up nothing
        assert (await lightjq.status(job_id))["result"] == 49
    ending = await service.result(parse_id(job_id))
    assert ending is not None
    assert ending.result == Blob(b"\x31", Codec.MSGPACK)
