"""The page of the API, in a real browser; and that what goes wrong in a page is heard."""

from __future__ import annotations

import pytest
from playwright.async_api import Error, expect

from tests.browser.browsing import PHONE, Visitor
from tests.browser.conftest import Ground

pytestmark = pytest.mark.anyio


async def test_docs_are_shown(reader: Visitor) -> None:
    for dark in (False, True):
        page = await reader.open("/docs", dark=dark, size=PHONE)
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Windlass")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


DEEDS = {
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


async def test_what_goes_wrong_in_a_page_is_heard(visitor: Visitor) -> None:
    page = await visitor.open("/docs")
    assert visitor.watch.complaints == []
    for deed, heard in DEEDS.items():
        await page.evaluate(f"() => {{ {deed} }}")
        await visitor.watch.hears(heard)
    await page.goto("/nowhere")
    await visitor.watch.hears("answer: 404 GET .*/nowhere")
    with pytest.raises(Error):
        await page.goto("http://127.0.0.1:1/")  # no browser asks this port
    await visitor.watch.hears("failed: net::ERR_UNSAFE_PORT GET")
    visitor.watch.tolerates("")


async def test_a_populated_deployment_has_jobs_in_every_state(ground: Ground) -> None:
    service = ground.service
    stats = await service.stats(await service.queues())
    for state in ("queued", "scheduled", "waiting", "running", "finished", "failed", "cancelled", "history"):
        assert sum(getattr(one, state) for one in stats), state
    assert len(await service.workers()) == 3
