"""The command palette by keyboard and by touch, and the life of a saved filter."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.chromium import PHONE, Visitor
from tests.browser.conftest import Deployment
from tests.browser.page_audit import find_faults
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.service import Service

pytestmark = pytest.mark.anyio


def palette(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Command palette")


def options(page: Page) -> Locator:
    return palette(page).get_by_role("option")


async def open_palette(page: Page, text: str = "") -> None:
    await page.wait_for_load_state()
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox", name="Find a page")).to_be_focused()
    await page.keyboard.type(text)


async def test_it_is_used_by_keyboard_alone(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open("/jobs")
    await page.get_by_role("link", name="Queues", exact=True).focus()
    await open_palette(page)
    field = page.get_by_role("combobox", name="Find a page")
    await expect(options(page).first).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("ArrowDown")
    await expect(options(page).nth(1)).to_have_attribute("aria-selected", "true")
    await expect(field).to_have_attribute("aria-activedescendant", await options(page).nth(1).get_attribute("id") or "")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")  # from the first to the last
    await expect(options(page).last).to_have_attribute("aria-selected", "true")
    for _ in range(4):
        await page.keyboard.press("Tab")  # the focus stays inside, or with the browser itself
        assert await page.evaluate("document.activeElement.closest('#palette, body') !== null")
        assert not await page.evaluate("Boolean(document.activeElement.closest('main, .side'))")
    await page.keyboard.press("Escape")
    await expect(palette(page)).to_be_hidden()
    await expect(page.get_by_role("link", name="Queues", exact=True)).to_be_focused()  # the focus comes back

    await open_palette(page, "sched")
    await expect(options(page).first).to_contain_text("Schedules")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{deployment.url}/schedules")


async def test_enter_does_not_need_to_wait_for_the_results(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open("/")
    await open_palette(page, deployment.ids["failed"])
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{deployment.url}/jobs/{deployment.ids['failed']}")


async def test_it_works_in_a_text_field_and_leaves_other_keys_alone(reader: Visitor) -> None:
    page = await reader.open("/jobs")
    await page.wait_for_load_state()
    field = page.get_by_label("Name", exact=True)
    await field.fill("send")
    await page.keyboard.type("k?/")
    await expect(field).to_have_value("sendk?/")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("Control+k")
    await expect(palette(page)).to_be_visible()
    await page.keyboard.press("Control+k")
    await expect(palette(page)).to_be_hidden()
    await page.keyboard.press("?")  # in the field
    await expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_it_is_used_by_touch(reader: Visitor, deployment: Deployment, dark: bool) -> None:
    page = await reader.open("/", dark=dark, size=PHONE, has_touch=True)
    await page.wait_for_load_state()
    await page.get_by_label("Show navigation").check()
    await page.get_by_role("button", name="Commands").tap()
    await page.get_by_role("combobox", name="Find a page").fill("workers")
    await expect(options(page).first).to_contain_text("Workers")
    assert await find_faults(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await options(page).first.tap()
    await expect(page).to_have_url(f"{deployment.url}/workers")
    await page.wait_for_load_state()
    await page.get_by_label("Show navigation").check()
    await page.get_by_role("button", name="Commands").tap()
    await palette(page).get_by_role("button", name="Close").tap()
    await expect(palette(page)).to_be_hidden()


async def test_an_action_is_sent_and_a_destructive_one_is_confirmed(visitor: Visitor, service: Service) -> None:
    await service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/")
    await open_palette(page, "pause mail")
    await expect(options(page).first).to_contain_text("Pause the queue mail")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").filter(has_text="mail is paused")).to_be_visible()
    assert (await service.stats(["mail"]))[0].is_paused


async def test_a_token_for_some_queues_finds_nothing_of_others(visitor: Visitor, service: Service) -> None:
    visitor.monitor.tolerate("401")
    await service.enqueue([NewJob(queue="mail", name="send"), NewJob(queue="payments", name="charge")])
    new = NewToken(name="mail", roles=frozenset({Role.READ}), queues=("mail",))
    token = (await service.create_token(new)).text
    page = await visitor.open("/login")
    await page.get_by_label("Token").fill(token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await open_palette(page, "charge")
    await expect(options(page)).to_have_text([re.compile("Search all jobs for charge")])
    await page.get_by_role("combobox", name="Find a page").fill("mail")
    await expect(options(page).filter(has_text="Queue").first).to_be_visible()
    await expect(options(page).filter(has_text="Action")).to_have_count(0)


async def test_a_filter_is_saved_found_and_removed(visitor: Visitor, service: Service) -> None:
    page = await visitor.open("/jobs?state=failed&queue=mail")
    await page.get_by_text("Save filter").click()
    await page.get_by_label("Name of the filter").fill("late mail")
    assert await find_faults(page) == []
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("link", name="late mail")).to_have_attribute("aria-current", "page")

    await page.goto("/")
    await open_palette(page, "late")
    await expect(options(page).first).to_contain_text("jobs: state failed, queue mail")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/jobs\?state=failed&queue=mail$"))

    await page.get_by_text("Change filter").click()
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_role("status").filter(has_text="is removed")).to_be_visible()
    assert await service.filters() == []
