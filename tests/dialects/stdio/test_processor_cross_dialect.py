"""The processor and other dialects: its jobs run by an SDK worker, and jobs of the SDK and the native API run by its
workers; shown by the native API and the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.dialects.stdio.processor_client import (
    SessionClient,
    W,
    add,
    idle,
    job_uuid,
    message_line,
    running_session,
    worker_line,
)
from tests.sdk.conftest import at_work
from tests.support.api_client import Api
from tests.support.console import run_ok
from windlass import Windlass
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def processor(running: Any, store: Store) -> AsyncIterator[SessionClient]:
    """Run a session beside a server on the same deployment."""
    async with store.clone() as twin, running_session(Service(twin)) as processor:
        yield processor


async def jobs_of_state(api: Api, state: str) -> list[dict[str, Any]]:
    found = await api.get(f"/api/v1/jobs?queue=q&state={state}")
    jobs: list[dict[str, Any]] = found.body["jobs"]
    return jobs


async def test_added_here_worked_by_the_sdk_watched_by_the_native_api(
    processor: SessionClient, json_api: Api, store: Store
) -> None:
    await processor.list_jobs_after(add(1, command="resize", args={"size": 3}))
    (job,) = await jobs_of_state(json_api, "queued")
    assert (job["name"], job["unique"], job["priority"]) == ("resize", job_uuid(1), 0)
    app = Windlass()
    async with store.clone() as twin:
        app.connect(twin)
        done = asyncio.Event()
        got: dict[str, Any] = {}

        @app.task(name="resize", queue="q")
        async def resize(**fields: Any) -> str:
            got.update(fields)
            done.set()
            return "small"

        async with at_work(app):
            await asyncio.wait_for(done.wait(), 30)
    assert (got["uuid"], got["args"]) == (job_uuid(1), {"size": 3})
    (job,) = await jobs_of_state(json_api, "finished")
    assert job["unique"] == job_uuid(1)


async def test_enqueued_natively_worked_here_and_awaited_by_the_sdk(processor: SessionClient, json_api: Api) -> None:
    job = {"queue": "q", "name": "resize", "payload": {"size": 3}, "result_ttl_ms": 60_000}
    made = (await json_api.post("/api/v1/jobs", job)).body
    processor.send(idle())
    payload = (await processor.receive())["payload"]
    assert (payload["command"], payload["args"]) == ("resize", {"size": 3})
    (job,) = await jobs_of_state(json_api, "running")
    assert (job["id"], job["state"], job["worker"]) == (payload["uuid"], "dispatched", W)
    named = {"queue_name": "q", "uuid": payload["uuid"]}
    await processor.list_jobs_after(
        message_line("job_queue/job_accepted", named), message_line("job_queue/worker_busy", named | {"progress": 0.5})
    )
    (job,) = await jobs_of_state(json_api, "running")
    assert (job["state"], job["progress"]) == ("running", 0.5)
    (worker,) = (await json_api.get("/api/v1/workers")).body["workers"]
    assert (worker["id"], worker["name"], worker["host"], worker["running_count"]) == (W, W, "there", 1)
    assert worker["beat_at_ms"] < worker["silent_at_ms"]
    await processor.list_jobs_after(message_line("job_queue/job_finished", named | {"answer": 42}))
    found = (await json_api.get(f"/api/v1/jobs/{made['id']}/result")).body
    assert found["result"]["answer"] == 42


async def test_the_command_line_shows_workers_and_their_jobs(processor: SessionClient, store: Store) -> None:
    processor.send(add(1), idle())
    await processor.receive()
    await processor.list_jobs_after(
        worker_line("job_accepted", W, 1), worker_line("worker_progress", W, 1, progress=0.25)
    )
    (worker,) = (await asyncio.to_thread(run_ok, Service(store), "workers", "ls", "--json")).lines
    assert (worker["id"], worker["running_count"]) == (W, 1)
    assert (await asyncio.to_thread(run_ok, Service(store), "workers", "ls")).rows[0][1] == W
