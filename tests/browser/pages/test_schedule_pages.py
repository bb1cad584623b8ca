"""Schedules in a real browser: create one with a preview, correct errors, edit, run and look at its history."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.chromium import PHONE, Visitor
from tests.browser.page_audit import find_faults
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.core.scheduling.schedule import Schedule
from windlass.server import Server

pytestmark = pytest.mark.anyio


async def test_create_correct_edit_and_run_a_schedule(visitor: Visitor, running: Server) -> None:
    service = running.service
    visitor.monitor.tolerate("400")
    page = await visitor.open("/schedules")
    await page.get_by_role("link", name="New schedule").click()

    # Only the fields of the chosen rule are shown, and the next occurrences follow what is typed
    preview = page.get_by_role("status").filter(has_text="every day at 03:00")
    await expect(preview.get_by_role("listitem")).to_have_count(5)
    await expect(page.get_by_label("Every", exact=True)).to_be_hidden()
    await page.get_by_role("textbox", name="Cron expression").fill("15 6 * * MON")
    await page.get_by_label("Time zone").fill("Asia/Tokyo")
    await expect(page.locator("#preview")).to_contain_text("every Monday at 06:15, Asia/Tokyo")
    await page.get_by_role("radio", name="Interval").check()
    await expect(page.get_by_label("Every", exact=True)).to_be_visible()
    await expect(page.get_by_label("Time zone")).to_be_hidden()
    await page.get_by_label("Every", exact=True).fill("sometimes")
    await expect(page.locator("#preview")).to_contain_text("'sometimes' is not a duration")

    # An error is shown beside its field, and nothing is lost
    await page.get_by_label("Name", exact=True).fill("digest")
    await page.get_by_label("Queue", exact=True).fill("mail")
    await page.get_by_label("Job name").fill("send_digest")
    await page.get_by_label("Keep the result").fill("7d")
    await page.get_by_role("button", name="Create schedule").click()
    await expect(page.get_by_text("Nothing was saved. Correct the marked field.")).to_be_visible()
    every = page.get_by_label("Every", exact=True)
    await expect(every).to_have_attribute("aria-invalid", "true")
    await expect(page.get_by_label("Job name")).to_have_value("send_digest")
    await every.fill("90s")
    await page.get_by_role("button", name="Create schedule").click()
    await expect(page.get_by_role("heading", name="digest", level=1)).to_be_visible()
    stored = (await service.schedule_of("digest")).schedule
    assert (stored.every_ms, stored.job.queue, stored.job.name) == (90_000, "mail", "send_digest")

    # Run it: the job appears in the history, and its state follows
    await page.get_by_role("button", name="Run digest now").click()
    row = page.get_by_role("region", name="Last runs").get_by_role("row", name="send_digest")
    await expect(row).to_contain_text("queued")
    (job,) = (await service.take(Take(queues=("mail",)))).jobs
    await expect(row).to_contain_text("running")
    await service.finish([Finish(job.id, job.lease_token)])
    await expect(row).to_contain_text("finished")

    # Edit
    await page.get_by_role("link", name="Edit").click()
    await page.get_by_label("Priority").fill("7")
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_text("Saved the schedule digest.")).to_be_visible()
    assert (await service.schedule_of("digest")).schedule.job.priority == 7
    await row.get_by_role("link").click()
    await expect(page).to_have_url(f"{running.url}/jobs/{job.key}")
    await page.get_by_role("link", name="digest").click()
    await expect(page).to_have_url(f"{running.url}/schedules/digest")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_a_form_with_errors_and_a_conflict_pass_the_audit(visitor: Visitor, running: Server, dark: bool) -> None:
    service = running.service
    job = NewJob(queue="mail", name="send")
    await service.schedule(Schedule(name="digest", job=job, every_ms=60_000))
    page = await visitor.open("/schedules/digest/edit", dark=dark, size=PHONE)
    await service.schedule(Schedule(name="digest", job=job, every_ms=120_000))
    visitor.monitor.tolerate("400|409")
    await page.get_by_label("Every", exact=True).fill("3m")
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_role("alert")).to_contain_text("this schedule was changed after you opened the form")
    assert await find_faults(page) == []
    await page.get_by_label("Replace that change").check()
    await page.get_by_label("Every", exact=True).fill("often")
    await page.get_by_role("button", name="Save changes").click()
    await expect(page.get_by_text("'often' is not a duration")).to_have_count(2)
    assert await find_faults(page) == []
