"""A right of the engine's user that is withdrawn while a server runs: each dialect says so, and goes on afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import msgspec
import pytest

from tests.dialects.bedrock import client as bedrock_talk
from tests.dialects.stdio import processor_client
from tests.support.acl_user import USER, create_restricted_user, send_command, wait_until
from tests.support.engine_process import EngineProcess
from windlass import Windlass
from windlass.core.errors import EngineNotPermitted
from windlass.pauses import Pauses
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.preparation import prepare

pytestmark = pytest.mark.anyio
SENTENCE = f"The engine's user '{USER}' may not call FCALL (needed to call the functions of Windlass)."


@pytest.fixture(scope="module")
def prepared() -> Iterator[EngineProcess]:
    with EngineProcess("valkey") as engine:
        prepare(Store(parse_url(engine.unix_url)).topology, 5.0)
        yield engine


@pytest.fixture
async def running(prepared: EngineProcess) -> AsyncIterator[Server]:
    store = Store(parse_url(create_restricted_user(prepared)))
    async with open_server(store, Settings(port=0, bedrock_port=0, roles="api")) as running:
        yield running


@pytest.fixture
async def client(running: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=running.url, timeout=30) as client:
        yield client


@pytest.fixture
def withdrawn(prepared: EngineProcess, running: Server) -> Iterator[None]:
    send_command(prepared, "ACL", "SETUSER", USER, "-fcall")
    yield
    send_command(prepared, "ACL", "SETUSER", USER, "+fcall")


@pytest.mark.usefixtures("withdrawn")
async def test_native(client: httpx.AsyncClient) -> None:
    found = await client.post("/api/v1/jobs", json={"queue": "q", "name": "n"})
    assert found.status_code == 503
    assert found.json()["code"] == "engine_not_permitted"
    assert found.json()["detail"].startswith(SENTENCE)
    assert "Retry-After" in found.headers


@pytest.mark.usefixtures("withdrawn")
async def test_jobber_and_the_downloader(client: httpx.AsyncClient) -> None:
    for path, body in (
        ("/jobber/queue", {"type": "t"}),
        (
            "/downloader/download",
            {"url": "http://a.example/", "aggr_id": "a", "aggr_limit": 1, "callback_url": "http://b.example/"},
        ),
    ):
        found = await client.post(path, json=body)
        assert (found.status_code, SENTENCE in found.text) == (500, True), found.text


@pytest.mark.usefixtures("withdrawn")
async def test_lightjq(client: httpx.AsyncClient) -> None:
    found = await client.post("/lightjq/job", content=msgspec.msgpack.encode({"name": "n", "argument": {}}))
    assert found.status_code == 503
    said = msgspec.msgpack.decode(found.content)
    assert said["error"] == "engine_not_permitted"
    assert said["message"].startswith(SENTENCE)


@pytest.mark.usefixtures("withdrawn")
async def test_bedrock(running: Server) -> None:
    async with bedrock_talk.connect(running.bedrock) as processor:
        answer = await processor.call("CreateJob", name="n")
    assert answer.line == "502 Engine unavailable"
    assert answer.headers["error"].startswith(SENTENCE)


@pytest.mark.usefixtures("withdrawn")
async def test_the_sdk_through_a_server(running: Server) -> None:
    app = Windlass(running.url)

    @app.task
    def nothing() -> None: ...

    with pytest.raises(EngineNotPermitted, match="may not call FCALL"):
        await nothing.aenqueue()
    await app.aclose()


async def test_all_is_well_when_the_right_is_back(prepared: EngineProcess, client: httpx.AsyncClient) -> None:
    send_command(prepared, "ACL", "SETUSER", USER, "-fcall")
    assert (await client.post("/api/v1/jobs", json={"queue": "q", "name": "n"})).status_code == 503
    send_command(prepared, "ACL", "SETUSER", USER, "+fcall")
    assert (await client.post("/api/v1/jobs", json={"queue": "q", "name": "n"})).status_code == 201


async def test_the_processor_keeps_what_it_has_read(
    prepared: EngineProcess, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.retry_loop.STEADY", Pauses(0.01, 0.01))
    async with (
        Store(parse_url(create_restricted_user(prepared))) as store,
        processor_client.running_session(Service(store)) as processor,
    ):
        send_command(prepared, "ACL", "SETUSER", USER, "-fcall")
        processor.send(processor_client.add(1))
        await wait_until(lambda: SENTENCE in caplog.text, "it says what is missing")
        send_command(prepared, "ACL", "SETUSER", USER, "+fcall")
        listed = await processor.list_jobs_after()
        assert processor_client.job_uuid(1) in str(listed)


async def test_followers_of_events_go_on(
    prepared: EngineProcess, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async with client.stream("GET", "/api/v1/events", headers={"accept": "text/event-stream"}) as stream:
        lines = stream.aiter_lines()
        await anext(lines)  # it follows
        send_command(prepared, "ACL", "SETUSER", USER, "-xread")
        send_command(prepared, "CLIENT", "KILL", "TYPE", "normal")
        await wait_until(lambda: "may not call XREAD" in caplog.text, "the server says what is missing")
        send_command(prepared, "ACL", "SETUSER", USER, "+xread")
        assert (await client.post("/api/v1/jobs", json={"queue": "later", "name": "n"})).status_code == 201
        async with asyncio.timeout(30):
            async for line in lines:
                if "later" in line:
                    break
