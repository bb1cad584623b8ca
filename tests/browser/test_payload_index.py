"""Search by an indexed payload field in a real browser: index a queue, enqueue, filter, follow a value, search."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.chromium import Visitor
from windlass.core.job import Blob, NewJob
from windlass.server import Server

pytestmark = pytest.mark.anyio


async def test_find_jobs_by_a_payload_field(visitor: Visitor, running: Server) -> None:
    page = await visitor.open("/queues/orders")
    await page.get_by_text("Change properties").click()
    await page.get_by_label("Indexed fields").fill("order_id, customer.email")
    await page.get_by_role("button", name="Change").click()
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
