"""job.stream(): entries during the run and after its end, from any position, on the engine and over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from windlass import Context, JobHandle, ResultGone, Windlass
from windlass.core.durable import StreamPage
from windlass.core.errors import UnknownJob
from windlass.service import Service
from windlass.store.operation import Operation
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
NO_ID = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"
READERS = 20


class Talk(NamedTuple):
    """A task that writes a value when the test says so."""

    app: Windlass
    task: Any
    values: asyncio.Queue[Any]
    written: asyncio.Queue[Any]

    async def say(self, *values: Any) -> None:
        for value in values:
            self.values.put_nowait(value)
            assert await asyncio.wait_for(self.written.get(), 20) == value


def define(app: Windlass) -> Talk:
    values: asyncio.Queue[Any] = asyncio.Queue()
    written: asyncio.Queue[Any] = asyncio.Queue()

    @app.task(retry=2)
    async def talk(ctx: Context) -> None:
        while (value := await values.get()) != "end":
            if value == "fail":
                written.put_nowait(value)
                raise ValueError
            await ctx.stream.write(value)
            written.put_nowait(value)

    return Talk(app, talk, values, written)


@pytest.fixture(params=["engine", "server"])
async def talk(app: Windlass, working: Callable[..., Any], request: pytest.FixtureRequest) -> AsyncIterator[Talk]:
    """The producer, its readers and the worker use the engine, or a server."""
    used = app if request.param == "engine" else Windlass(request.getfixturevalue("served"))
    defined = define(used)
    async with working(used):
        yield defined
    used.close()


async def read(handle: JobHandle[Any], start: int = 0) -> list[Any]:
    async with asyncio.timeout(20):
        return ["|" if entry.is_new_attempt else entry.value async for entry in handle.stream(start)]


def read_sync(handle: JobHandle[Any], start: int = 0) -> list[Any]:
    return ["|" if entry.is_new_attempt else entry.value for entry in handle.stream(start)]


async def test_a_reader_follows_the_run(talk: Talk) -> None:
    handle = await talk.task.aenqueue()
    await talk.say("a", "b")
    stream = aiter(handle.stream())
    for value in ("a", "b"):
        assert (await anext(stream)).value == value
    for value in ("c", b"\xff", {"d": 1}):
        coming = asyncio.ensure_future(anext(stream))
        await talk.say(value)
        entry = await asyncio.wait_for(coming, 20)
        assert entry.value == value
    talk.values.put_nowait("end")
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(stream), 20)
    assert await read(handle) == ["a", "b", "c", b"\xff", {"d": 1}]
    assert await read(handle, start=3) == [b"\xff", {"d": 1}]
    assert await asyncio.to_thread(read_sync, handle, 3) == [b"\xff", {"d": 1}]


async def test_a_new_attempt_is_marked(talk: Talk) -> None:
    handle = await talk.task.using(retry=2).aenqueue()
    await talk.say("a", "fail")
    reading = asyncio.create_task(read(handle))
    sync_reading = asyncio.create_task(asyncio.to_thread(read_sync, handle))
    await talk.say("a", "b")  # the second attempt repeats the first value, which is not written again
    talk.values.put_nowait("end")
    assert await reading == ["a", "|", "b"]
    assert await sync_reading == ["a", "|", "b"]


async def test_readers_in_threads_share_one_thread(talk: Talk) -> None:
    handle = await talk.task.aenqueue()
    with ThreadPoolExecutor(READERS) as pool:
        loop = asyncio.get_running_loop()
        reading = [loop.run_in_executor(pool, read_sync, handle) for _ in range(READERS)]
        await talk.say(*range(20))
        talk.values.put_nowait("end")
        assert await asyncio.gather(*reading) == [list(range(20))] * READERS
    threads = [thread for thread in threading.enumerate() if thread.name == "windlass-streams"]
    assert len(threads) == 1


async def test_a_reader_that_breaks_leaves_nothing_behind(talk: Talk) -> None:
    handle = await talk.task.aenqueue()
    await talk.say("a")

    def read_one() -> Any:
        for entry in handle.stream():
            return entry.value
        return None

    assert await asyncio.to_thread(read_one) == "a"
    assert await asyncio.to_thread(read_one) == "a"
    talk.values.put_nowait("end")
    await handle


async def test_missing_streams(talk: Talk) -> None:
    with pytest.raises(UnknownJob):
        await read(talk.app.job(NO_ID))
    with pytest.raises(UnknownJob):
        await asyncio.to_thread(read_sync, talk.app.job(NO_ID))
    talk.values.put_nowait("end")
    silent = await talk.task.aenqueue()  # keeps no result, and has no stream
    assert await silent is None
    with pytest.raises(ResultGone, match="its stream is no longer stored"):
        await read(silent)


class CountedReads(Service):
    reads = 0

    def read_stream(self, job_id: bytes, *, after: int = 0, most: int = 500) -> Operation[StreamPage]:
        CountedReads.reads += 1
        return super().read_stream(job_id, after=after, most=most)


async def test_many_readers_cost_one_read(
    app: Windlass, working: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    monkeypatch.setattr("windlass.sdk.connection.make_service", CountedReads)
    talk = define(app)
    async with working(app):
        handle = await talk.task.aenqueue()
        await talk.say("first")
        streams = [aiter(handle.stream()) for _ in range(READERS)]
        assert [(await anext(stream)).value for stream in streams] == ["first"] * READERS
        before = CountedReads.reads
        for number in range(5):
            coming = [asyncio.ensure_future(anext(stream)) for stream in streams]
            await talk.say(number)
            assert [(await entry).value for entry in coming] == [number] * READERS
        assert CountedReads.reads - before <= 5
        talk.values.put_nowait("end")
        await handle
