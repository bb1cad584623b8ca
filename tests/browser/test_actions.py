"""Actions on jobs, queues, limits, schedules, workers and callbacks in a real browser: confirmation, message, audit
log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
from msgspec import structs
from playwright.async_api import Page, expect

from tests.browser.chromium import Visitor
from tests.browser.conftest import SETTINGS
from windlass import Windlass, Worker
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.ids import parse_id
from windlass.core.job import Callback, Job, NewJob
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Finish, Take
from windlass.core.scheduling.schedule import Schedule
from windlass.sdk.failures import encode_error
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.anyio

EXACT = '{"order": 9007199254740993, "text": "<script>nowhere()</script>"}'


async def expect_message(page: Page, text: str) -> None:
    """Expect the message of an action on the next page."""
    await expect(page.get_by_role("status").filter(has_text=text)).to_be_visible()


async def confirm(page: Page, verb: str) -> None:
    """Click a destructive action: decline the confirmation first, which changes nothing, then accept it."""
    button = page.locator("main").get_by_role("button", name=verb).first
    question = page.get_by_role("dialog")
    await button.click()
    await expect(question.get_by_role("button", name="Go back")).to_be_focused()
    await question.get_by_role("button", name="Go back").click()
    await expect(question).to_have_count(0)
    await expect(button).to_be_focused()
    await button.click()
    await question.get_by_role("button", name=verb).click()


async def stored(service: Service, page: Page) -> Job:
    (found,) = await service.job([parse_id(page.url.rpartition("/")[2])])
    assert not isinstance(found, Exception), found
    return found.job


async def audited(service: Service) -> list[tuple[str, str]]:
    """Return the audited actions with their outcomes, oldest first."""
    return [(entry.what, entry.outcome) for entry in reversed((await service.audits()).entries)]


async def test_enqueue_edit_cancel_retry_copy_and_delete_a_job(visitor: Visitor, running: Server) -> None:
    service = running.service
    page = await visitor.open("/jobs")
    visitor.monitor.tolerate("400")

    # A form with errors keeps the typed values
    await page.get_by_role("link", name="Enqueue").click()
    await page.get_by_label("Queue", exact=True).fill("orders")
    await page.get_by_label("Name", exact=True).fill("ship")
    await page.get_by_label("Payload").fill('{"order": 1,}')
    await expect(page.get_by_text("Not valid JSON")).to_be_visible()
    await page.get_by_label("Payload").fill(EXACT)
    await page.get_by_label("Priority").fill("high")
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page.get_by_role("alert")).to_contain_text("riority")
    await expect(page.get_by_label("Payload")).to_have_value(EXACT)
    await page.get_by_label("Priority").fill("0")
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page).to_have_url(re.compile("/jobs/[0-9a-f-]{36}$"))
    await expect(page.locator("#payload")).to_contain_text("9007199254740993")
    await expect(page.locator("#payload")).to_contain_text("<script>nowhere()</script>")
    job_page = page.url

    await page.get_by_role("link", name="Edit").click()
    await page.get_by_label("Priority").fill("-7")
    await page.get_by_role("button", name="Save").click()
    await expect(page).to_have_url(job_page)
    job = await stored(service, page)
    assert job.priority == -7
    assert b"9007199254740993" in job.payload.data

    await confirm(page, "Cancel")
    await expect(page.locator("#state")).to_contain_text("cancelled")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.locator("#state")).to_contain_text("queued")

    await page.get_by_role("link", name="Run a copy").click()
    await expect(page.get_by_label("Payload")).to_have_value(re.compile("9007199254740993"))
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page).not_to_have_url(re.compile("new"))
    copy = await stored(service, page)
    assert copy.id != job.id
    assert b"9007199254740993" in copy.payload.data

    await page.goto(job_page)
    await confirm(page, "Delete")
    await expect(page).to_have_url(re.compile(r"/jobs\?state="))
    (stats,) = await service.stats(["orders"])
    assert (stats.queued, stats.cancelled) == (1, 0)
    done = [what for what, outcome in await audited(service) if outcome == "done"]
    assert done == ["enqueue_job", "edit_job", "cancel_jobs", "retry_jobs", "enqueue_job", "delete_jobs"]


async def test_act_on_selected_jobs(visitor: Visitor, running: Server) -> None:
    service = running.service
    await service.enqueue([NewJob(queue="mail", name=f"send-{number}") for number in range(8)])
    taken = (await service.take(Take(queues=("mail",), most=8))).jobs
    await service.fail([Fail(id=job.id, token=job.lease_token) for job in taken])
    page = await visitor.open("/jobs?state=failed")
    boxes = page.locator("input[data-row-box]")
    await expect(page.locator("[data-when-selected]")).to_be_hidden()
    await boxes.nth(1).check()
    await boxes.nth(4).click(modifiers=["Shift"])
    await expect(page.locator("[data-selected-count]").first).to_have_text("4")
    await page.locator("[data-when-selected]").get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog")
    await expect(question).to_contain_text("4")
    await question.get_by_role("button", name="Delete").click()
    await expect(boxes).to_have_count(4)
    await page.get_by_label("Select all jobs of this page").check()
    await page.locator("[data-when-selected]").get_by_role("button", name="Retry").click()
    await expect_message(page, "4")
    (stats,) = await service.stats(["mail"])
    assert (stats.queued, stats.failed) == (4, 0)


async def test_pause_resume_and_configure_a_queue(visitor: Visitor, running: Server) -> None:
    service = running.service
    await service.enqueue([NewJob(queue="mail", name="send", lane="eu")])
    page = await visitor.open("/queues/mail")
    await page.get_by_text("Pause…").click()
    await page.get_by_label("Reason").fill("<b>moving</b>")
    await page.get_by_role("button", name="Pause queue", exact=True).click()
    await expect_message(page, "mail is paused")
    await expect(page.locator("#pause-reason")).to_contain_text("<b>moving</b>")
    await page.get_by_role("button", name="Resume").click()
    await expect_message(page, "mail is resumed")
    assert await service.pauses("mail") == []

    await page.get_by_role("button", name="Pause lane eu").click()
    (pause,) = await service.pauses("mail")
    assert pause.lane == "eu"

    await page.get_by_text("Change properties").click()
    await page.get_by_label("Lease", exact=True).fill("2m")
    await page.get_by_role("button", name="Save properties").click()
    await expect(page.get_by_role("region", name="Properties")).to_contain_text("2m")
    assert (await service.configuration("mail")).lease_ms == 120_000


async def test_conditions_of_a_limit_are_checked_while_they_are_typed(visitor: Visitor, running: Server) -> None:
    service = running.service
    page = await visitor.open("/limits")
    new = page.get_by_role("region", name="New limit")
    await new.get_by_label("Name", exact=True).fill("large")
    await new.get_by_label("Jobs at once").fill("1")
    conditions = new.get_by_label("or conditions")
    await conditions.fill('{"name": ')
    await new.get_by_role("button", name="Create limit").click()
    await expect(new.get_by_text("Not valid JSON")).to_be_visible()
    await expect(conditions).to_be_focused()
    assert await service.limits() == []
    await conditions.fill('{"name": {"prefix": "send_"}}')
    await expect(new.get_by_text("As JSON, instead of queue and job name")).to_be_visible()
    await new.get_by_role("button", name="Create limit").click()
    await expect_message(page, "large allows 1 at once, for name~send_*.")
    await page.get_by_text("Change…").click()
    menu = page.locator(".menu-body").filter(has=page.get_by_label("Conditions"))
    await menu.get_by_label("Conditions").fill('{"name": {"in": ["a", "b"]}}')
    await menu.get_by_role("button", name="Change").click()
    await expect_message(page, 'name in ["a","b"]')
    assert [state.limit.matches.name for state in await service.limits()] == [Condition(in_=("a", "b"))]


async def test_set_change_and_delete_a_limit(visitor: Visitor, running: Server) -> None:
    service = running.service
    await service.limit(Limit(name="old", matches=Matcher(queue="mail"), running=3))
    page = await visitor.open("/limits")
    new = page.get_by_role("region", name="New limit")
    await new.get_by_label("Name", exact=True).fill("<i>gentle</i>")
    await new.get_by_label("Queue").fill("mail")
    await new.get_by_label("or job starts").fill("5")
    await new.get_by_role("button", name="Create limit").click()
    await expect(page.get_by_role("heading", name="<i>gentle</i>")).to_be_visible()

    old = page.get_by_role("region", name="old", exact=True)
    await old.get_by_text("Change…").click()
    await old.get_by_label("Jobs at once").fill("9")
    await old.get_by_role("button", name="Change").click()
    await expect(old).to_contain_text("9")
    assert {state.limit.name: state.limit.running for state in await service.limits()} == {
        "old": 9,
        "<i>gentle</i>": None,
    }

    await confirm(page, "Delete old")
    await expect(page.get_by_role("heading", name="old", exact=True)).to_have_count(0)
    assert len(await service.limits()) == 1


async def test_run_pause_resume_and_delete_a_schedule(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = NewJob(queue="reports", name="render")
    await service.schedule(Schedule(name="nightly", job=job, cron="30 2 * * 1-5"))
    page = await visitor.open("/schedules")
    row = page.get_by_role("row", name="nightly")
    await row.get_by_role("button", name="Run nightly now").click()
    await expect_message(page, "nightly")
    (stats,) = await service.stats(["reports"])
    assert stats.queued == 1
    await row.get_by_role("button", name="Pause nightly").click()
    await expect(row).to_contain_text("paused")
    await row.get_by_role("button", name="Resume nightly").click()
    await expect(row.get_by_role("button", name="Pause nightly")).to_be_visible()
    await confirm(page, "Delete nightly")
    await expect(page.get_by_text("No schedules")).to_be_visible()
    assert [what for what, _ in await audited(service)] == [
        "run_schedule",
        "pause_schedule",
        "resume_schedule",
        "delete_schedule",
    ]


async def test_stop_a_worker_that_finishes_its_job(visitor: Visitor, running: Server, store: Store) -> None:
    app, started, go_on = Windlass(), asyncio.Event(), asyncio.Event()
    app.connect(store.clone())

    @app.task(queue="mail", keep_result="1h")
    async def send() -> str:
        started.set()
        await go_on.wait()
        return "sent"

    handle = await send.aenqueue()
    worker = Worker(app, name="app-1", grace=60)
    working = asyncio.create_task(worker.run())
    await started.wait()
    page = await visitor.open("/workers")
    await confirm(page, "Stop app-1")
    await expect_message(page, "app-1")
    go_on.set()
    await working
    await expect(page.get_by_text("No workers")).to_be_visible()
    await expect(page.get_by_role("row")).to_have_count(0)
    assert await handle == "sent"
    await app.aclose()


async def test_retry_a_group_of_failures(visitor: Visitor, running: Server) -> None:
    service = running.service
    await service.enqueue([NewJob(queue="mail", name="send") for _ in range(12)])
    taken = (await service.take(Take(queues=("mail",), most=12))).jobs
    for at, job in enumerate(taken):
        message = f"no answer from relay {at}" if at % 3 else "<b>bounced</b>"
        await service.fail([Fail(id=job.id, token=job.lease_token, error=encode_error("OSError", message))])
    page = await visitor.open("/failures")
    group = page.get_by_role("row", name="no answer from relay")
    await expect(group).to_contain_text("8")
    await group.get_by_role("button", name="Retry").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await expect(page.locator("#state")).to_have_text("finished")
    await expect(page.locator("#progress")).to_contain_text("8 done")
    await page.goto("/failures")
    await expect(page.get_by_role("row", name="<b>bounced</b>")).to_contain_text("4")
    await expect(group).to_have_count(0)


class Receiver(NamedTuple):
    url: str
    requests: asyncio.Queue[bytes]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """HTTP server that receives callbacks."""
    requests: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        requests.put_nowait(head)
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Receiver(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", requests)


@pytest.fixture
def given_up(service: Service, receiver: Receiver) -> None:
    """Create a given-up callback before the server starts, which would deliver it."""
    service.enqueue([NewJob(queue="mail", name="send", callback=Callback(url=receiver.url))]).wait()
    (job,) = service.take(Take(queues=("mail",))).wait().jobs
    service.finish([Finish(job.id, job.lease_token)]).wait()
    (leased,) = service.take_callbacks().wait().callbacks
    service.retry_callbacks([FailedDelivery(id=leased.id, token=leased.token, error="<i>503</i>", give_up=True)]).wait()


async def test_redeliver_a_given_up_callback(
    receiver: Receiver, given_up: None, visitor: Visitor, running: Server
) -> None:
    page = await visitor.open("/callbacks")
    await expect(page.get_by_text("No pending callbacks")).to_be_visible()
    await page.get_by_role("link", name="Given up").click()
    row = page.get_by_role("row", name=receiver.url)
    await expect(row).to_contain_text("<i>503</i>")
    await row.get_by_role("button", name="Deliver again").click()
    assert (await receiver.requests.get()).startswith(b"POST /hook ")
    await expect(row).to_have_count(0)
    assert await audited(running.service) == [("redeliver", "done")]


async def test_run_the_doctor(visitor: Visitor, running: Server) -> None:
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/engine")
    await page.get_by_role("button", name="Run the doctor").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("No problems found")
    assert await audited(running.service) == [("doctor", "done")]


async def test_the_server_asks_for_confirmation_without_scripts(visitor: Visitor, running: Server) -> None:
    service = running.service
    await service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/", scripts=False)
    await page.get_by_role("button", name="Pause mail").click()
    await expect_message(page, "mail is paused")
    await page.get_by_role("button", name="Resume mail").click()
    await expect_message(page, "mail is resumed")
    await page.goto("/jobs?state=queued")
    await page.get_by_role("link", name="send", exact=True).click()
    for answer in ("Go back", "Confirm"):
        await page.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Are you sure?")
        (stats,) = await service.stats(["mail"])
        assert stats.queued == 1
        await page.locator("main").get_by_text(answer, exact=True).click()
    await expect_message(page, "deleted")
    (stats,) = await service.stats(["mail"])
    assert stats.queued == 0


class TestPrefix:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return structs.replace(SETTINGS, base_path="/ops/jobs")

    async def test_all_requests_stay_below_the_base_path(self, visitor: Visitor, running: Server) -> None:
        await running.service.enqueue([NewJob(queue="mail", name="send")])
        page = await visitor.open("/ops/jobs/")
        urls: list[str] = []
        page.on("request", lambda request: urls.append(request.url))
        await page.reload()
        await page.get_by_role("button", name="Pause mail").click()
        await expect_message(page, "mail is paused")
        await running.service.enqueue([NewJob(queue="images", name="resize")])
        await expect(page.get_by_role("row", name="images")).to_be_visible()
        await page.keyboard.press("g")
        await page.keyboard.press("j")
        await page.get_by_role("link", name="send", exact=True).click()
        await confirm(page, "Delete")
        await expect(page).to_have_url(re.compile("/ops/jobs/jobs"))
        assert [url for url in urls if not url.startswith(f"{running.url}/ops/jobs/")] == []


class TestReadOnly:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return structs.replace(SETTINGS, dashboard_read_only=True, dashboard_hide_payloads=True)

    async def test_offers_no_actions_and_hides_payloads(self, visitor: Visitor, running: Server) -> None:
        (added,) = await running.service.enqueue([NewJob(queue="mail", name="send")])
        assert not isinstance(added, Exception)
        page = await visitor.open("/jobs?state=queued")
        await page.get_by_role("link", name="send", exact=True).click()
        await expect(page.get_by_text("Payloads are hidden on this server")).to_be_visible()
        assert await page.locator("form[action*='/do/'] button").count() == 0
