"""The API documentation in a real browser; and the error monitor of the browser tests."""

from __future__ import annotations

import pytest
from playwright.async_api import Error, expect

from tests.browser.chromium import PHONE, Visitor
from tests.browser.conftest import Deployment

pytestmark = pytest.mark.anyio


async def test_shows_the_docs(reader: Visitor) -> None:
    for dark in (False, True):
        page = await reader.open("/docs", dark=dark, size=PHONE)
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Windlass")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


ERRORS = {
    "document.body.append(Object.assign(document.createElement('script'), {text: '1'}))": "policy: script-src-elem",
    # Some versions refuse a handler when it is parsed, others when it would first run.
    "document.body.insertAdjacentHTML('beforeend', '<p onclick=nowhere()>'); document.body.lastChild.click()": (
        "policy: script-src-attr"
    ),
    "document.body.insertAdjacentHTML('beforeend', '<b><i onfocus=nowhere()></b>')": "inline handler: i onfocus",
    "document.body.setAttribute('onblur', 'nowhere()')": "inline handler: body onblur",
    "document.body.insertAdjacentHTML('beforeend', '<img src=/nowhere>')": "policy: img-src",
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
