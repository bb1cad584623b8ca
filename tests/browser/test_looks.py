"""Every page in a real browser with hostile texts, in light and dark mode, at desktop and phone size. Texts are not
interpreted as markup or script, every element has a name and enough contrast, and no page is wider than its window."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from tests.browser.chromium import DESKTOP, PHONE, Visitor
from tests.browser.conftest import Deployment
from tests.browser.page_audit import find_faults
from tests.browser.sample_texts import hostile_text
from windlass import dashboard
from windlass.core.text.control_characters import escape_control
from windlass.web.app.router import Router

pytestmark = pytest.mark.anyio

JOBS = (
    "queued", "held back", "running", "failed", "finished", "parent", "durable", "asleep", "tried again", "step failed",
)  # fmt: skip
# Addresses of the pages about a single item, by the path of their route.
ABOUT = {
    "/queues/{queue}": [f"/queues/{quote(hostile_text(queue), safe='')}" for queue in ("mail", "feeds", "newsletters")],
    "/tasks/{name}": [f"/tasks/{quote(hostile_text('charge_card'), safe='')}"],
    "/jobs/{id}": [f"/jobs/{{{word}}}" for word in JOBS],
    "/flows/{id}": ["/flows/{flow}", "/flows/{flow running}", "/flows/{flow finished}"],
    "/limits/{name}": [f"/limits/{quote(hostile_text('one charge per customer'), safe='')}"],
    "/jobs/{id}/edit": ["/jobs/{queued}/edit"],
    "/schedules/{name}": [
        f"/schedules/{quote(hostile_text(name), safe='')}" for name in ("warm the cache", "monthly invoices")
    ],
    "/schedules/{name}/edit": [f"/schedules/{quote(hostile_text('nightly report'), safe='')}/edit"],
    "/actions/{id}": ["/actions/{action}"],
    "/jobs/{id}/payload": [],  # files
    "/jobs/{id}/result": [],
    "/jobs/{id}/step": [],
    "/jobs/{id}/stream": ["/jobs/{durable}/stream"],
    "/signals/{link}": ["/signals/{signal link}"],
}
ROUTES = [route.path for route in Router(dashboard.ROUTES).routes if route.is_page and route.method == "GET"]

_BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor.match(/[0-9.]+/g).map(Number)"


def paths(deployment: Deployment) -> list[str]:
    """Return the addresses of all pages. A new page about a single item needs an entry in ABOUT."""
    plain = [path for path in ROUTES if "{" not in path and path != "/login"]
    return [*plain, *(path.format(**deployment.ids) for path in ROUTES if "{" in path for path in ABOUT[path])]


async def expand_all(page: Page) -> None:
    await page.evaluate("document.querySelectorAll('main details').forEach((details) => (details.open = true))")


# Colours and sizes are independent, so two combinations cover both.
@pytest.mark.parametrize(("dark", "size"), [(False, DESKTOP), (True, PHONE)], ids=["light-desktop", "dark-phone"])
async def test_every_page_passes_the_audit(
    reader: Visitor, deployment: Deployment, dark: bool, size: tuple[int, int]
) -> None:
    page = await reader.open("/", dark=dark, size=size)
    found = []
    for path in paths(deployment):
        await page.goto(path)
        await expand_all(page)
        found += [f"{path}: {fault}" for fault in await find_faults(page)]
    assert not found, "\n".join(found)
    parts = await page.evaluate(_BACKGROUND)
    assert (max(parts[:3]) < 128) is dark


async def test_every_page_works_without_scripts(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open("/", scripts=False)
    for path in paths(deployment):
        await page.goto(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await page.goto("/")
    await page.get_by_role("link", name="Queues", exact=True).click()
    await expect(page).to_have_url(f"{deployment.url}/queues")


# Texts of users that these pages must show
SHOWN = {
    "/": ["mail", "payments", "newsletters"],
    "/jobs?state=failed": ["charge_card", "import_feed"],
    "/jobs/{queued}": ["mail", "send_mail", "shop", "urgent", "eu"],
    "/jobs/{running}": ["encode_video", "pass 2 of 3", "frame 911 has no key, going on"],
    "/jobs/{finished}": ["October, all shops", "reports.example/2026-10.pdf", "monthly"],
    "/jobs/{parent}": ["close_month", "render_report", "import_feed"],
    "/jobs/{durable}": ["fulfil_order", "reserve_stock", "charge_card", "cooling-off period", "chunk 24"],
    "/jobs/{durable}/stream": ["fulfil_order", "chunk 0"],
    "/jobs/{step failed}": ["the card was declined"],
    "/signals": ["fulfil_order", "send_contract", "fulfilment"],
    "/flows": ["checkout", "refund"],
    "/flows/{flow}": ["checkout", "reserve_stock", "charge_card", "the card has expired"],
    "/jobs/{flow step}": ["ship_order", "checkout", "charge_card"],
    "/workers": ["app-1", "app-2", "app-2.example", "edge-1.example", "server-1.example", "send_digest"],
    "/schedules": ["nightly report", "warm the cache", "monthly invoices"],
    "/alerts": ["jobs pile up"],
    f"/schedules/{quote(hostile_text('warm the cache'), safe='')}": ["warm the cache", "warm_cache", "cache"],
    "/limits": ["two imports at once", "gentle with SMTP"],
    "/aggregations": ["shop.example", "archive"],
    "/callbacks": ["answered 503 Service Unavailable"],
    "/audit": ["grace", "ada", "deploy"],
    "/actions": ["grace"],
}


async def test_shows_hostile_texts_as_text(reader: Visitor, deployment: Deployment) -> None:
    """Characters that change the direction of writing are shown as escapes."""
    page = await reader.open("/")
    missing = []
    for path, words in SHOWN.items():
        await page.goto(path.format(**deployment.ids))
        shown = plain(await page.locator("main").text_content() or "")
        missing += [f"{path}: {word}" for word in words if plain(escape_control(hostile_text(word))) not in shown]
    assert missing == []


def plain(text: str) -> str:
    return " ".join(text.split())
