"""LightJQ with push workers: a real server, and real worker processes built with the SDK."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.sdk.conftest import at_work
from tests.support.api_client import Api
from tests.support.engine_process import EngineProcess
from windlass import Windlass
from windlass.core.ids import parse_id
from windlass.core.operations import Finish, Take
from windlass.core.states import State
from windlass.sdk.push import PushWorker
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
PROGRAM = Path(__file__).with_name("push_process.py")
HEADERS = {"content-type": "application/msgpack", "accept": "application/msgpack"}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Master:
    """LightJQ client of a pusher."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        content = b"" if body is None else msgspec.msgpack.encode(body)
        answer = await self.client.request(method, "/lightjq" + path, content=content, headers=HEADERS | headers)
        return answer.status_code, msgspec.msgpack.decode(answer.content) if answer.content else None

    async def push(self, name: str, value: Any = None, **fields: Any) -> str:
        body = {"name": name, "argument": {"value": value}, "keep_result": True} | fields
        status, response = await self.ask("POST", "/job", body)
        assert status == 201, response
        return str(response["job_id"])

    async def end(self, job_id: str) -> dict[str, Any]:
        status, response = await self.ask("GET", f"/job/{job_id}/polling?timeout=20")
        assert status == 200, response
        return dict(response)

    async def status(self, job_id: str) -> str:
        return str((await self.ask("GET", f"/job/{job_id}"))[1]["status"])


@pytest.fixture
async def master(client: httpx.AsyncClient) -> AsyncIterator[Master]:
    async with asyncio.timeout(60):
        yield Master(client)


