"""Attacks by pages of another origin, in the browser of a logged-in user: they send every action of the dashboard as a
request and as an image, and a destructive action as a form; they frame the dashboard, open it and read it. They even
know the user's CSRF token. The server refuses all of it."""

from __future__ import annotations

import asyncio
import html
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiohttp import web
from playwright.async_api import BrowserContext, Page, expect
from prometheus_client.parser import text_string_to_metric_families

from tests.browser.chromium import Visitor
from tests.browser.error_monitor import TIMEOUT_S
from windlass import dashboard
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.scheduling.schedule import Schedule
from windlass.server import Server
from windlass.service import Service
from windlass.web.app.router import Router

pytestmark = pytest.mark.anyio

# Neither uses the session: a login makes it, and a signed link is its own permission.
WITHOUT_SESSION = ("/login", "/signals/{link}")
ACTIONS = [
    route.path
    for route in Router(dashboard.ROUTES).routes
    if route.method == "POST" and route.path not in WITHOUT_SESSION
]
ATTEMPTS = (Path(__file__).parent / "forged_requests.js").read_text()
DELETE = "/do/delete-jobs"
# Another port is another origin of the same site, whose requests carry the cookie; another name is another site.
SITES = ("127.0.0.1", "localhost")


@pytest.fixture
def token(service: Service) -> str:
    return service.create_token(NewToken(name="grace", roles=frozenset({Role.ADMIN}))).wait().text


@pytest.fixture
async def others() -> AsyncIterator[int]:
    """Start another server and yield its port. Its page sends the requested form as soon as it is loaded."""

    async def page(request: web.Request) -> web.Response:
        inputs = "".join(
            f'<input name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in request.query.items()
            if name != "to"
        )
        form = f'<form method="post" action="{html.escape(request.query.get("to", ""))}">{inputs}</form>'
        script = "<script>onload = () => document.forms[0].submit()</script>" if "to" in request.query else ""
        return web.Response(text=f"<!doctype html><title>others</title>{form}{script}", content_type="text/html")

    application = web.Application()
    application.router.add_get("/", page)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


async def _populated(service: Service) -> dict[str, str]:
    """Create an object for every action. Return the fields of all actions."""
    (added,) = await service.enqueue([NewJob(queue="mail", name="send")])
    assert not isinstance(added, Exception)
    await service.limit(Limit(name="nightly", matches=Matcher(queue="mail"), running=5))
    await service.schedule(Schedule(name="nightly", job=NewJob(queue="mail", name="n"), every_ms=86_400_000))
    job = format_id(added.id)
    return {
        "queue": "mail", "name": "nightly", "id": job, "ids": job, "payload": "{}", "state": "queued", "running": "1",
        "confirmed": "1", "revision": "1", "lease_ms": "1m",
    }  # fmt: skip


async def _everything(service: Service) -> list[bytes]:
    return [line async for line in service.export()][1:]


async def _answered(running: Server, token: str) -> Counter[tuple[str, str, int]]:
    """Return the number of responses by method, route and status, as the server counts them."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as client:
        text = (await client.get(f"{running.url}/metrics")).text
    return Counter(
        {
            (sample.labels["method"], sample.labels["route"], int(sample.labels["status"])): int(sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "windlass_server_answers_total"
        }
    )


async def _all_answered(
    running: Server, token: str, before: Counter[tuple[str, str, int]]
) -> Counter[tuple[str, str, int]]:
    """Wait for the responses since `before`. The server counts a response shortly after sending it."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            seen = await _answered(running, token) - before
            actions = sum(count for (method, route, _), count in seen.items() if method == "POST" and route in ACTIONS)
            if actions > 2 * len(ACTIONS) and seen["", "", 405] >= len(ACTIONS):
                return seen


async def _logged_in(visitor: Visitor, token: str) -> tuple[Page, str]:
    """Log in. Return a page of the dashboard and its CSRF token."""
    page = await visitor.open("/login")
    await page.get_by_label("Token").fill(token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("row", name="mail")).to_be_visible()
    value = await page.locator("input[name=csrf]").first.get_attribute("value")
    assert value
    return page, value


async def _open(context: BrowserContext, url: str) -> Page:
    page = await context.new_page()
    await page.goto(url)
    return page


@pytest.mark.parametrize("site", SITES)
async def test_another_origin_can_neither_act_nor_read(
    token: str, visitor: Visitor, running: Server, service: Service, others: int, site: str
) -> None:
    visitor.monitor.tolerate("")  # every attempt is an error
    fields = await _populated(service)
    page, secret = await _logged_in(visitor, token)
    fields |= {"csrf": secret}
    before, answered = await _everything(service), await _answered(running, token)

    foreign = await _open(page.context, f"http://{site}:{others}/")
    attempts = {"dashboard": running.url, "actions": ACTIONS, "destroying": DELETE, "fields": fields}
    await foreign.evaluate(ATTEMPTS, attempts)
    assert await _everything(service) == before
    seen = await _all_answered(running, token, answered)
    for action in ACTIONS:  # each was sent twice, and refused
        refused = sum(seen["POST", action, status] for status in (400, 401, 403, 415))
        assert refused == (3 if action == DELETE else 2), (action, seen)
    assert seen["", "", 405] == len(ACTIONS)

    await visitor.monitor.wait_for("frame-ancestors")
    assert not [frame.url for frame in foreign.frames if frame.url.startswith(running.url)]

    await _try_to_read(foreign, running.url)
    await _try_to_submit(page.context, f"http://{site}:{others}/", running.url + DELETE, fields)
    assert await _everything(service) == before

    await page.reload()  # the session still exists, and the same form works on our page
    await expect(page.get_by_role("row", name="mail")).to_be_visible()
    await _submit(page, DELETE, fields)
    await expect(page.get_by_role("status").filter(has_text="deleted")).to_be_visible()
    assert await _everything(service) != before
    assert [entry.what for entry in (await service.audits()).entries if entry.outcome == "done"] == ["delete_jobs"]


async def _try_to_read(foreign: Page, url: str) -> None:
    async with foreign.expect_popup() as opening:
        await foreign.evaluate("url => { window.opened = window.open(url) }", f"{url}/queues")
    opened = await opening.value
    await expect(opened.get_by_role("heading", level=1)).to_be_visible()
    # The opener policy separates the windows, shortly after the page is loaded.
    await foreign.wait_for_function("opened.closed")
    read = "() => { try { return opened.document.body.innerText } catch (error) { return error.name } }"
    assert await foreign.evaluate(read) in ("", "SecurityError", "TypeError")
    # A link from another site loads the page a second time, with the cookie: this waits for that navigation.
    await opened.wait_for_function("window.opener === null")
    await opened.close()


async def _try_to_submit(context: BrowserContext, url: str, to: str, fields: dict[str, str]) -> None:
    """Let the page submit its form as a navigation."""
    page = await _open(context, str(httpx.URL(url, params=fields | {"to": to})))
    await expect(page).to_have_url(to)
    await page.wait_for_load_state()
    await expect(page.get_by_text("deleted")).to_have_count(0)


async def _submit(page: Page, action: str, fields: dict[str, str]) -> None:
    await page.evaluate(
        """([action, fields]) => {
            const form = document.body.appendChild(document.createElement("form"));
            Object.assign(form, { method: "post", action });
            for (const [name, value] of Object.entries(fields)) {
                Object.assign(form.appendChild(document.createElement("input")), { name, value });
            }
            HTMLFormElement.prototype.submit.call(form);
        }""",
        [action, fields],
    )
