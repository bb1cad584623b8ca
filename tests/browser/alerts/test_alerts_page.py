"""Alerts in a real browser: rules from a preset, changed, muted, tested and deleted; the strip on the overview."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.background.receiver import Receiver
from tests.browser.chromium import DESKTOP, PHONE, Visitor
from tests.browser.page_audit import find_faults
from windlass.background.alerts.evaluator import AlertEvaluator
from windlass.core.alerts.rule import AlertRule
from windlass.core.job import NewJob
from windlass.server import Server
from windlass.service import Service

pytestmark = pytest.mark.anyio
HOSTILE = '<script>nowhere()</script> & "rule"'


async def expect_message(page: Page, text: str) -> None:
    await expect(page.get_by_role("status").filter(has_text=text)).to_be_visible()


async def audited(service: Service) -> list[tuple[str, str, str]]:
    return [(entry.what, entry.target, entry.outcome) for entry in reversed((await service.audits()).entries)]


async def test_a_rule_from_a_preset_to_its_end(visitor: Visitor, running: Server) -> None:
    service = running.service
    visitor.monitor.tolerate("400")
    async with Receiver().open() as receiver:
        page = await visitor.open("/")
        await page.get_by_role("link", name="Alerts", exact=True).click()
        await expect(page.get_by_text("No alert rules")).to_be_visible()
        await page.get_by_role("link", name="Jobs wait and no worker takes").click()
        await expect(page.get_by_label("Must last")).to_have_value("2m")

        # A wrong target keeps what was typed, and changes nothing
        await page.get_by_label("Queue or schedule").fill("mail-*")
        await page.get_by_label("Targets").fill("ops at example.com")
        await page.get_by_role("button", name="Add rule").click()
        await expect(page.get_by_role("alert")).to_contain_text("is not a target")
        await expect(page.get_by_label("Queue or schedule")).to_have_value("mail-*")
        assert (await service.alerts()).rules == []
        await page.get_by_label("Targets").fill(receiver.url)
        await page.get_by_role("button", name="Add rule").click()
        await expect_message(page, "no worker is added.")
        row = page.get_by_role("row").filter(has_text="1 waiting job or more of mail-* without a worker")
        await expect(row.get_by_text("ok", exact=True)).to_be_visible()

        await row.get_by_role("button", name="Send a test message of no worker").click()
        await expect_message(page, "A test message is on its way to 1 target of no worker.")
        assert (await receiver.got.get()).decoded["event"] == "alert_test"

    await page.get_by_role("button", name="Mute no worker for 1 h").click()
    await expect_message(page, "no worker is muted for 1h.")
    await page.get_by_role("button", name="Unmute no worker").click()
    await expect_message(page, "no worker notifies again.")

    await page.get_by_role("link", name="Change no worker").click()
    await expect(page.get_by_role("heading", name="Change no worker")).to_be_visible()
    await page.get_by_label("Threshold").fill("5")
    await page.get_by_label("Enabled").uncheck()
    await page.get_by_role("button", name="Save rule").click()
    await expect_message(page, "no worker is changed.")
    [one] = (await service.alerts()).rules
    assert (one.rule.threshold, one.rule.is_enabled, one.rule.pattern) == (5, False, "mail-*")
    await expect(page.get_by_text("disabled")).to_be_visible()

    await page.get_by_role("button", name="Delete no worker").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect_message(page, "The rule no worker is deleted.")
    assert await audited(service) == [
        ("set_alert", "/do/set-alert", "bad_input"), ("set_alert", "no worker", "done"),
        ("send_test_message", "no worker", "done"), ("mute_alert", "no worker", "done"),
        ("mute_alert", "no worker", "done"), ("set_alert", "no worker", "done"), ("delete_alert", "no worker", "done"),
    ]  # fmt: skip


async def test_every_preset_is_a_valid_rule(visitor: Visitor, running: Server) -> None:
    page = await visitor.open("/alerts")
    presets = await page.locator("#rule .card-head a").all_text_contents()
    for title in presets:
        await page.get_by_role("link", name=title, exact=True).click()
        await expect(page.get_by_label("Watches")).to_have_value(re.compile("."))
        await page.get_by_role("button", name="Add rule").click()
        await expect(page.get_by_role("status")).to_be_visible()
    assert len((await running.service.alerts()).rules) == len(presets) == 6
    visitor.monitor.tolerate("400")
    await page.get_by_role("link", name="Failures per minute", exact=True).click()
    await page.get_by_role("button", name="Add rule").click()
    await expect(page.get_by_role("alert")).to_contain_text("exists already")


@pytest.mark.parametrize(("dark", "size"), [(False, DESKTOP), (True, PHONE)], ids=["light-desktop", "dark-phone"])
async def test_open_incidents_on_the_overview(
    visitor: Visitor, running: Server, dark: bool, size: tuple[int, int]
) -> None:
    service = running.service
    page = await visitor.open("/", dark=dark, size=size)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await expect(page.get_by_role("region", name="Needs attention")).to_have_count(0)
    await service.set_alert(AlertRule(name=HOSTILE, kind="no_worker", targets=("https://a.example.com/secret",)))
    await service.set_alert(AlertRule(name="declared", kind="oldest_age", threshold=600_000))
    await service.enqueue([NewJob(queue="mail", name="send")])
    await AlertEvaluator().run_once(service)
    strip = page.get_by_role("region", name="Needs attention")
    await expect(strip).to_contain_text("1 waiting job")  # without a reload
    await expect(strip).to_contain_text(HOSTILE)
    assert await find_faults(page) == []
    await strip.get_by_role("link", name=HOSTILE).click()
    await expect(page).to_have_url(f"{running.url}/queues/mail")
    await page.goto("/")
    await strip.get_by_role("link", name="All alerts").click()
    await expect(page.get_by_role("row").filter(has_text=HOSTILE).get_by_text("open", exact=True)).to_be_visible()
    assert await find_faults(page) == []
    await service.remove_alert(HOSTILE)
    await page.reload()
    await expect(page.get_by_role("heading", name="Past incidents")).to_be_visible()
    assert await find_faults(page) == []
