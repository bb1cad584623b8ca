"""The site in a real browser: no errors, no requests to other hosts, search, colour schemes, narrow windows."""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.chromium import PHONE, Visitor, launch_browser, open_visitor

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("website")]
PATHS = ("/", "/choose/", "/tutorial/", "/bedrock/", "/performance/", "/decisions/")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write no line per request into the output of the tests."""


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    handler = functools.partial(SilentHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
async def visitor(url: str) -> AsyncIterator[Visitor]:
    """A visitor whose pages may have no errors."""
    async with launch_browser() as browser, open_visitor(browser, url) as visitor:
        visitor.monitor.tolerate("^console: inline handler")  # of the theme; the site has no policy against them
        yield visitor


async def test_pages_show_no_error_and_ask_no_other_host(visitor: Visitor) -> None:
    for dark, size in ((False, PHONE), (True, (1440, 900))):
        context = await visitor.context(dark=dark, size=size)
        asked: set[str] = set()
        context.on("request", lambda request, asked=asked: asked.add(request.url))
        page = await context.new_page()
        for path in PATHS:
            await page.goto(path)
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, size)
        await page.wait_for_load_state("networkidle")
        assert {address for address in asked if not address.startswith((visitor.base_url, "data:", "blob:"))} == set()


async def test_the_search_finds_the_glossary(visitor: Visitor) -> None:
    page = await visitor.open("/tutorial/", size=(1440, 900))
    await page.get_by_role("button", name="Search").click()
    await page.get_by_role("combobox", name="Search").fill("lease token")
    await page.get_by_role("option").filter(has_text="Lease token").first.click()
    await page.wait_for_url("**/glossary/**")
    await expect(page.locator("#lease-token")).to_be_in_viewport()


async def test_pictures_follow_the_colour_scheme(visitor: Visitor) -> None:
    for dark, shown, hidden in ((False, "light", "dark"), (True, "dark", "light")):
        page = await visitor.open("/dashboard/", dark=dark)
        await expect(page.locator(f"img[src*='queue-{shown}.png']")).to_be_visible()
        await expect(page.locator(f"img[src*='queue-{hidden}.png']")).to_be_hidden()
