"""Keyboard shortcuts."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.chromium import Visitor
from tests.browser.conftest import Deployment

pytestmark = pytest.mark.anyio


async def test_keys(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open("/")
    press = page.keyboard.press

    # The first focusable element skips the navigation
    await press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    await press("Enter")
    await expect(page.locator("main")).to_be_focused()

    # The list of shortcuts opens and closes
    await press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    await press("j")  # shortcuts do not work while a dialog is open
    await press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)

    # Navigation between pages
    for letter, address in (("q", "/queues"), ("j", "/jobs"), ("w", "/workers"), ("s", "/schedules"), ("o", "/")):
        await press("g")
        await press(letter)
        await expect(page).to_have_url(f"{deployment.url}{address}")
        await page.wait_for_load_state()  # shortcuts work after that

    # Rows: down, up, select, open
    await page.goto("/jobs?state=queued")
    links, boxes = page.locator("tbody tr th a:first-child"), page.locator("input[data-row-box]")
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        await press(key)
        await expect(links.nth(at)).to_be_focused()
    await press("x")
    await expect(boxes.nth(1)).to_be_checked()
    await expect(page.locator("[data-selected-count]").first).to_have_text("1")
    await press("Enter")
    await expect(page).to_have_url(re.compile("/jobs/[0-9a-f-]{36}$"))
    await page.wait_for_load_state()

    # In the search field, letters are not shortcuts
    await press("/")
    await expect(page.locator("[data-search]")).to_be_focused()
    await page.keyboard.type("g j?x")
    await expect(page.locator("[data-search]")).to_have_value("g j?x")
    await press("Escape")
    await expect(page.locator("[data-search]")).not_to_be_focused()
