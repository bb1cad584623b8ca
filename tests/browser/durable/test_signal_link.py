"""A signed link in a real browser: a person without a login answers a job."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.chromium import PHONE, Visitor
from windlass.core.durable import Suspend, Wait
from windlass.core.job import Job, NewJob
from windlass.core.operations import Take
from windlass.server import Server
from windlass.service import Service

pytestmark = pytest.mark.anyio


async def wait_for_approval(service: Service) -> Job:
    await service.enqueue([NewJob(queue="orders", name="fulfil")])
    (job,) = (await service.take(Take(queues=("orders",)))).jobs
    wait = Wait(name="wait", kind="signal", signal="approval")
    await service.suspend([Suspend(id=job.id, token=job.lease_token, waits=(wait,))]).one()
    return job


async def answers(service: Service, job: Job) -> list[bytes]:
    steps = (await service.durable_states([job.id]).one()).steps
    return [step.value.data for step in steps if step.value is not None]


async def test_a_button_answers_once(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await wait_for_approval(service)
    path = f"/signals/{(await service.signal_link(job.id, 'approval')).token}"
    page = await visitor.open(path, size=PHONE, dark=True)
    assert await answers(service, job) == []
    await page.get_by_role("button", name="Yes", exact=True).click()
    await expect(page.get_by_role("heading", name="Answer sent")).to_be_visible()
    assert await answers(service, job) == [b"true"]


async def test_a_typed_answer_is_sent(visitor: Visitor, running: Server) -> None:
    service = running.service
    job = await wait_for_approval(service)
    page = await visitor.open(f"/signals/{(await service.signal_link(job.id, 'approval')).token}")
    await page.get_by_label("Or send another answer").select_option("Text")
    await page.get_by_label("Answer", exact=True).fill("it is fine")
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_text("The job continues with your answer.")).to_be_visible()
    assert await answers(service, job) == [b'"it is fine"']
