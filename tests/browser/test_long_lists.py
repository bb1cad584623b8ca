"""A list of a hundred thousand jobs: pages, filters, shared addresses, and an action on all matching jobs."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, expect

from tests.browser.chromium import Visitor
from tests.browser.many_jobs import enqueue_many
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
