"""A list of a hundred thousand jobs: pages, filters, shared addresses, and an action on all matching jobs. Jobs that a
payload field finds."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from tests.browser.chromium import Visitor
from tests.browser.many_jobs import enqueue_many
from windlass.core.job import Blob, NewJob
from windlass.server import Server

pytestmark = pytest.mark.anyio

MANY = 100_000
ROWS = 50


async def keys(rows: Locator) -> list[str]:
    found: list[str] = await rows.evaluate_all("(rows) => rows.map((row) => row.dataset.key)")
    return found


async def test_a_hundred_thousand_jobs(visitor: Visitor, running: Server) -> None:
    await enqueue_many(running.service, "crowd", MANY)
    page = await visitor.open("/jobs?queue=crowd")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(ROWS)
    await expect(page.get_by_role("link", name=re.compile("queued"))).to_contain_text("100\u202f000")

    # Pages forward and back; an address works for another user
    seen = await keys(rows)
    for _ in range(3):
        await page.get_by_role("link", name="Next").click()
        await expect(page.locator(f'tr[data-key="{seen[-1]}"]')).to_have_count(0)
        await expect(rows).to_have_count(ROWS)
        seen += await keys(rows)
    assert len(set(seen)) == 4 * ROWS
    shared = await visitor.open(page.url)
    assert await keys(shared.locator("tbody tr")) == seen[-ROWS:]
    await page.get_by_role("link", name="First page").click()
    await expect(page.locator(f'tr[data-key="{seen[0]}"]')).to_be_visible()

    # A filter that matches few jobs
    await page.get_by_label("Name", exact=True).fill("rare")
    await page.get_by_role("button", name="Filter").click()
    await expect(page).to_have_url(re.compile("name=rare"))
    await expect(rows.first).to_contain_text("rare")
    assert set(await rows.locator("th a:first-child").all_text_contents()) == {"rare"}

    # All matching jobs, in the background
    await page.goto("/jobs?tag=rare&state=queued")
    await page.get_by_role("button", name="Delete all").click()
    question = page.get_by_role("dialog")
    await expect(question).to_contain_text("cannot be undone")
    await question.get_by_role("button", name="Delete all").click()
    await expect(page).to_have_url(re.compile("/actions/"))
    await expect(page.locator("#state")).to_have_text("finished")
    await expect(page.locator("#progress")).to_contain_text("1\u202f000 done")
    (stats,) = await running.service.stats(["crowd"])
    assert stats.queued == MANY - MANY // 100


async def test_find_jobs_by_a_payload_field(visitor: Visitor, running: Server) -> None:
    await running.service.configure("orders", {"index": ("id",)})
    page = await visitor.open("/queues/orders")
    await page.get_by_text("Change properties").click()
    await page.get_by_label("Indexed fields").fill("order_id, customer.email")
    await page.get_by_role("button", name="Save properties").click()
    await expect(page.get_by_role("region", name="Properties")).to_contain_text("order_id, customer.email")

    emails = [b"a@example.org", b"b@example.org", b"a@example.org"]
    payloads = [b'{"order_id":%d,"customer":{"email":"%b"}}' % (at, email) for at, email in enumerate(emails)]
    await running.service.enqueue([NewJob(queue="orders", name="ship", payload=Blob(data)) for data in payloads])

    page = await visitor.open("/jobs")
    await page.get_by_label("Payload field").fill("order_id=1")
    await page.get_by_role("button", name="Filter").click()
    links = page.locator("#rows tbody tr")
    await expect(links).to_have_count(1)
    await links.first.get_by_role("link", name="ship").click()
    await page.get_by_role("link", name="customer.email=b@example.org").click()
    await expect(page.get_by_label("Payload field")).to_have_value("customer.email=b@example.org")
    await expect(links).to_have_count(1)

    await page.get_by_role("searchbox").first.fill("customer.email:a@example.org")
    await page.get_by_role("searchbox").first.press("Enter")
    await expect(page.get_by_role("heading", name="With this payload field")).to_be_visible()
    await expect(page.get_by_role("region", name="With this payload field").locator("tbody tr")).to_have_count(2)
