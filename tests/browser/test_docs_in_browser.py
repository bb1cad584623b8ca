"""The API documentation in a real browser; and the error monitor of the browser tests."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Error, Locator, Page, expect

from tests.browser.chromium import PHONE, Visitor
from tests.browser.conftest import Deployment
from tests.browser.page_audit import find_faults
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.service import Service

pytestmark = pytest.mark.anyio


async def test_shows_the_docs(reader: Visitor) -> None:
    for dark in (False, True):
        page = await reader.open("/docs", dark=dark, size=PHONE)
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Windlass")
        for path in ("/docs", "/docs/producing", "/docs/shapes", "/docs/lightjq", "/docs/downloader"):
            await page.goto(path)
            await page.wait_for_load_state()
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert await find_faults(page) == [], path


async def test_addresses_of_the_former_single_page_lead_to_the_operation(
    reader: Visitor, deployment: Deployment
) -> None:
    page = await reader.open("/docs#op-enqueue")
    await expect(page).to_have_url(f"{deployment.url}/docs/producing#op-enqueue")
    await page.goto("/docs#shape-Problem")
    await expect(page).to_have_url(f"{deployment.url}/docs/shapes#shape-Problem")


async def test_the_docs_are_read_without_scripts(reader: Visitor) -> None:
    page = await reader.open("/docs#op-enqueue", scripts=False)
    await page.locator("#op-enqueue a").click()
    await expect(page.get_by_role("heading", name="Enqueue one job")).to_be_visible()
    await expect(page.get_by_role("button", name="Try it")).to_have_count(0)


async def open_form(page: Page, operation: str) -> Locator:
    section = page.locator(f"#op-{operation}")
    await section.get_by_role("button", name="Try it").click()
    return section


async def test_a_request_is_tried_and_a_change_is_confirmed(visitor: Visitor, service: Service) -> None:
    page = await visitor.open("/docs/producing")
    section = await open_form(page, "enqueue")
    body = section.get_by_label("Body, application/json")
    await expect(body).to_have_value(re.compile('"queue"'))
    await body.fill('{"queue": "docs", "name": "it\'s", "payload": {"n": 12345678901234567890}}')
    await expect(section.locator("pre").filter(has_text="curl -X POST")).to_contain_text("it'\\''s")
    assert await find_faults(page) == []
    await section.get_by_role("button", name="Send").click()
    await expect(section.get_by_text("may change the deployment")).to_be_visible()
    assert await service.queues() == []
    await section.get_by_role("button", name="Cancel").click()
    await section.get_by_role("button", name="Send").click()
    await section.get_by_role("button", name="Yes, send POST").click()
    await expect(section.get_by_role("status")).to_contain_text("201 Created")
    await expect(section.get_by_label("Body of the answer")).to_contain_text('"id": "')
    assert await service.queues() == ["docs"]

    await page.goto("/docs/looking")
    section = await open_form(page, "jobs")
    await section.get_by_label("queue (query)").fill("docs")
    await section.get_by_label("state (query)").fill("queued")
    await section.get_by_role("button", name="Send").click()
    await expect(section.get_by_role("status")).to_contain_text("200 OK")
    await expect(section.get_by_label("Body of the answer")).to_contain_text("12345678901234567890")  # as it was sent
    await section.get_by_text("Headers", exact=True).click()
    await expect(section.get_by_text("content-type: application/json")).to_be_visible()


async def test_a_stream_is_shown_while_it_comes_and_is_stopped(visitor: Visitor, service: Service) -> None:
    page = await visitor.open("/docs/following")
    section = await open_form(page, "events")
    await section.get_by_role("button", name="Send").click()
    await expect(section.get_by_role("status")).to_contain_text("200 OK")
    await service.enqueue([NewJob(queue="mail", name="send")])
    await expect(section.get_by_label("Body of the answer")).to_contain_text("mail")
    await section.get_by_role("button", name="Stop").click()
    await expect(section.get_by_role("status")).to_contain_text("(stopped)")


class TestWithTokens:
    """The session of the dashboard reads; a change needs a token, which other sites do not have."""

    @pytest.fixture
    def tokens(self, service: Service) -> str:
        """Created before the server starts. The text of an admin token."""
        return service.create_token(NewToken(name="grace", roles=frozenset({Role.ADMIN}))).wait().text

    async def test_a_session_reads_and_a_token_changes(self, tokens: str, visitor: Visitor, service: Service) -> None:
        visitor.monitor.tolerate("401")
        page = await visitor.open("/docs/queues")  # without a session
        section = await open_form(page, "queues")
        await section.get_by_role("button", name="Send").click()
        await expect(section.get_by_role("status")).to_contain_text("401")

        await page.goto("/login")
        await page.get_by_label("Token").fill(tokens)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        await page.goto("/docs/queues")
        section = await open_form(page, "queues")
        await section.get_by_role("button", name="Send").click()
        await expect(section.get_by_role("status")).to_contain_text("200 OK")

        section = await open_form(page, "pause_queue")
        send = section.get_by_role("button", name="Yes, send POST")
        await section.get_by_role("button", name="Send").click()
        await send.click()
        await expect(section.get_by_role("status")).to_contain_text("401")
        assert (await service.pauses("mail")) == []
        await section.get_by_label("Token").fill(tokens)
        await expect(section.locator(".try pre").filter(has_text="curl")).to_contain_text("Bearer $TOKEN")
        assert tokens not in (await section.text_content() or "")
        await section.get_by_role("button", name="Send").click()
        await send.click()
        await expect(section.get_by_role("status")).to_contain_text("200 OK")
        assert (await service.stats(["mail"]))[0].is_paused
        assert await page.evaluate("Object.values({...localStorage, ...sessionStorage}).join()") == ""
        await page.reload()
        section = await open_form(page, "pause_queue")
        await expect(section.get_by_label("Token")).to_have_value("")


ERRORS = {
    "document.body.append(Object.assign(document.createElement('script'), {text: '1'}))": "policy: script-src-elem",
    # Some versions refuse a handler when it is parsed, others when it would first run.
    "document.body.insertAdjacentHTML('beforeend', '<p onclick=nowhere()>'); document.body.lastChild.click()": (
        "policy: script-src-attr"
    ),
    "document.body.insertAdjacentHTML('beforeend', '<b><i onfocus=nowhere()></b>')": "inline handler: i onfocus",
    "document.body.setAttribute('onblur', 'nowhere()')": "inline handler: body onblur",
    "document.body.insertAdjacentHTML('beforeend', '<img src=//nowhere.example/x>')": "policy: img-src",
    "setTimeout(() => nowhere())": "exception: nowhere is not defined",
    "console.error('oh')": "console: oh",
}


async def test_the_error_monitor_records_errors(visitor: Visitor) -> None:
    page = await visitor.open("/docs")
    assert visitor.monitor.errors == []
    for script, error in ERRORS.items():
        await page.evaluate(f"() => {{ {script} }}")
        await visitor.monitor.wait_for(error)
    await page.goto("/nowhere")
    await visitor.monitor.wait_for("answer: 404 GET .*/nowhere")
    with pytest.raises(Error):
        await page.goto("http://127.0.0.1:1/")  # browsers refuse this port
    await visitor.monitor.wait_for("failed: net::ERR_UNSAFE_PORT GET")
    visitor.monitor.tolerate("")


async def test_a_populated_deployment_has_jobs_in_every_state(deployment: Deployment) -> None:
    service = deployment.service
    stats = await service.stats(await service.queues())
    for state in ("queued", "scheduled", "waiting", "running", "finished", "failed", "cancelled", "history"):
        assert sum(getattr(queue, state) for queue in stats), state
    assert len(await service.workers()) == 4
