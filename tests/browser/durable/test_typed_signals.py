"""Forms made from the type of a signal, in a real browser: on the page of a job, and behind a signed link."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from playwright.async_api import Page, expect

from tests.browser.chromium import PHONE, Visitor
from windlass.core.durable import Signal, Suspend, Wait
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import Take
from windlass.sdk.durable.schemas import signal_schema
from windlass.server import Server
from windlass.service import Service

pytestmark = pytest.mark.anyio


class Approval(msgspec.Struct):
    by: str
    is_granted: bool
    amount: Annotated[float, msgspec.Meta(ge=0, le=500, description="In euros.")]
    speed: Literal["express", "normal"] = "normal"
    comment: str | None = None


ANSWER = {"by": "Ada", "is_granted": True, "amount": 12.5, "speed": "express"}


async def wait_for_type(service: Service, kind: Any = Approval) -> Job:
    await service.enqueue([NewJob(queue="orders", name="fulfil")])
    (job,) = (await service.take(Take(queues=("orders",)))).jobs
    wait = Wait(name="approval", kind="signal", signal="approval", schema=signal_schema(kind))
    await service.suspend([Suspend(id=job.id, token=job.lease_token, waits=(wait,))]).one()
    return job


async def answer_of(service: Service, job: Job) -> Any:
    (step,) = (await service.durable_states([job.id]).one()).steps
    return None if step.value is None or step.schema is not None else msgspec.json.decode(step.value.data)


async def fill(page: Page, amount: str) -> None:
    await page.get_by_label("By", exact=True).fill("Ada")
    await page.get_by_label("Is granted").select_option("Yes")
    await page.get_by_label("Amount").fill(amount)
    await page.get_by_label("Speed").select_option("express")


async def link_to(service: Service, job: Job) -> str:
    return f"/signals/{(await service.signal_link(job.id, 'approval')).token}"


async def test_answer_with_the_form_of_the_type(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await wait_for_type(service)
    page = await visitor.open(f"/jobs/{job.key}")
    await page.get_by_label("By", exact=True).fill("Ada")
    send = page.get_by_role("button", name="Send", exact=True)
    await send.click()
    await expect(page.get_by_label("Is granted")).to_be_focused()  # it is required: nothing was sent
    await fill(page, "12.5")
    await service.signal([Signal(id=job.id, name="comment", value=Blob(b'"by the way"'))]).one()
    await service.enqueue([NewJob(queue="orders", name="other")])  # an event of the queue refreshes the page
    await expect(page.get_by_text("by the way")).to_be_visible()
    await send.click()  # with the texts that were typed before
    await expect(page.get_by_role("status").filter(has_text="the job continues")).to_be_visible()
    assert await answer_of(service, job) == ANSWER


@pytest.mark.parametrize("scripts", [True, False])
async def test_typed_texts_are_kept_when_one_is_refused(visitor: Visitor, running: Server, scripts: bool) -> None:
    service = running.service
    job = await wait_for_type(service)
    visitor.monitor.tolerate("400")
    for path in (f"/jobs/{job.key}", await link_to(service, job)):
        page = await visitor.open(path, size=PHONE, scripts=scripts)
        await fill(page, "501")
        form = page.locator("form", has=page.get_by_label("Amount"))
        await form.evaluate("form => { form.noValidate = true }")  # as a browser that checks nothing
        await form.get_by_role("button", name="Send", exact=True).click()
        await expect(page.get_by_text("The number must be at most 500.")).to_be_visible()
        await expect(page.get_by_label("By", exact=True)).to_have_value("Ada")
        await expect(page.get_by_label("Is granted")).to_have_value("true")
        await expect(page.get_by_label("Amount")).to_have_value("501")
    assert await answer_of(service, job) is None
    await page.get_by_label("Amount").fill("12.5")
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_role("heading", name="Answer sent")).to_be_visible()
    assert await answer_of(service, job) == ANSWER


async def test_json_can_be_sent_instead(visitor: Visitor, running: Server) -> None:
    service = running.service
    for path in ("job", "link"):
        job = await wait_for_type(service)
        page = await visitor.open(f"/jobs/{job.key}" if path == "job" else await link_to(service, job))
        await page.get_by_text("Send JSON instead").click()
        await page.get_by_label("Value of approval" if path == "job" else "JSON", exact=True).fill('{"by": "Ada"}')
        await page.get_by_role("button", name="Send JSON").click()
        await expect(page.get_by_role("status").filter(has_text="job continues")).to_be_visible()
        assert await answer_of(service, job) == {"by": "Ada"}


async def test_a_boolean_is_answered_by_a_button(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await wait_for_type(service, bool)
    page = await visitor.open(await link_to(service, job), size=PHONE, dark=True)
    await page.get_by_role("button", name="No", exact=True).click()
    await expect(page.get_by_role("heading", name="Answer sent")).to_be_visible()
    assert await answer_of(service, job) is False
