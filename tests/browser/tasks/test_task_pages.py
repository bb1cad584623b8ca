"""Pages of tasks in a real browser: a worker's runs appear on them; removal of a queue; a misspelt address."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.chromium import Visitor
from tests.browser.test_actions import audited, confirm, expect_message
from windlass import Windlass, Worker
from windlass.server import Server
from windlass.store.store import Store

pytestmark = pytest.mark.anyio


async def run_jobs(store: Store) -> None:
    """Run eight jobs of one task with a real worker, which reports its figures when it stops. One job fails."""
    app = Windlass()
    app.connect(store.clone())

    @app.task(queue="mail", retry=1)
    async def send_mail(number: int) -> int:
        if number == 7:
            raise ConnectionError("The mail server is away.")
        return number

    await app.aenqueue_many(send_mail.call(number) for number in range(8))
    worker = Worker(app, concurrency=4, name="mailer-1", grace=5, has_loops=False, burst=True)
    await worker.run()
    await app.aclose()


async def test_the_runs_of_a_worker_are_on_the_pages(visitor: Visitor, running: Server, store: Store) -> None:
    page = await visitor.open("/tasks")
    await expect(page.get_by_text("No tasks are known")).to_be_visible()
    await run_jobs(store)
    row = page.get_by_role("row").filter(has_text="send_mail")
    await expect(row).to_contain_text("7", timeout=15_000)  # the page refreshes by itself
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await page.get_by_role("link", name="send_mail").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("send_mail")
    await expect(page.locator("#figures")).to_contain_text("Run p99")
    await expect(page.get_by_role("img", name="Attempts per minute")).to_be_visible()
    await expect(page.locator("#errors")).to_contain_text("The mail server is away.")
    await page.get_by_role("link", name="15 minutes").click()
    await expect(page.get_by_role("link", name="15 minutes")).to_have_attribute("aria-current", "true")
    await page.locator("#place").get_by_role("link", name="failed").click()
    await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_misspelt_task_leads_to_the_right_one(visitor: Visitor, running: Server, store: Store) -> None:
    await run_jobs(store)
    visitor.monitor.tolerate("404")
    page = await visitor.open("/tasks/send_mial")
    await expect(page.get_by_text('No worker has a task called "send_mial"')).to_be_visible()
    await page.get_by_role("link", name="send_mail").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("send_mail")


async def test_an_empty_queue_is_removed(visitor: Visitor, running: Server) -> None:
    service = running.service
    await service.configure("mail", {"lease_ms": 5_000})
    page = await visitor.open("/queues/mail")
    await confirm(page, "Remove queue")
    await expect_message(page, "mail is removed")
    await expect(page.get_by_text("No queues yet")).to_be_visible()
    assert await service.queues() == []
    assert await audited(service) == [("remove_queue", "done")]
    await service.configure("mail", {"lease_ms": 5_000})
    visitor.monitor.tolerate("404")
    await page.goto("/queues/mial")
    await page.get_by_role("link", name="mail", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("mail")
