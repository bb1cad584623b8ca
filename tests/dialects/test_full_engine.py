"""An engine whose disk or memory is full: every client says which of them it is, and what to do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import NamedTuple

import httpx
import msgspec
import pytest
from click.testing import CliRunner

from faults.engines import StandaloneEngine
from tests.dialects.bedrock.client import connect
from tests.dialects.stdio.processor_client import ProcessorProcess, add, messages_of, until
from windlass import Windlass, Worker
from windlass.cli.main import main
from windlass.core.errors import DiskFull, EngineFull, WindlassError
from windlass.server import Server, open_server
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
ORDER = {"url": "http://127.0.0.1:1/a", "aggr_id": "a", "aggr_limit": 1, "callback_url": "http://127.0.0.1:1/b"}


class Fullness(NamedTuple):
    name: str
    words: str  # in every message
    error: type[WindlassError]
    begin: Callable[[StandaloneEngine], None]
    end: Callable[[StandaloneEngine], None]


def fill_disk(engine: StandaloneEngine) -> None:
    """No file of the engine may grow; it learns that with its next write, and refuses the following ones."""
    size = max(path.stat().st_size for path in engine.node.directory.glob("appendonlydir/*"))
    engine.limit_file_size(size)
    until(lambda: _is_refused(engine))


def _is_refused(engine: StandaloneEngine) -> bool:
    try:
        engine.send_command("SET", "filler", "x" * 100)
    except WindlassError as error:
        return "MISCONF" in str(error)
    return False


def free_disk(engine: StandaloneEngine) -> None:
    engine.limit_file_size(None)
    until(lambda: not _is_refused(engine))


DISK = Fullness("disk", "disk of the engine", DiskFull, fill_disk, free_disk)
MEMORY = Fullness(
    "memory",
    "engine's memory is full",
    EngineFull,
    lambda engine: engine.send_command("CONFIG", "SET", "maxmemory", 1),
    lambda engine: engine.send_command("CONFIG", "SET", "maxmemory", 0),
)


@pytest.fixture(scope="module")
def alone() -> Iterator[StandaloneEngine]:
    engine = StandaloneEngine("everysec")
    engine.start()
    yield engine
    engine.close()


@pytest.fixture
def store(alone: StandaloneEngine) -> Iterator[Store]:
    store = Store(parse_url(alone.url), patience_s=10)
    store.open_sync()
    yield store
    store.close_sync()


@pytest.fixture
async def running(alone: StandaloneEngine) -> AsyncIterator[Server]:
    async with open_server(Store(parse_url(alone.url)), Settings(port=0, bedrock_port=0, roles="api")) as running:
        # The first call brings the functions; it must find room.
        async with httpx.AsyncClient(base_url=running.url) as client:
            assert (await client.post("/api/v1/jobs", json={"queue": "before", "name": "send"})).status_code == 201
        yield running


@pytest.fixture(params=[DISK, MEMORY], ids=lambda fullness: fullness.name)
def full(request: pytest.FixtureRequest, running: Server, store: Store, alone: StandaloneEngine) -> Iterator[Fullness]:
    fullness: Fullness = request.param
    fullness.begin(alone)
    yield fullness
    fullness.end(alone)


async def by_native_api(running: Server) -> tuple[int, str]:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.post("/api/v1/jobs", json={"queue": "mail", "name": "send"})
        assert answer.json()["code"] in ("disk_full", "engine_full")
        return answer.status_code, answer.json()["detail"]


async def by_jobber(running: Server) -> tuple[int, str]:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.post("/jobber/queue", json={"type": "mail"})
        return answer.status_code, answer.text


async def by_lightjq(running: Server) -> tuple[int, str]:
    async with httpx.AsyncClient(base_url=running.url) as client:
        body = msgspec.msgpack.encode({"name": "n", "argument": {}})
        answer = await client.post("/lightjq/job", content=body)
        return answer.status_code, msgspec.msgpack.decode(answer.content)["message"]


async def by_downloader(running: Server) -> tuple[int, str]:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.post("/downloader/download", json=ORDER)
        return answer.status_code, answer.text


@pytest.mark.parametrize(
    ("ask", "statuses"),
    [
        (by_native_api, {"disk": 503, "memory": 503}),
        (by_jobber, {"disk": 500, "memory": 503}),
        (by_lightjq, {"disk": 503, "memory": 503}),
        (by_downloader, {"disk": 500, "memory": 500}),
    ],
)
async def test_by_http(
    running: Server,
    full: Fullness,
    ask: Callable[[Server], Awaitable[tuple[int, str]]],
    statuses: dict[str, int],
) -> None:
    status, message = await ask(running)
    assert status == statuses[full.name], message
    assert full.words in message


async def test_by_bedrock_in_the_status_line(running: Server, full: Fullness) -> None:
    """Its PHP client shows nothing else."""
    async with connect(running.bedrock) as client:
        answer = await client.call("CreateJob", name="foo", data="{}")
    assert answer.status == 502
    assert {"disk": "its disk is full", "memory": "the engine's memory is full"}[full.name] in answer.line
    assert full.words in answer.headers["error"]


async def test_by_the_sdk_itself_and_through_a_server(running: Server, alone: StandaloneEngine, full: Fullness) -> None:
    for url in (alone.url, running.url):
        app = Windlass(url)

        @app.task
        async def send() -> None: ...

        with pytest.raises(full.error, match=full.words):
            await send.aenqueue()
        with pytest.raises(full.error, match=full.words):
            await asyncio.to_thread(send.enqueue)
        await app.aclose()


async def test_by_the_command_line(running: Server, alone: StandaloneEngine, full: Fullness) -> None:
    def run() -> tuple[int, str]:
        with CliRunner().isolation(env={"WINDLASS_URL": alone.url}) as (_, err, _both):
            try:
                main(["enqueue", "mail", "send"])
            except SystemExit as end:
                return int(end.code or 0), err.getvalue().decode()
        raise AssertionError("main always ends by an exit code")

    code, message = await asyncio.to_thread(run)
    assert code == 75
    assert full.words in message


@pytest.mark.parametrize("fullness", [DISK, MEMORY], ids=lambda fullness: fullness.name)
def test_by_the_processor(alone: StandaloneEngine, store: Store, fullness: Fullness) -> None:
    with ProcessorProcess(store) as processor:
        fullness.begin(alone)
        processor.send(add())
        until(lambda: any(fullness.words in said for said in messages_of(processor.logs, "ERROR")))
        fullness.end(alone)


async def test_a_worker_says_so_and_goes_on_when_there_is_room(
    alone: StandaloneEngine, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Taking is a write too; a full memory does not hinder it."""
    app = Windlass(alone.url, namespace="worker")
    is_filled, done = asyncio.Event(), asyncio.Event()

    @app.task
    async def wait_for_disk() -> None:
        await asyncio.to_thread(fill_disk, alone)
        is_filled.set()

    @app.task
    async def finish() -> None:
        done.set()

    await wait_for_disk.aenqueue()
    await finish.aenqueue()
    worker = Worker(app, concurrency=1)
    running = asyncio.create_task(worker.run())
    with caplog.at_level(logging.WARNING):
        try:
            async with asyncio.timeout(120):
                await is_filled.wait()  # room that comes before would let `fill_disk` wait for a refusal in vain
                await asyncio.to_thread(until, lambda: DISK.words in caplog.text)
                await asyncio.to_thread(free_disk, alone)
                await done.wait()
        finally:
            await asyncio.to_thread(free_disk, alone)
            worker.stop()
            await running
    await app.aclose()
