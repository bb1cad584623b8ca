"""Streams of jobs as responses of web frameworks, on real servers: they resume, end and refuse alike."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from tests.dialects.event_stream import EventStream, Heard, following
from tests.dialects.sample_jobs import ABSENT, finished, running, take
from tests.support.engine_process import EngineProcess
from windlass.core.durable import StreamWrite
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
SERVER = Path(__file__).parent / "apps" / "stream_server.py"
FRAMEWORKS = ["starlette", "fastapi", "flask", "django_wsgi", "django_asgi"]
READERS = 8


@pytest.fixture(params=FRAMEWORKS)
def web_url(engine: EngineProcess, store: Store, request: pytest.FixtureRequest) -> Iterator[str]:
    """Server of a framework, on the deployment of the test."""
    environment = {**os.environ, "WINDLASS_URL": engine.unix_url, "WINDLASS_NAMESPACE": store.namespace}
    command = [sys.executable, str(SERVER), request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.kill()


@pytest.fixture
async def web(web_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=web_url, timeout=30) as client:
        yield client


@pytest.fixture
async def service(store: Store) -> AsyncIterator[Service]:
    yield Service(store)
    await store.close()


async def write(service: Service, job: Job, *values: bytes, sequence: int = 0) -> None:
    blobs = tuple(Blob(value) for value in values)
    await service.write_stream([StreamWrite(id=job.id, token=job.lease_token, values=blobs, sequence=sequence)]).one()


async def finish(service: Service, job: Job) -> None:
    await service.finish([Finish(job.id, job.lease_token)]).one()


async def test_a_client_that_reconnects_loses_and_repeats_nothing(web: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    await write(service, job, b'"a"', b'{"text":"b"}')
    async with _following(web, job) as stream:
        assert await stream.some(2) == [Heard("message", "a", "1"), Heard("message", {"text": "b"}, "2")]
        await write(service, job, b"3", sequence=2)
        assert await stream.next() == Heard("message", 3, "3")
    await service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one()
    again = await take(service)
    await write(service, again, b"4")
    async with _following(web, job, last_event_id="2") as stream:
        assert await stream.some(3) == [
            Heard("message", 3, "3"),
            Heard("attempt", {"attempt": 2}, "4"),
            Heard("message", 4, "5"),
        ]
        await finish(service, again)
        assert await stream.rest() == [Heard("end", {"state": "finished"}, "5")]
    ended = await web.get(f"/{format_id(job.id)}", headers={"last-event-id": "5"})
    assert (ended.status_code, ended.content) == (204, b"")
    whole = (await web.get(f"/{format_id(job.id)}")).text
    assert whole.count("event: message") == 4


def _following(web: httpx.AsyncClient, job: Job, **headers: str) -> AbstractAsyncContextManager[EventStream]:
    return following(web, f"/{format_id(job.id)}", **headers)


async def test_headers_keep_proxies_from_buffering(web: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    async with _following(web, job) as stream:
        assert stream.response.headers["cache-control"] == "no-store"
        assert stream.response.headers["x-accel-buffering"] == "no"


async def test_streams_that_cannot_be_sent(web: httpx.AsyncClient, service: Service) -> None:
    gone, job = await finished(service), await running(service)
    assert (await web.get(f"/{ABSENT}")).status_code == 404
    assert (await web.get(f"/{format_id(gone)}")).status_code == 410
    answer = await web.get(f"/{format_id(job.id)}", headers={"last-event-id": "x"})
    assert answer.status_code == 400
    assert "Last-Event-ID" in answer.text


async def test_many_readers_at_a_time(web: httpx.AsyncClient, service: Service) -> None:
    job = await running(service)
    await write(service, job, b"0")

    async def read() -> list[Heard]:
        async with _following(web, job) as stream:
            return await stream.rest()

    reading = [asyncio.create_task(read()) for _ in range(READERS)]
    for number in range(1, 10):
        await write(service, job, b"%d" % number, sequence=number)
    await finish(service, job)
    for heard in await asyncio.gather(*reading):
        assert [item.data for item in heard] == [*range(10), {"state": "finished"}]
