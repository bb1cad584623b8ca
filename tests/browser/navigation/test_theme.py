"""The theme switch: chosen once, kept by the browser, applied before the first paint, on every kind of page."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.chromium import PHONE, Visitor
from tests.browser.conftest import Deployment
from tests.browser.page_audit import find_faults

pytestmark = pytest.mark.anyio

# Watches the colour of the page from before its first script until it is loaded.
WATCH = """() => {
    window.grounds = new Set();
    const note = () => {
        if (document.body) grounds.add(getComputedStyle(document.documentElement).backgroundColor);
        if (document.readyState !== "complete") requestAnimationFrame(note);
    };
    requestAnimationFrame(note);
}"""
GROUNDS = {"light": "rgb(245, 246, 248)", "dark": "rgb(13, 18, 24)"}


async def ground(page: Page) -> str:
    found: str = await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return found


async def choose(page: Page, name: str) -> None:
    await page.get_by_role("group", name="Theme").get_by_role("button", name=name).click()


@pytest.mark.parametrize("system", ["light", "dark"])
async def test_the_chosen_theme_stays_and_is_never_preceded_by_the_other(
    reader: Visitor, deployment: Deployment, system: str
) -> None:
    chosen = {"light": "dark", "dark": "light"}[system]
    page = await reader.open("/", dark=system == "dark")
    assert await ground(page) == GROUNDS[system]
    await choose(page, chosen.capitalize())
    assert await ground(page) == GROUNDS[chosen]

    await page.add_init_script(f"({WATCH})()")
    for path in ("/", "/jobs", "/docs", "/flows/{flow}", "/signals/{signal link}"):
        await page.goto(path.format(**deployment.ids))
        await expect(page.locator("html")).to_have_attribute("data-theme", chosen)
        assert await page.evaluate("[...grounds]") in ([], [GROUNDS[chosen]]), path
        assert await ground(page) == GROUNDS[chosen]
        assert await page.evaluate("getComputedStyle(document.documentElement).colorScheme") == chosen
    reader.monitor.tolerate("404")
    await page.goto("/nowhere")
    assert await ground(page) == GROUNDS[chosen]

    await page.goto("/docs")
    await choose(page, "System")
    await expect(page.locator("html")).not_to_have_attribute("data-theme", re.compile("."))
    await page.goto("/")
    assert await ground(page) == GROUNDS[system]


async def test_other_tabs_follow(reader: Visitor) -> None:
    context = await reader.context()
    first, second = await context.new_page(), await context.new_page()
    for page in (first, second):
        await page.goto("/")
    await choose(first, "Dark")
    await expect(second.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(second.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")


async def test_a_chosen_theme_has_enough_contrast_against_that_of_the_system(
    reader: Visitor, deployment: Deployment
) -> None:
    page = await reader.open("/", dark=True, size=PHONE)
    await page.get_by_label("Show navigation").check()
    await choose(page, "Light")
    assert await find_faults(page) == []
    for path in ("/flows/{flow}", "/jobs/{failed}", "/docs"):
        await page.goto(path.format(**deployment.ids))
        assert await find_faults(page) == []


async def test_without_scripts_the_system_decides(reader: Visitor) -> None:
    for dark in (False, True):
        page = await reader.open("/", dark=dark, scripts=False)
        await expect(page.get_by_role("group", name="Theme")).to_have_count(0)
        assert await page.locator("html").get_attribute("data-theme") is None
