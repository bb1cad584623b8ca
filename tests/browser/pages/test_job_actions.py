"""Actions that move jobs between states, on the page of a job, on a list and in the background; caps of keys."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.chromium import Visitor
from tests.browser.test_actions import confirm, expect_message
from windlass.core.bulk_action import Action
from windlass.core.ids import format_id
from windlass.core.job import Blob, Cap, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Enqueued, Listing, Take
from windlass.server import Server
from windlass.service import Service

pytestmark = pytest.mark.anyio
HOUR_MS = 3_600_000
ACTION_QUEUE = "windlass.actions"


async def enqueue(service: Service, **fields: object) -> Enqueued:
    (added,) = await service.enqueue([NewJob(queue="mail", name="send", **fields)])  # type: ignore[arg-type]
    assert not isinstance(added, Exception), added
    return added


async def test_run_now_wake_and_requeue_a_job(visitor: Visitor, running: Server) -> None:
    service = running.service
    later = await enqueue(service, delay_ms=HOUR_MS)
    behind = await enqueue(service, after=(later.id,))
    page = await visitor.open(f"/jobs/{format_id(behind.id)}")
    await expect(page.locator("#state")).to_contain_text("waiting")
    await confirm(page, "Wake")
    await expect(page.locator("#state")).to_contain_text("queued")

    await page.goto(f"/jobs/{format_id(later.id)}")
    await expect(page.locator("#state")).to_contain_text("scheduled")
    await page.get_by_role("button", name="Run now").click()
    await expect(page.locator("#state")).to_contain_text("queued")

    await service.take(Take(queues=("mail",), most=2, lease_ms=HOUR_MS))
    await expect(page.locator("#state")).to_contain_text("running")
    await confirm(page, "Requeue")
    await expect(page.locator("#state")).to_contain_text("queued")
    (stats,) = await service.stats(["mail"])
    assert (stats.queued, stats.running) == (1, 1)


async def select_all(page: Page, path: str, verb: str) -> None:
    """Apply an action to all jobs of the page of a list."""
    await page.goto(path)
    await page.get_by_label("Select all jobs of this page").check()
    await page.locator("[data-when-selected]").get_by_role("button", name=verb).click()


async def test_run_now_wake_requeue_and_cancel_selected_jobs(visitor: Visitor, running: Server) -> None:
    service = running.service
    first = await enqueue(service, delay_ms=HOUR_MS)
    await enqueue(service, after=(first.id,))
    page = await visitor.open("/")
    await select_all(page, "/jobs?state=waiting", "Wake")
    await page.get_by_role("dialog").get_by_role("button", name="Wake").click()
    await expect_message(page, "1")
    await select_all(page, "/jobs?state=scheduled", "Run now")
    await expect_message(page, "1")
    await service.take(Take(queues=("mail",), most=2, lease_ms=HOUR_MS))
    await select_all(page, "/jobs?state=running", "Requeue")
    await page.get_by_role("dialog").get_by_role("button", name="Requeue").click()
    await expect_message(page, "2")
    await select_all(page, "/jobs?state=queued", "Cancel")
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect_message(page, "2")
    (stats,) = await service.stats(["mail"])
    assert (stats.queued, stats.running, stats.scheduled, stats.waiting) == (0, 0, 0, 0)


@pytest.mark.parametrize(("state", "verb"), [("queued", "cancel"), ("running", "requeue")])
async def test_an_action_on_all_that_match(visitor: Visitor, running: Server, state: str, verb: str) -> None:
    service = running.service
    for _ in range(2):
        await enqueue(service)
    if state == "running":
        await service.take(Take(queues=("mail",), most=2, lease_ms=HOUR_MS))
    page = await visitor.open(f"/jobs?state={state}&queue=mail")
    await confirm(page, f"{verb.capitalize()} all")
    await expect(page).to_have_url(re.compile("/actions/"))
    (action,) = await service.actions()
    assert (action.verb, action.listing.queue, action.listing.state) == (verb, "mail", state)


async def test_a_background_action_is_cancelled(visitor: Visitor, running: Server) -> None:
    service = running.service
    await enqueue(service)
    await service.pause(ACTION_QUEUE)  # so that it does not start
    action = await service.act(Action(verb="cancel", listing=Listing(queue="mail", state="queued")))
    page = await visitor.open(f"/actions/{format_id(action.id)}")
    await confirm(page, "Cancel action")
    await expect_message(page, "The action is cancelled.")
    await expect(page.locator("#state")).to_have_text("cancelled")
    await expect(page.get_by_role("button", name="Cancel action")).to_have_count(0)
    (stats,) = await service.stats(["mail"])
    assert stats.queued == 1


async def test_change_the_cap_of_a_key(visitor: Visitor, running: Server) -> None:
    service = running.service
    await service.limit(Limit(name="per shop", matches=Matcher(queue="mail"), running=4, key="shop", own_caps=True))
    await enqueue(service, payload=Blob(b'{"shop": "eu"}'), cap=Cap(limit="per shop", running=1))
    await service.take(Take(queues=("mail",), lease_ms=HOUR_MS))
    page = await visitor.open("/limits/per%20shop")
    await page.get_by_role("link", name='"eu"').click()
    await page.get_by_text("Change cap…").click()
    await page.get_by_label("Jobs at once").fill("3")
    await page.get_by_role("button", name="Change cap").click()
    await expect_message(page, "Up to 3 jobs of eu may run at once.")
    await expect(page.locator(".stat").filter(has_text="Jobs at once")).to_contain_text("3")


async def test_rename_a_saved_filter(visitor: Visitor, service: Service) -> None:
    name = "<b>late</b> mail"
    page = await visitor.open("/jobs?state=failed&queue=mail")
    await page.get_by_text("Save filter").click()
    await page.get_by_label("Name of the filter").fill("late")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_text("Change filter").click()
    await page.get_by_label("Name of the filter").fill(name)
    await page.get_by_role("button", name="Rename").click()
    await expect(page.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")
    assert [saved.name for saved in await service.filters()] == [name]
