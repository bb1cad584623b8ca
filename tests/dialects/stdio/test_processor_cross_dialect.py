"""The processor and other dialects: its jobs run by an SDK worker, and jobs of all other dialects run by its workers;
shown by the native API and the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import httpx
import pytest

from tests.dialects.bedrock.client import connect
from tests.dialects.lightjq.lightjq_client import LightJqClient
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
from windlass.core.ids import format_id, parse_id
from windlass.server import Server
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


# Jobs of other dialects: each has its queue, and its own view of the end


class Creator(NamedTuple):
    """A dialect that creates jobs."""

    queue: str
    create: Callable[[Server, httpx.AsyncClient], Awaitable[str]]  # returns the dialect's own id
    show: Callable[[Server, httpx.AsyncClient, str], Awaitable[str]]  # returns the state as the dialect shows it
    states: dict[str, str]  # by the state of the engine


async def _create_jobber(_: Server, client: httpx.AsyncClient) -> str:
    return str((await client.post("/jobber/queue", json={"type": "mail", "payload": {"n": 1}})).json()["job-id"])


async def _show_natively(_: Server, client: httpx.AsyncClient, job_id: str) -> str:
    return str((await client.get(f"/api/v1/jobs/{job_id}")).json()["job"]["state"])


async def _create_bedrock(server: Server, _: httpx.AsyncClient) -> str:
    async with connect(server.bedrock) as client:
        made = await client.call("CreateJob", name="mail", data='{"n":1}', unique="true", jobPriority=1000)
    return str(made.json["jobID"])


async def _show_bedrock(server: Server, _: httpx.AsyncClient, number: str) -> str:
    async with connect(server.bedrock) as client:
        answer = await client.call("QueryJob", jobID=number)
    return str(answer.json["state"]) if answer.status == 200 else answer.line


async def _create_lightjq(_: Server, client: httpx.AsyncClient) -> str:
    return await LightJqClient(client).push("mail", {"n": 1}, keep_result=True, max_retry=0)


async def _show_lightjq(_: Server, client: httpx.AsyncClient, job_id: str) -> str:
    answer = await LightJqClient(client)("GET", f"/job/{job_id}")
    return str(answer.body["status"]) if answer.status == 200 else str(answer.status)


async def _create_natively(_: Server, client: httpx.AsyncClient) -> str:
    job = {"queue": "q", "name": "mail", "payload": {"n": 1}, "unique": "key", "result_ttl_ms": 60_000}
    return str((await client.post("/api/v1/jobs", json=job)).json()["id"])


_NATIVE_STATES = {"finished": "finished", "failed": "failed", "cancelled": "cancelled"}
CREATORS = {
    "jobber": Creator("job_queue_mail", _create_jobber, _show_natively, _NATIVE_STATES),
    "bedrock": Creator(
        "bedrock", _create_bedrock, _show_bedrock,
        {"finished": "404 No job with this jobID", "failed": "FAILED", "cancelled": "CANCELLED"},
    ),
    "lightjq": Creator(
        "lightjq", _create_lightjq, _show_lightjq, {"finished": "done", "failed": "error", "cancelled": "404"}
    ),
    "native": Creator("q", _create_natively, _show_natively, _NATIVE_STATES),
}  # fmt: skip


@pytest.mark.parametrize("creator", list(CREATORS))
@pytest.mark.parametrize("outcome", ["finished", "failed", "cancelled"])
async def test_a_job_of_another_dialect_goes_the_whole_way(
    processor: SessionClient, running: Server, client: httpx.AsyncClient, creator: str, outcome: str, store: Store
) -> None:
    dialect = CREATORS[creator]
    own_id = await dialect.create(running, client)
    processor.send(message_line("job_queue/list_queue_jobs", {"queue_name": dialect.queue}))
    (listed,) = (await processor.receive())["payload"]["jobs"]
    processor.send(idle(queue_name=dialect.queue))
    given = (await processor.receive())["payload"]
    assert (given["command"], given["args"]) == ("mail", {"n": 1})
    assert listed["uuid"] == given["uuid"] == format_id(parse_id(given["uuid"])), "the id in the engine"
    assert listed["priority"] == given["priority"] in range(10)
    named = {"queue_name": dialect.queue, "uuid": given["uuid"]}
    await processor.list_jobs_after(
        message_line("job_queue/job_accepted", named),
        message_line("job_queue/worker_progress", named | {"progress": 0.5}),
    )
    shown = (await client.get(f"/api/v1/jobs/{given['uuid']}")).json()["job"]
    assert (shown["state"], shown["progress"], shown["worker"]) == ("running", 0.5, W)
    await _end(processor, client, named, outcome)
    if creator != "jobber" or outcome != "finished":  # a finished job of Jobber is not kept
        assert await dialect.show(running, client, own_id) == dialect.states[outcome]
    if outcome == "failed":
        (attempt,) = (await client.get(f"/api/v1/jobs/{given['uuid']}")).json()["attempts"]
        assert (attempt["reason"], attempt["error"]) == ("error", {"message": "no space", "error": {"code": 28}})
        line = (await asyncio.to_thread(run_ok, Service(store), "jobs", "show", given["uuid"])).out
        assert "no space" in line


async def _end(processor: SessionClient, client: httpx.AsyncClient, named: dict[str, str], outcome: str) -> None:
    if outcome == "finished":
        await processor.list_jobs_after(message_line("job_queue/job_finished", named | {"answer": 42}))
        return
    if outcome == "cancelled":
        assert (await client.post(f"/api/v1/jobs/{named['uuid']}/cancel", json={})).json() == {"outcome": "requested"}
        processor.send(message_line("job_queue/worker_progress", named | {"progress": 0.6}))
        message = await processor.receive()
        assert (message["topic"], message["payload"]) == (f"default/job_queue/workers/{W}/job_cancelled", named)
    failure = {"message": "no space", "error": {"code": 28}}
    await processor.list_jobs_after(message_line("job_queue/job_failed", named | failure))
