"""Pages that are open while things happen: they follow, and whoever looks at them loses nothing."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from browser.browsing import Visitor
from browser.examining import shifts, watch_shifts
from sdk.conftest import at_work
from windlass import Windlass
from windlass.core.job import NewJob
from windlass.server import Serving
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


async def test_the_overview_follows_a_worker_and_nothing_moves(
    visitor: Visitor, running: Serving, store: Store
) -> None:
    app = Windlass()
    app.connect(store.twin())
    go_on = asyncio.Event()

    @app.task(queue="mail")
    async def send(number: int) -> None:
        await go_on.wait()

    await asyncio.gather(*(send.aenqueue(number) for number in range(6)))
    page = await visitor.open("/")
    totals, row = page.get_by_label("All queues"), page.get_by_role("row", name="mail")
    await expect(totals.get_by_role("link", name="Queued 6", exact=True)).to_be_visible()
    pause = row.get_by_role("button", name="Pause mail")
    await pause.focus()
    await watch_shifts(page)
    async with at_work(app, concurrency=2):
        await expect(totals.get_by_role("link", name="Running 2", exact=True)).to_be_visible()
        await expect(totals.get_by_role("link", name="Queued 4", exact=True)).to_be_visible()
        await expect(row.get_by_role("cell").nth(2)).to_have_text("2")
        go_on.set()
        await expect(totals.get_by_role("link", name="Queued 0", exact=True)).to_be_visible()
    await expect(totals.get_by_role("link", name="Running 0", exact=True)).to_be_visible()
    assert await shifts(page) == []
    await expect(pause).to_be_focused()
    await running.service.enqueue([NewJob(queue="images", name="resize")])
    await expect(page.get_by_role("row", name="images")).to_be_visible()
    await expect(pause).to_be_focused()


async def test_nothing_is_asked_while_nothing_happens_or_nobody_looks(visitor: Visitor, running: Serving) -> None:
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/")
    await expect(page.get_by_role("row", name="mail")).to_be_visible()
