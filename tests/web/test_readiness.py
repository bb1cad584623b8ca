"""Tests of /healthz (the process answers) and /readyz (requests should be sent to it). Neither needs a token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.support.embedded_process import new_data_dir, remove_tree
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.background.liveness import LATE_S, Liveness
from windlass.background.runner import LONGEST_PAUSE_S
from windlass.server import Server, build_store, open_server
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


@pytest.fixture
def own_engine() -> Iterator[EngineProcess]:
    """Engine that tests may freeze and kill."""
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as process:
        yield process


@pytest.fixture
async def running(own_engine: EngineProcess) -> AsyncIterator[Server]:
    settings = Settings(port=0, bedrock_port=0, roles="api", token="a-token-that-is-not-shown")  # noqa: S106
    async with open_server(make_store(own_engine), settings) as running:
        yield running


@pytest.fixture
async def client(running: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=running.url, timeout=30) as client:
        yield client


async def until_ready(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(20):
        while (await client.get("/readyz")).status_code != 200:
            pass


async def test_a_ready_server_answers_without_a_token(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    await until_ready(client)
    assert (await client.get("/readyz")).json() == {"status": "ready"}
    assert (await client.get("/api/v1/queues")).status_code == 401


async def test_an_engine_that_does_not_answer(client: httpx.AsyncClient, own_engine: EngineProcess) -> None:
    await until_ready(client)
    own_engine.freeze()
    try:
        answer = await client.get("/readyz")
        assert (await client.get("/healthz")).status_code == 200
    finally:
        own_engine.thaw()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["code"] == "not_ready"
    assert answer.json()["detail"] == "The engine has not answered within 1 s."
    await until_ready(client)


async def test_late_loops_make_a_server_not_ready(client: httpx.AsyncClient, running: Server) -> None:
    await until_ready(client)
    running.liveness.clock = lambda: time.monotonic() + LONGEST_PAUSE_S + LATE_S
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "The background loops have not run recently."
    assert (await client.get("/healthz")).status_code == 200


async def test_idle_loops_are_not_late() -> None:
    now_s = 100.0
    liveness = Liveness()
    liveness.clock = lambda: now_s
    assert liveness.late(2) == [0, 1]
    liveness.beat(0, 60)
    liveness.beat(1, 0.01)
    assert liveness.late(2) == []
    now_s += LATE_S + 1
    assert liveness.late(2) == [1]
    now_s += 60
    assert liveness.late(2) == [0, 1]


async def test_a_server_that_stops_is_not_ready(own_engine: EngineProcess) -> None:
    """Check that a load balancer sees a stopping server as not ready while its requests are answered."""
    store: Store = make_store(own_engine)
    settings = Settings(port=0, bedrock_port=0, roles="api")
    async with open_server(store, settings) as running, httpx.AsyncClient(base_url=running.url) as client:
        await until_ready(client)
        waiting = asyncio.create_task(client.post("/api/v1/take", json={"queues": ["q"], "wait_ms": 30_000}))
        other = await client.get("/healthz")
        assert other.status_code == 200
        running.state.stop()
        assert (await waiting).json()["jobs"] == []
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["detail"]) == (503, "The server is stopping.")


async def test_a_data_directory_that_is_gone() -> None:
    with new_data_dir() as data_dir:
        settings = Settings(port=0, bedrock_port=None, roles="api", data_dir=str(data_dir))
        async with (
            open_server(build_store(settings), settings) as running,
            httpx.AsyncClient(base_url=running.url, timeout=30) as client,
        ):
            await until_ready(client)
            remove_tree(data_dir)
            async with asyncio.timeout(20):
                while (answer := await client.get("/readyz")).status_code == 200:
                    pass
            assert f"data directory {data_dir} was deleted or replaced" in answer.json()["detail"]
            refused = await client.post("/api/v1/jobs", json={"queue": "mail", "name": "send"})
            assert (refused.status_code, refused.json()["code"]) == (503, "data_directory_lost")
            assert "restart all processes" in refused.json()["detail"]
            assert (await client.get("/healthz")).status_code == 200
