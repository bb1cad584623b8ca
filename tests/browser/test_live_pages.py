"""Live pages: they follow changes, and keep the state of the user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Route, expect

from tests.browser.chromium import Visitor, open_visitor
from tests.browser.conftest import SETTINGS
from tests.browser.page_audit import read_shifts, watch_shifts
from tests.sdk.conftest import at_work
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass import Context, Windlass
from windlass.core.job import NewJob
from windlass.core.operations import Fail, Take
from windlass.sdk.failures import encode_error
from windlass.server import Server, open_server
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


@pytest.fixture
async def app(running: Server, store: Store) -> AsyncIterator[Windlass]:
    app = Windlass()
    app.connect(store.clone())
    yield app
    await app.aclose()


async def test_the_overview_follows_a_worker_without_layout_shifts(
    visitor: Visitor, running: Server, app: Windlass
) -> None:
    go_on = asyncio.Event()

    @app.task(queue="mail")
    async def send(number: int) -> None:
        await go_on.wait()

    await asyncio.gather(*(send.aenqueue(number) for number in range(6)))
    page = await visitor.open("/")
    totals, row = page.get_by_label("All queues"), page.get_by_role("row", name="mail")
    await expect(totals.get_by_role("link", name="Queued 6 now", exact=True)).to_be_visible()
    pause = row.get_by_role("button", name="Pause mail")
    await pause.focus()
    await watch_shifts(page)
    async with at_work(app, concurrency=2):
        await expect(totals.get_by_role("link", name="Running 2 now", exact=True)).to_be_visible()
        await expect(totals.get_by_role("link", name="Queued 4 now", exact=True)).to_be_visible()
        go_on.set()
        await expect(totals.get_by_role("link", name="Queued 0 now", exact=True)).to_be_visible()
    await expect(totals.get_by_role("link", name="Running 0 now", exact=True)).to_be_visible()
    assert await read_shifts(page) == []
    await expect(pause).to_be_focused()
    await running.service.enqueue([NewJob(queue="images", name="resize")])
    await expect(page.get_by_role("row", name="images")).to_be_visible()
    await expect(pause).to_be_focused()


async def test_rows_of_a_list_stay_in_place(visitor: Visitor, running: Server) -> None:
    """Rows of jobs that left the list fade; new rows are shown on request."""
    service = running.service
    await service.enqueue([NewJob(queue="mail", name=f"send-{number}") for number in range(6)])
    page = await visitor.open("/jobs?state=queued&order=newest")
    rows, gone = page.locator("tbody tr"), page.locator("tbody tr.is-gone")
    await expect(rows).to_have_count(6)
    await rows.nth(4).locator("input").check()
    places = await rows.evaluate_all("(all) => all.map((row) => row.getBoundingClientRect().top)")
    await watch_shifts(page)
    await service.take(Take(queues=("mail",), most=2))
    await expect(gone).to_have_count(2)
    await service.enqueue([NewJob(queue="mail", name="late") for _ in range(3)])
    new_rows = page.get_by_role("link", name="3 new")
    await expect(new_rows).to_be_visible()
    assert await read_shifts(page) == []
    assert await rows.evaluate_all("(all) => all.map((row) => row.getBoundingClientRect().top)") == places
    await expect(rows.nth(4).locator("input")).to_be_checked()
    await new_rows.click()
    await expect(gone).to_have_count(0)
    await expect(rows).to_have_count(7)


async def test_the_job_page_follows_a_job_to_its_result(visitor: Visitor, app: Windlass) -> None:
    """Expanded values, selected text and the scroll position are kept."""
    steps: asyncio.Queue[float] = asyncio.Queue()

    @app.task(queue="reports", keep_result="1h")
    async def render(ctx: Context, title: dict[str, list[int]]) -> dict[str, int]:
        while (share := await steps.get()) < 1:
            ctx.progress(share, note=f"page {share * 100:.0f}")
            ctx.log.info("at %s", share)
        return {"pages": 2**63 + 1}

    handle = await render.aenqueue({"rows": list(range(40))})
    page = await visitor.open(f"/jobs/{handle.id}", size=(1280, 400))
    state = page.locator("#state")
    await expect(state).to_have_text("queued")
    folded = page.locator("#payload details details").first
    await folded.evaluate("(details) => (details.open = !details.open)")
    was_open = await folded.evaluate("(details) => details.open")
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('#about'))")
    async with at_work(app):
        await expect(state).to_have_text("running")
        await page.evaluate("scrollTo(0, 60)")
        for share in (0.25, 0.5):
            steps.put_nowait(share)
            await expect(page.get_by_role("progressbar")).to_have_js_property("value", share * 100)
            await expect(page.locator("#why")).to_contain_text(f"page {share * 100:.0f}")
        await expect(page.locator("#logs .log-text")).to_have_text(["at 0.25", "at 0.5"])
        steps.put_nowait(1)
        await expect(state).to_have_text("finished")
    await expect(page.locator("#result")).to_contain_text(str(2**63 + 1))
    assert await folded.evaluate("(details) => details.open") == was_open
    assert await page.evaluate("scrollY") == 60
    assert "Queue" in await page.evaluate("String(getSelection())")


async def test_shows_changes_from_before_the_stream_is_open(visitor: Visitor, running: Server) -> None:
    """On a slow network, time passes between the rendering of a page and its stream of events."""
    service = running.service
    await service.enqueue([NewJob(queue="mail", name="send") for _ in range(2)])
    context = await visitor.context()
    is_taken = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_taken.wait()
        await route.continue_()

    await context.route("**/live.js", hold)
    page = await context.new_page()
    await page.goto("/jobs?state=queued", wait_until="commit")
    await expect(page.locator("tbody tr")).to_have_count(2)
    await service.take(Take(queues=("mail",)))
    is_taken.set()
    await expect(page.locator("tbody tr.is-gone")).to_have_count(1)


async def test_the_failures_page_refreshes_cached_data(visitor: Visitor, running: Server) -> None:
    """The data is cached for some seconds, and may be outdated when the page opens."""
    service = running.service
    await service.enqueue([NewJob(queue="mail", name="send")])
    (job,) = (await service.take(Take(queues=("mail",)))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token, error=encode_error("OSError", "no answer"))])
    await expect((await visitor.open("/failures")).get_by_role("row", name="no answer")).to_be_visible()
    await service.retry([job.id])
    await expect((await visitor.open("/failures")).get_by_text("No failed jobs")).to_be_visible()


async def test_shows_the_loss_and_return_of_the_engine(browser: Browser) -> None:
    kept = ("--appendonly", "yes", "--appendfsync", "always")
    with EngineProcess("valkey", config=kept) as engine:
        store = make_store(engine)
        async with open_server(store, SETTINGS) as running, open_visitor(browser, running.url) as visitor:
            visitor.monitor.tolerate("503")
            await running.service.enqueue([NewJob(queue="mail", name="send")])
            page = await visitor.open("/")
            await expect(page.get_by_role("row", name="mail")).to_be_visible()
            lost = page.get_by_role("status").filter(has_text="unavailable")
            await expect(lost).to_have_count(0)
            engine.kill()
            await expect(lost).to_be_visible()
            await expect(page.get_by_role("row", name="mail")).to_be_visible()  # the page keeps its content
            other = await visitor.open("/queues")
            await expect(other.get_by_role("heading", level=1)).to_have_text("Engine unavailable")
            engine.start()
            await expect(lost).to_have_count(0)
            await expect(other.get_by_role("heading", level=1)).to_have_text("Queues")
            await Service(store).enqueue([NewJob(queue="images", name="resize")])
            for shown in (page, other):
                await expect(shown.get_by_role("row", name="images")).to_be_visible()


async def test_the_log_of_a_running_job_follows_its_end(visitor: Visitor, running: Server, app: Windlass) -> None:
    asked: asyncio.Queue[int] = asyncio.Queue()

    @app.task(queue="mail", keep_result="1h")
    async def send(ctx: Context) -> int:
        written = 0
        while more := await asked.get():
            for _ in range(more):
                written += 1
                ctx.log.info("line %d", written)
        return written

    async with at_work(app, concurrency=1):
        handle = await send.aenqueue()
        page = await visitor.open(f"/jobs/{handle.id}")
        lines, log = page.locator("#log-lines li"), page.locator("#log-lines")
        newest = page.get_by_role("button", name="Newest lines")
        await expect(log).to_be_hidden()
        asked.put_nowait(80)  # more than the view holds
        await expect(lines).to_have_count(80)
        await log.scroll_into_view_if_needed()
        await expect(lines.last).to_be_in_viewport()
        await expect(newest).to_be_hidden()
        asked.put_nowait(3)
        await expect(lines).to_have_count(83)
        await expect(lines.last).to_be_in_viewport()
        # A reader who has scrolled up stays there.
        await log.focus()
        await page.keyboard.press("Home")
        await expect(lines.first).to_be_in_viewport()
        await expect(newest).to_be_visible()
        asked.put_nowait(3)
        await expect(lines).to_have_count(86)
        await expect(lines.first).to_be_in_viewport()
        # The keyboard leads back to the end, and the view sticks to it again, also when old lines are dropped.
        await newest.focus()
        await page.keyboard.press("Enter")
        await expect(lines.last).to_be_in_viewport()
        await expect(log).to_be_focused()
        await expect(newest).to_be_hidden()
        asked.put_nowait(150)
        await expect(page.get_by_text("line 236", exact=True)).to_be_in_viewport()
        await expect(lines).to_have_count(200)
        asked.put_nowait(0)
        await expect(page.locator("#state")).to_have_text("finished")
        await log.scroll_into_view_if_needed()  # the result stands above it now
        await expect(lines.last).to_be_in_viewport()


async def test_the_log_of_an_ended_job_begins_at_its_start(visitor: Visitor, running: Server, app: Windlass) -> None:
    @app.task(queue="mail", keep_result="1h")
    async def send(ctx: Context) -> int:
        for number in range(80):
            ctx.log.info("line %d", number)
        return 1

    async with at_work(app):
        handle = await send.aenqueue()
        await handle
    page = await visitor.open(f"/jobs/{handle.id}")
    await page.locator("#log-lines").scroll_into_view_if_needed()
    await expect(page.get_by_text("line 0", exact=True)).to_be_in_viewport()
    await expect(page.get_by_role("button", name="Newest lines")).to_be_visible()