async def until_running(service: Service, job_id: str) -> None:
    """Wait until the worker has accepted the job. LightJQ shows it as running before that."""
    while (await service.job([parse_id(job_id)]).one()).job.state is not State.RUNNING:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def worker_process(
    service: Service, server_url: str, *, max_jobs: int = 4, port: int = 0, queues: Sequence[str] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a worker process, and wait until it is registered."""
    known = {worker.id for worker in await service.workers()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), server_url + "/lightjq", str(port or _free_port()), str(max_jobs), *queues
    )
    try:
        while not {worker.id for worker in await service.workers()} - known:
            assert process.returncode is None
            await asyncio.sleep(0.01)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def test_a_job_is_pushed_and_its_result_is_reported(master: Master, service: Service, server_url: str) -> None:
    value = {"text": "ü", "bin": b"\0\xff", "big": 2**64 - 1, "small": -(2**63), "nil": None, "list": [1, [2.5]]}
    async with worker_process(service, server_url):
        ended = await master.end(await master.push("echo", value))
        assert (ended["status"], ended["result"]) == ("done", value)
        ended = await master.end(await master.push("thread"))
        assert ended["result"].startswith("windlass-push")
    assert await service.workers() == []  # it has said that it leaves


async def test_a_worker_gets_the_jobs_of_the_queues_that_it_names(
    master: Master, service: Service, server_url: str
) -> None:
    async with worker_process(service, server_url, queues=["mail", "reports"]):
        (worker,) = await service.workers()
        assert worker.info.queues == ("mail", "reports")
        other = await master.push("echo", 0)
        for queue in ("mail", "reports"):
            ended = await master.end(await master.push("echo", queue, queue=queue))
            assert (ended["status"], ended["result"]) == ("done", queue)
        assert await master.status(other) == "queued", "it serves only the queues that it names"
    with pytest.raises(TypeError, match="sequence of names"):
        PushWorker("http://127.0.0.1:1/lightjq", url="http://127.0.0.1:2", queues="mail")


async def test_failures_are_reported_with_their_reason(master: Master, service: Service, server_url: str) -> None:
    async with worker_process(service, server_url):
        broken = await master.end(await master.push("broken", max_retry=0))
        assert (broken["status"], broken["reason"], broken["message"]) == ("error", "other", "ValueError: it is broken")
        given_up = await master.end(await master.push("given_up", max_retry=5))
        assert (given_up["status"], given_up["message"], given_up["retry_count"]) == ("error", "no use", 0)
        odd = await master.end(await master.push("odd", max_retry=0))
        assert (odd["status"], odd["reason"]) == ("error", "other")
        late = await master.end(await master.push("slow", 30, max_retry=0, timeout=1))
        assert (late["status"], late["reason"]) == ("error", "timeout")
        # A thread cannot be stopped, but the master's clock does not wait for it.
        stuck = await master.end(await master.push("stuck", 2, max_retry=0, timeout=1))
        assert (stuck["status"], stuck["reason"]) == ("error", "timeout")


async def test_a_job_that_tries_to_exit_has_failed(master: Master, service: Service, server_url: str) -> None:
    async with worker_process(service, server_url):
        for name, kind in (("leave", "SystemExit: 1"), ("interrupt", "KeyboardInterrupt: ")):
            ended = await master.end(await master.push(name, max_retry=0))
            assert (ended["status"], ended["reason"], ended["message"]) == ("error", "other", kind)
        assert (await master.end(await master.push("echo", 1)))["result"] == 1


async def test_a_failed_job_is_tried_again(master: Master, service: Service, server_url: str) -> None:
    async with worker_process(service, server_url):
        ended = await master.end(await master.push("broken", max_retry=1))
        assert (ended["status"], ended["retry_count"]) == ("error", 1)


async def test_a_worker_that_is_killed_loses_no_job(master: Master, service: Service, server_url: str) -> None:
    async with worker_process(service, server_url) as first:
        job_id = await master.push("slow", 2, max_retry=2, timeout=4)
        await until_running(service, job_id)
        first.send_signal(signal.SIGKILL)
        await first.wait()
    async with worker_process(service, server_url):
        # The dead one is found out by what is pushed to it; the other one has it all in the end.
        jobs = [await master.push("echo", number) for number in range(10)]
        assert [(await master.end(one))["result"] for one in jobs] == list(range(10))
        ended = await master.end(job_id)  # nobody reported: its time ran out, and it was tried again
        assert (ended["status"], ended["retry_count"]) == ("done", 1)


async def test_a_restarted_worker_does_not_accept_pushes_for_its_old_id(
    master: Master, service: Service, server_url: str
) -> None:
    """It was killed and starts again on the same port. It answers pushes for its old id with 410."""
    port = _free_port()
    async with worker_process(service, server_url, port=port) as first:
        first.send_signal(signal.SIGKILL)
        await first.wait()
    async with worker_process(service, server_url, port=port):
        jobs = [await master.push("echo", number) for number in range(20)]
        assert [(await master.end(one))["result"] for one in jobs] == list(range(20))
        while len(await service.workers()) > 1:  # noqa: ASYNC110 (the engine's news)
            await asyncio.sleep(0.01)


async def test_a_worker_unknown_to_the_master_registers_again(
    master: Master, service: Service, server_url: str
) -> None:
    async with worker_process(service, server_url):
        (worker,) = await service.workers()
        await service.forget(worker.id)
        job_id = await master.push("echo", 1)
        assert (await master.end(job_id))["result"] == 1
        assert [one.id for one in await service.workers()] != [worker.id]


async def test_a_stopping_worker_finishes_its_jobs(master: Master, service: Service, server_url: str) -> None:
    async with worker_process(service, server_url) as process:
        job_id = await master.push("slow", 0.5, max_retry=0)
        await until_running(service, job_id)
        process.terminate()
        assert (await master.end(job_id))["result"] == "slept"
        assert await process.wait() in (0, -signal.SIGTERM)


async def test_unknown_names_and_reports_for_other_workers(master: Master, service: Service, server_url: str) -> None:
    async with worker_process(service, server_url, max_jobs=1):
        unknown = await master.push("nobody-knows-this")
        known = await master.push("echo", 7)
        assert (await master.end(known))["result"] == 7
        assert await master.status(unknown) == "queued"
        slow = await master.push("slow", 0.5)
        await until_running(service, slow)
        stranger = (await master.ask("POST", "/worker", {"name": "stranger", "max_jobs": 1}))[1]["worker_id"]
        lie = {"job_id": slow, "type": "success", "result": "lie"}
        status, _ = await master.ask("POST", "/done", lie, **{"worker-id": stranger})
        assert status in (404, 409)
        assert (await master.end(slow))["result"] == "slept"
        report = {"job_id": slow, "type": "success", "result": "again"}
        status, _ = await master.ask("POST", "/done", report, **{"worker-id": stranger})
        assert status in (404, 409)


async def test_a_pull_worker_serves_the_same_queue(master: Master, service: Service, server_url: str) -> None:
    async with worker_process(service, server_url, max_jobs=1):
        blocking = await master.push("slow", 1)
        await until_running(service, blocking)
        job_id = await master.push("echo", 5)
        (job,) = (await service.take(Take(queues=("lightjq",), wait_ms=15_000))).jobs
        assert job.key == job_id
        await service.finish([Finish(job.id, job.lease_token)]).one()
        assert (await master.end(job_id))["status"] == "done"
        assert (await master.end(blocking))["result"] == "slept"


@pytest.fixture
async def connect(engine: EngineProcess, store: Store) -> AsyncIterator[Callable[[], Windlass]]:
    """Connect applications to the engine of the server."""
    made: list[Windlass] = []

    def connect() -> Windlass:
        app = Windlass()
        app.connect(Store(parse_url(engine.unix_url), namespace=store.namespace, is_test=True))
        made.append(app)
        return app

    yield connect
    for app in made:
        await app.aclose()


async def test_sdk_and_push_workers_serve_jobs_of_both_sides(
    master: Master, service: Service, server_url: str, json_api: Api, connect: Callable[[], Windlass]
) -> None:
    """Each worker meets names that only the other knows."""
    pulling, producing = connect(), connect()

    @pulling.task(queue="lightjq")
    async def double(value: int) -> int:
        return value * 2

    @producing.task(queue="lightjq")
    async def echo(value: int) -> int:
        raise AssertionError("it is pushed to the other worker")

    async with worker_process(service, server_url), at_work(pulling, queues=["lightjq"]):
        created_here = await master.push("double", 21)
        created_there = await echo.aenqueue(7)
        assert (await master.end(created_here))["result"] == 42
        assert await created_there.aresult(timeout=30) == 7
        for job_id in (created_here, created_there.id):
            assert (await json_api.get(f"/api/v1/jobs/{job_id}")).body["job"]["state"] == "finished"
        assert await master.status(created_there.id) == "done"
