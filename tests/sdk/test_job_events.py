"""The events of a job: a snapshot first, in order, and always an end, on an engine and over a server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from tests.support.restartable_server import restartable_server
from windlass import EventLoopBlocked, Windlass
from windlass.core.errors import UnknownJob
from windlass.core.job import Blob, Job
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, Take, Update
from windlass.sdk.job_events import JobEvent
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
LIMIT_S = 60


@pytest.fixture(params=["engine", "server"])
async def client(request: pytest.FixtureRequest, store: Store, served: str) -> AsyncIterator[Windlass]:
    app = Windlass(served) if request.param == "server" else Windlass()
    if request.param == "engine":
        app.connect(store)
    define(app)
    yield app
    await app.aclose()


def define(app: Windlass) -> None:
    @app.task
    async def kept() -> int:
        return 1

    @app.task
    async def unkept() -> None: ...


class Reader:
    """Reads the events of a job in the background."""

    def __init__(self, handle: Any) -> None:
        self.events: list[JobEvent] = []
        self._has_news = asyncio.Event()
        self._reading = asyncio.create_task(self._read(handle))

    async def _read(self, handle: Any) -> None:
        async for event in handle.events():
            self.events.append(event)
            self._has_news.set()

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    async def until(self, kind: str) -> None:
        async with asyncio.timeout(LIMIT_S):
            while kind not in self.kinds:
                self._has_news.clear()
                await self._has_news.wait()

    async def until_end(self) -> list[str]:
        async with asyncio.timeout(LIMIT_S):
            await self._reading
        assert [event.is_last for event in self.events] == [False] * (len(self.events) - 1) + [True]
        assert self.events[0].kind == "snapshot"
        return self.kinds


async def take(service: Service) -> Job:
    (job,) = (await service.take(Take(queues=("default",), wait_ms=20_000))).jobs
    return job


async def test_a_snapshot_then_each_event_then_the_end(client: Windlass, engine_service: Service) -> None:
    handle = await client.tasks["kept"].aenqueue()
    reader = Reader(handle)
    await reader.until("snapshot")
    job = await take(engine_service)
    await engine_service.update([Update(id=job.id, token=job.lease_token, progress=0.5, note="half")])
    await engine_service.log([Log(job.id, job.lease_token, [LogLine(1, "info", "line")])])
    await engine_service.finish([Finish(job.id, job.lease_token, Blob(b"1"))])
    assert await reader.until_end() == ["snapshot", "running", "progress", "logged", "finished"]
    seen = [(event.state, event.attempt, event.progress, event.note) for event in reader.events]
    assert seen[:3] == [("queued", 0, 0.0, ""), ("running", 1, 0.0, ""), ("running", 1, 0.5, "half")]
    assert reader.events[-1].state == "finished"


async def test_without_an_event_loop(client: Windlass, engine_service: Service) -> None:
    handle = await client.tasks["kept"].aenqueue()
    has_begun, loop = asyncio.Event(), asyncio.get_running_loop()

    def read() -> list[str]:
        kinds = []
        for event in handle.events():
            loop.call_soon_threadsafe(has_begun.set)
            kinds.append(event.kind)
        return kinds

    reading = asyncio.create_task(asyncio.to_thread(read))
    await has_begun.wait()
    job = await take(engine_service)
    await engine_service.fail([Fail(id=job.id, token=job.lease_token, then="final")])
    assert await reading == ["snapshot", "running", "failed"]
    assert await asyncio.to_thread(read) == ["snapshot", "failed"]


async def test_a_loop_that_blocks_the_event_loop_is_refused(client: Windlass) -> None:
    handle = await client.tasks["kept"].aenqueue()
    with pytest.raises(EventLoopBlocked, match=r"Use `async for event in job\.events\(\)`"):
        list(handle.events())


async def test_a_job_that_has_ended_before(client: Windlass, engine_service: Service) -> None:
    finished, cancelled = [await client.tasks["kept"].aenqueue() for _ in range(2)]
    await cancelled.acancel()
    job = await take(engine_service)
    await engine_service.finish([Finish(job.id, job.lease_token, Blob(b"1"))])
    for handle, state in ((finished, "finished"), (cancelled, "cancelled")):
        reader = Reader(handle)
        assert await reader.until_end() == ["snapshot", state]
        assert {event.state for event in reader.events} == {state}
        assert reader.events[0].at == reader.events[1].at


async def test_a_job_that_is_no_longer_stored(client: Windlass, engine_service: Service) -> None:
    handle = await client.tasks["unkept"].aenqueue()
    job = await take(engine_service)
    await engine_service.finish([Finish(job.id, job.lease_token)])
    reader = Reader(handle)
    assert await reader.until_end() == ["snapshot", "ended"]
    assert {event.state for event in reader.events} == {"ended"}


async def test_a_job_that_never_was(client: Windlass) -> None:
    handle = client.job("01890a5d-ac96-7000-8000-b5c1d0b7a3f2")
    with pytest.raises(UnknownJob):
        _ = [event async for event in handle.events()]


async def test_a_job_that_is_deleted(client: Windlass, engine_service: Service) -> None:
    handle = await client.tasks["kept"].aenqueue()
    reader = Reader(handle)
    await reader.until("snapshot")
    await engine_service.delete([handle.id_bytes])
    assert await reader.until_end() == ["snapshot", "deleted"]
    assert reader.events[-1].state == "ended"


@pytest.mark.parametrize("end", ["finished", "deleted", "unkept"])
async def test_events_that_were_trimmed_are_read_from_the_job(
    client: Windlass, engine_service: Service, store: Store, end: str
) -> None:
    """The end is lost with the stream, as after a failover: it is read again, not waited for."""
    handle = await client.tasks["unkept" if end == "unkept" else "kept"].aenqueue()
    reader = Reader(handle)
    await reader.until("snapshot")
    job = await take(engine_service)
    await reader.until("running")
    root = store.root(0)
    # In one transaction of the engine: the job ends without a follower, and the stream is gone.
    send_command(store, "DEL", f"{root}:followed")
    if end == "deleted":
        await engine_service.delete([handle.id_bytes], even_leased=True)
    else:
        await engine_service.finish([Finish(job.id, job.lease_token, None if end == "unkept" else Blob(b"1"))])
    send_command(store, "DEL", f"{root}:events")
    store.clock_offset_ms += 1_000
    await engine_service.events()  # another follower begins another epoch
    await engine_service.enqueue([_other()])  # its event shows the gap
    kinds = await reader.until_end()
    last = "finished" if end == "finished" else "ended"
    assert kinds == ["snapshot", "running", "missed", "snapshot", last]
    assert reader.events[-1].state == last


def _other() -> Any:
    from windlass.core.job import NewJob

    return NewJob(queue="other", name="other")


# Engines and servers that are killed


@pytest.fixture
def mortal() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", config=("--appendonly", "yes", "--appendfsync", "always")) as process:
        yield process


@pytest.mark.parametrize("over_http", [False, True], ids=["engine", "server"])
@pytest.mark.parametrize("loses_stream", [False, True])
async def test_the_engine_is_killed(mortal: EngineProcess, over_http: bool, loses_stream: bool) -> None:
    """The job ends while the follower cannot hear it."""
    store = Store(parse_url(mortal.unix_url), is_test=True)
    service = Service(store)
    with contextlib.ExitStack() as stack:
        stack.callback(store.close_sync)
        await asyncio.to_thread(store.open_sync)
        url = stack.enter_context(restartable_server(mortal.unix_url, store.namespace)).url if over_http else ""
        app = Windlass(url) if over_http else Windlass()
        if not over_http:
            app.connect(store)
        define(app)
        handle = await app.tasks["kept"].aenqueue()
        reader = Reader(handle)
        await reader.until("snapshot")
        job = await take(service)
        await reader.until("running")
        for keys in (["followed", "events"] if loses_stream else [],):
            for key in keys:
                send_command(store, "DEL", f"{store.root(0)}:{key}")
        await asyncio.to_thread(mortal.crash_and_start, False)
        await service.finish([Finish(job.id, job.lease_token, Blob(b"1"))])
        assert (await reader.until_end())[-1] == "finished"
        await app.aclose()
        await store.close()


async def test_the_server_is_killed_and_the_job_is_gone(
    engine: EngineProcess, store: Store, engine_service: Service
) -> None:
    with restartable_server(engine.unix_url, store.namespace) as server:
        app = Windlass(server.url)
        define(app)
        handle = await app.tasks["unkept"].aenqueue()
        reader = Reader(handle)
        await reader.until("snapshot")
        await asyncio.to_thread(server.kill)
        job = await take(engine_service)
        await engine_service.finish([Finish(job.id, job.lease_token)])
        send_command(store, "DEL", f"{store.root(0)}:followed", f"{store.root(0)}:events")
        await asyncio.to_thread(server.start)
        assert (await reader.until_end())[-2:] == ["snapshot", "ended"]
        await app.aclose()
