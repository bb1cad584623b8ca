"""Every page in a real browser, full of hostile texts: by day and by night, on a desk and on a phone. Nothing is taken
for markup or script, nothing is unnamed or illegible, and no page is wider than its window."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.browser.browsing import DESK, PHONE, Visitor
from tests.browser.conftest import Ground
from tests.browser.examining import faults
from tests.browser.sentences import hostilely
from windlass import dashboard
from windlass.core.text.control_characters import escape_control
from windlass.web.app.router import Router

pytestmark = pytest.mark.anyio

# Of pages about one thing, which; by the path of their route.
ABOUT = {
    "/queues/{queue}": [f"/queues/{quote(hostilely(queue), safe='')}" for queue in ("mail", "feeds", "newsletters")],
    "/jobs/{id}": [f"/jobs/{{{word}}}" for word in ("queued", "held back", "running", "failed", "finished", "parent")],
    "/limits/{name}": [f"/limits/{quote(hostilely('one charge per customer'), safe='')}"],
    "/jobs/{id}/edit": ["/jobs/{queued}/edit"],
    "/actions/{id}": ["/actions/{action}"],
    "/jobs/{id}/payload": [],  # files
    "/jobs/{id}/result": [],
}
ROUTES = [route.path for route in Router(dashboard.ROUTES).routes if route.is_page and route.method == "GET"]

_BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor.match(/[0-9.]+/g).map(Number)"


def paths(ground: Ground) -> list[str]:
    """Of all pages. A page that is new and about one thing wants to be in the table above."""
    plain = [path for path in ROUTES if "{" not in path and path != "/login"]
    return [*plain, *(path.format(**ground.ids) for path in ROUTES if "{" in path for path in ABOUT[path])]


async def unfold(page: Page) -> None:
    """What is folded is looked at, too."""
    await page.evaluate("document.querySelectorAll('main details').forEach((one) => (one.open = true))")


# Colours and sizes have nothing to do with each other: each of them is looked at once.
@pytest.mark.parametrize(("dark", "size"), [(False, DESK), (True, PHONE)], ids=["light-desk", "dark-phone"])
async def test_every_page_is_fit_to_be_looked_at(
    reader: Visitor, ground: Ground, dark: bool, size: tuple[int, int]
) -> None:
    page = await reader.open("/", dark=dark, size=size)
    found = []
    for path in paths(ground):
        await page.goto(path)
        await unfold(page)
        found += [f"{path}: {wrong}" for wrong in await faults(page)]
    assert not found, "\n".join(found)
    parts = await page.evaluate(_BACKGROUND)
    assert (max(parts[:3]) < 128) is dark


async def test_a_page_is_there_without_scripts(reader: Visitor, ground: Ground) -> None:
    page = await reader.open("/", scripts=False)
    for path in paths(ground):
        await page.goto(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.goto("/")
    await page.get_by_role("link", name="Queues", exact=True).click()
    await expect(page).to_have_url(f"{ground.url}/queues")


# Where a text that somebody gave is to be read, whatever it says
SHOWN = {
    "/": ["mail", "payments", "newsletters"],
    "/jobs?state=failed": ["charge_card", "import_feed"],
    "/jobs/{queued}": ["mail", "send_mail", "shop", "urgent", "eu"],
    "/jobs/{running}": ["encode_video", "pass 2 of 3", "frame 911 has no key, going on"],
    "/jobs/{finished}": ["October, all shops", "reports.example/2026-10.pdf", "monthly"],
    "/jobs/{parent}": ["close_month", "render_report", "import_feed"],
    "/workers": ["app-1", "app-2", "app-2.example", "edge-1.example"],
    "/schedules": ["nightly report", "warm the cache", "monthly invoices"],
    "/limits": ["two imports at once", "gentle with SMTP"],
    "/aggregations": ["shop.example", "archive"],
    "/callbacks": ["answered 503 Service Unavailable"],
    "/audit": ["grace", "ada", "deploy"],
    "/actions": ["grace"],
}


async def test_hostile_texts_are_shown_as_they_are(reader: Visitor, ground: Ground) -> None:
    """But for characters that would turn the direction of writing: these are shown as escapes."""
    page = await reader.open("/")
    missing = []
    for path, words in SHOWN.items():
        await page.goto(path.format(**ground.ids))
        shown = plain(await page.locator("main").text_content() or "")
        missing += [f"{path}: {word}" for word in words if plain(escape_control(hostilely(word))) not in shown]
    assert missing == []


def plain(text: str) -> str:
    return " ".join(text.split())
