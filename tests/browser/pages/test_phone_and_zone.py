"""Pages on a phone, and the time zone that a person chooses."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import expect

from tests.browser.chromium import Visitor
from tests.browser.conftest import Deployment
from tests.browser.page_audit import find_faults
from tests.browser.sample_texts import hostile_text
from tests.browser.test_looks import expand_all, paths
from windlass.core.job import NewJob
from windlass.server import Server

pytestmark = pytest.mark.anyio

NARROW = (390, 844)
WIDTH = "document.documentElement.scrollWidth"


async def test_filters_are_folded_on_a_phone(visitor: Visitor, running: Server) -> None:
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/jobs?queue=mail&name=send", size=NARROW)
    queue = page.get_by_label("Queue", exact=True)
    switch = page.get_by_role("checkbox", name="Filters (2)")
    await expect(switch).to_be_visible()
    await expect(queue).to_be_hidden()
    await page.get_by_text("Filters (2)").click()
    await expect(queue).to_have_value("mail")
    assert await find_faults(page) == []
    await page.get_by_text("Filters (2)").click()
    await expect(queue).to_be_hidden()
    await switch.press(" ")  # with the keyboard
    await queue.fill("")
    await page.get_by_role("button", name="Filter", exact=True).click()
    await expect(page.get_by_role("checkbox", name="Filters (1)")).to_be_visible()


async def test_filters_are_open_in_a_wide_window(visitor: Visitor) -> None:
    page = await visitor.open("/jobs?queue=mail")
    await expect(page.get_by_label("Queue", exact=True)).to_be_visible()
    await expect(page.get_by_role("checkbox", name="Filters (1)")).to_have_count(0)


async def test_no_page_is_wider_than_a_phone(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open("/", size=NARROW)
    wide = []
    for path in [*paths(deployment), "/?span=quarter", "/jobs?state=failed", "/jobs?state=suspended"]:
        await page.goto(path)
        await expand_all(page)
        if await page.evaluate(WIDTH) > NARROW[0]:
            wide.append(path)
    assert wide == []


async def test_times_are_in_the_chosen_zone(reader: Visitor, deployment: Deployment) -> None:
    path = f"/jobs/{deployment.ids['failed']}"
    context = await reader.context(timezone_id="Asia/Tokyo")
    page = await context.new_page()
    await page.goto(path)
    instant = page.locator("#life [data-at]").first
    await expect(page.get_by_text("Times are in Asia/Tokyo.")).to_be_visible()
    local, utc = await instant.text_content(), (await instant.get_attribute("title") or "").removesuffix(" UTC")
    hours = {"local": local, "utc": utc}
    ended = await page.locator("#life .moments div", has_text="Ended").locator("time").text_content()
    sentence = page.get_by_text("It failed at")
    await expect(sentence).to_contain_text(f"It failed at {ended} (")  # in the same zone
    assert (int(str(local)[11:13]) - int(utc[11:13])) % 24 == 9, hours

    await page.get_by_role("button", name="Show times in UTC").click()
    await expect(page.get_by_text("Times are in UTC.")).to_be_visible()
    await expect(instant).to_have_text(utc)
    await expect(sentence).not_to_contain_text(f"It failed at {ended} (")

    # The choice is kept in the browser, and holds for charts too
    await page.goto("/")
    await expect(page.get_by_text("Times are in UTC.")).to_be_visible()
    tick = page.locator("[data-clock]").first
    in_utc = await tick.text_content() or ""
    await page.get_by_role("button", name="Show times in Asia/Tokyo").click()
    in_tokyo = f"{(int(in_utc[:2]) + 9) % 24:02}{in_utc[2:]}"
    await expect(page.locator("[data-clock]", has_text=in_tokyo).first).to_be_visible()
    await page.goto(path)
    await expect(instant).to_have_text(str(local))


async def test_times_are_in_utc_without_scripts(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open(f"/jobs/{deployment.ids['failed']}", scripts=False, timezone_id="Asia/Tokyo")
    instant = page.locator("#life [data-at]").first
    await expect(page.get_by_text("Times are in UTC.")).to_be_visible()
    await expect(page.get_by_role("button", name="Show times in UTC")).to_be_hidden()
    assert f"{await instant.text_content()} UTC" == await instant.get_attribute("title")
    await expect(page.get_by_text("It failed at")).to_contain_text(" UTC (")


async def test_first_and_last_start_of_a_job(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open(f"/jobs/{deployment.ids['failed']}")
    moments = page.locator("#life .moments")
    for words in ("First started", "Last started", "From creation to end"):
        await expect(moments.get_by_text(words)).to_be_visible()
    first, last = [
        await moments.locator("div", has_text=words).locator("time").get_attribute("datetime")
        for words in ("First started", "Last started")
    ]
    assert str(first) < str(last)


async def test_downloads_stand_under_their_heading(reader: Visitor, deployment: Deployment) -> None:
    page = await reader.open(f"/queues/{quote(hostile_text('mail'), safe='')}?span=quarter")
    navigation = page.get_by_role("navigation", name="Pages")
    items = await navigation.get_by_role("listitem").all_inner_texts()
    at = items.index("Downloads")
    assert items[at + 1 : at + 3] == ["Aggregations", "Callbacks"]
