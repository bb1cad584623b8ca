"""A page that shows a stream by EventSource, as in examples/fastapi_app.py: it reloads, loses its server, and shows
each value once."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Browser, Page, expect

from tests.browser.chromium import Visitor, open_visitor
from windlass.core.durable import StreamWrite
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).parents[3] / "examples"


class RestartedServer:
    """Server of the example, always at the same port."""

    def __init__(self, api: Any) -> None:
        self._api = api
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    async def start(self) -> None:
        config = uvicorn.Config(self._api, port=self.port, log_level="critical", timeout_graceful_shutdown=0)
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server._serve())
        while not self._server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop the server and cut its open streams."""
        self._server.should_exit = True
        await self._serving


@pytest.fixture
async def server(store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RestartedServer]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "fastapi_app", raising=False)  # it may be connected to another deployment
    from fastapi_app import api, app

    app.connect(store.clone())
    server = RestartedServer(api)
    await server.start()
    yield server
    await server.stop()
    await app.aclose()


@pytest.fixture
async def viewer(browser: Browser, server: RestartedServer) -> AsyncIterator[Visitor]:
    async with open_visitor(browser, f"http://127.0.0.1:{server.port}") as visitor:
        yield visitor


class Report:
    """Job of the example whose pages the test writes."""

    def __init__(self, service: Service, job: Job) -> None:
        self._service = service
        self._job = job
        self._count = 0
        self.path = f"/reports/{format_id(job.id)}/page"

    async def write(self, count: int) -> None:
        first, self._count = self._count, self._count + count
        values = tuple(Blob(b'{"page":%d}' % (number + 1)) for number in range(first, self._count))
        request = StreamWrite(id=self._job.id, token=self._job.lease_token, values=values, sequence=first)
        await self._service.write_stream([request]).one()

    async def finish(self) -> None:
        await self._service.finish([Finish(self._job.id, self._job.lease_token)]).one()


@pytest.fixture
async def report(store: Store, server: RestartedServer) -> AsyncIterator[Report]:
    from fastapi_app import write_report

    await write_report.aenqueue(100)
    service = Service(store)
    (job,) = (await service.take(Take(queues=("reports",)))).jobs
    yield Report(service, job)
    await store.close()


async def expect_pages(page: Page, last: int) -> None:
    """Wait until the page shows all pages of the report, in order, each once."""
    items = page.locator("#pages li")
    await expect(items).to_have_text([f"page {number}" for number in range(1, last + 1)])


async def test_a_reload_in_the_middle_loses_and_repeats_nothing(viewer: Visitor, report: Report) -> None:
    await report.write(3)
    page = await viewer.open(report.path)
    await expect_pages(page, 3)
    await report.write(2)
    await expect_pages(page, 5)
    await page.reload()
    await expect_pages(page, 5)
    await report.write(4)
    await expect_pages(page, 9)
    await report.finish()
    await expect(page.locator("#state")).to_have_text("finished")
    await expect_pages(page, 9)
    await page.reload()  # after the end
    await expect(page.locator("#state")).to_have_text("finished")
    await expect_pages(page, 9)


async def test_a_lost_connection_is_resumed(viewer: Visitor, report: Report, server: RestartedServer) -> None:
    viewer.monitor.tolerate(r"/stream|ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|CONNECTION_RESET)")
    await report.write(3)
    page = await viewer.open(report.path)
    await expect_pages(page, 3)
    await server.stop()
    await report.write(3)  # while the page is cut off
    await server.start()
    await expect_pages(page, 6)
    await report.write(1)
    await expect_pages(page, 7)
    await report.finish()
    await expect(page.locator("#state")).to_have_text("finished")
