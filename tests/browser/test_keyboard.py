"""Pages are used without a mouse."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.browsing import Visitor
from tests.browser.conftest import Ground

pytestmark = pytest.mark.anyio


async def test_keys(reader: Visitor, ground: Ground) -> None:
    page = await reader.open("/")
    press = page.keyboard.press

    # The first stop leads past the navigation
    await press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await press("Enter")
    await expect(page.locator("main")).to_be_focused()

    # All keys are told, and the list of them goes away again
    await press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    await press("j")  # a dialog keeps them to itself
    await press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)

    # From page to page
    for letter, address in (("q", "/queues"), ("j", "/jobs"), ("w", "/workers"), ("s", "/schedules"), ("o", "/")):
        await press("g")
        await press(letter)
        await expect(page).to_have_url(f"{ground.url}{address}")
        await page.wait_for_load_state()  # until then nobody listens to keys

    # Rows: down, up, choose, open
    await page.goto("/jobs?state=queued")
    links, boxes = page.locator("tbody tr th a:first-child"), page.locator("input[data-row-box]")
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        await press(key)
        await expect(links.nth(at)).to_be_focused()
    await press("x")
    await expect(boxes.nth(1)).to_be_checked()
    await expect(page.locator("[data-chosen]").first).to_have_text("1")
    await press("Enter")
    await expect(page).to_have_url(re.compile("/jobs/[0-9a-f-]{36}$"))
    await page.wait_for_load_state()

    # The search; letters that are typed into it are letters
    await press("/")
    await expect(page.locator("[data-search]")).to_be_focused()
    await page.keyboard.type("g j?x")
    await expect(page.locator("[data-search]")).to_have_value("g j?x")
    await press("Escape")
    await expect(page.locator("[data-search]")).not_to_be_focused()
