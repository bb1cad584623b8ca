"""Durable jobs in a real browser: answer a signal, run again from a step, and follow a stream while it is written."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.chromium import PHONE, Visitor
from windlass.core.durable import Signal, StoreStep, StreamWrite, Suspend, Wait
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import ANY_JOB_WITH_STEPS, Fail, Take
from windlass.core.retry import Backoff
from windlass.server import Server
from windlass.service import Service

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000


async def start(service: Service, name: str = "fulfil") -> Job:
    await service.enqueue([NewJob(queue="orders", name=name, retry=Backoff(tries=1))])
    return await take(service)


async def take(service: Service) -> Job:
    (job,) = (await service.take(Take(queues=("orders",), wants=ANY_JOB_WITH_STEPS))).jobs
    return job


async def store(service: Service, job: Job, name: str) -> None:
    await service.store_steps([StoreStep(id=job.id, token=job.lease_token, name=name, value=Blob(b"1"))]).one()


async def wait_for_approval(service: Service) -> Job:
    job = await start(service)
    wait = Wait(name="signal:approval", kind="signal", signal="approval", for_ms=HOUR_MS)
    await service.suspend([Suspend(id=job.id, token=job.lease_token, waits=(wait,))]).one()
    return job


async def write(service: Service, job: Job, *values: bytes, before: int) -> None:
    written = tuple(map(Blob, values))
    await service.write_stream(
        [StreamWrite(id=job.id, token=job.lease_token, values=written, sequence=before, outside=before)]
    ).one()


async def test_answer_a_job_from_the_list_of_awaited_signals(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await wait_for_approval(service)
    page = await visitor.open("/", size=PHONE)
    await page.get_by_label("Show navigation").check()
    await page.get_by_role("link", name="Signals", exact=True).click()
    await page.get_by_role("link", name="Answer").click()
    field = page.get_by_label("Value of approval")
    await field.fill('{"by": "ada",')
    await expect(page.get_by_text("Not valid JSON")).to_be_visible()
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(field).to_be_focused()  # nothing was sent
    await field.fill('{"by": "ada", "sum": 9007199254740993}')
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_role("status").filter(has_text="the job continues")).to_be_visible()
    await expect(page.locator("#state")).to_have_text("queued")
    await expect(page.locator("#signals")).to_be_hidden()
    (step,) = (await service.durable_states([job.id]).one()).steps
    assert step.value == Blob(b'{"by":"ada","sum":9007199254740993}')


async def test_a_button_answers_without_a_typed_value(visitor: Visitor, running: Server) -> None:
    job = await wait_for_approval(running.service)
    page = await visitor.open(f"/jobs/{job.key}")
    await page.get_by_role("button", name="Send true").click()
    await expect(page.get_by_role("status").filter(has_text="the job continues")).to_be_visible()
    (step,) = (await running.service.durable_states([job.id]).one()).steps
    assert step.value == Blob(b"true")


async def test_a_typed_value_survives_updates_and_the_form_leaves_with_the_wait(
    visitor: Visitor, running: Server
) -> None:
    service = running.service
    job = await wait_for_approval(service)
    page = await visitor.open(f"/jobs/{job.key}")
    await page.get_by_label("Value of approval").fill('{"half": "typed')
    await service.signal([Signal(id=job.id, name="comment", value=Blob(b'"by the way"'))]).one()
    await start(service, "other")  # an event of the queue refreshes the page
    await expect(page.get_by_text("by the way")).to_be_visible()
    await expect(page.get_by_label("Value of approval")).to_have_value('{"half": "typed')
    await service.signal([Signal(id=job.id, name="approval", value=Blob(b"true"))]).one()
    await expect(page.get_by_label("Value of approval")).to_have_count(0)


async def test_run_a_failed_job_again_from_a_step(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await start(service)
    for name in ("reserve", "charge", "ship"):
        await store(service, job, name)
    await service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one()
    page = await visitor.open(f"/jobs/{job.key}")
    again = page.get_by_role("button", name="Run again from charge")
    await again.click()
    question = page.get_by_role("dialog")
    await expect(question).to_contain_text("all steps stored after it are dropped")
    await question.get_by_role("button", name="Go back").click()
    await expect(again).to_be_focused()
    await again.click()
    await question.get_by_role("button", name="Run again from charge").click()
    await expect(page.get_by_role("status").filter(has_text="Dropped 2 steps")).to_be_visible()
    await expect(page.locator("#state")).to_have_text("queued")
    assert [step.name for step in (await service.durable_states([job.id]).one()).steps] == ["reserve"]


async def test_retry_a_failed_job_without_its_steps(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await start(service)
    await store(service, job, "charge")
    await service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one()
    page = await visitor.open(f"/jobs/{job.key}")
    await page.get_by_role("button", name="Retry from the beginning").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry from the beginning").click()
    await expect(page.get_by_role("status").filter(has_text="from its beginning")).to_be_visible()
    assert (await service.durable_states([job.id]).one()).steps == ()


async def test_steps_and_stream_appear_while_the_job_runs(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await start(service)
    page = await visitor.open(f"/jobs/{job.key}")
    await write(service, job, b'"first words"', before=0)
    await expect(page.locator("#stream")).to_contain_text("first words")
    await store(service, job, "charge")
    await write(service, job, b'"more words"', before=1)
    await expect(page.locator("#stream")).to_contain_text("more words")
    await expect(page.locator("#steps")).to_contain_text("charge")
    await page.get_by_role("link", name="Whole stream").click()
    await write(service, job, b'"the end"', before=2)
    await expect(page.locator("#rows")).to_contain_text("the end")
