"""The dashboard inside another program, in a real browser: login, links, forms and live updates below its mount, and
its cookies beside those of the host."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, RedirectResponse
from playwright.async_api import Browser, Route, expect

from tests.browser.chromium import Visitor, open_visitor
from tests.server.mounted.host_server import Host, hosted
from windlass import Access, Windlass, asgi
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio

MOUNT = "/ops/jobs"
LOGIN = '<link rel="icon" href="data:,"><h1>Host</h1><form method="post"><button>Enter</button></form>'


def role_of(scope: Any) -> Access | None:
    """Know the user by a cookie of the host."""
    cookies = dict(scope["headers"]).get(b"cookie", b"").decode()
    found = re.search(r"\buser=(\w+)", cookies)
    return Access(role="admin" if found[1] == "grace" else "read", name=found[1]) if found else None


@pytest.fixture
async def host(store: Store, service: Service) -> AsyncIterator[Host]:
    """FastAPI program with two mounts, one behind its own login and one with tokens."""
    service.enqueue([NewJob(queue="mail", name="send") for _ in range(3)]).wait()
    app = Windlass()
    app.connect(store)
    api = FastAPI()
    people, machines = asgi(app, role=role_of, login_url="/login"), asgi(app)
    api.mount(MOUNT, people)
    api.mount("/tokens", machines)

    @api.get("/login")
    async def login() -> HTMLResponse:
        return HTMLResponse(
            '<link rel="icon" href="data:,"><h1>Host</h1><form method="post"><button>Enter</button></form>'
        )

    @api.post("/login")
    async def enter(next: str = "/") -> RedirectResponse:  # noqa: A002
        answer = RedirectResponse(next, status_code=303)
        answer.set_cookie("user", "grace", httponly=True, samesite=None)
        return answer

    async with hosted(api) as host:
        yield host
        await people.__aexit__()
        await machines.__aexit__()


@pytest.fixture
async def host_visitor(browser: Browser, host: Host) -> AsyncIterator[Visitor]:
    async with open_visitor(browser, host.url) as visitor:
        yield visitor


async def test_a_person_works_behind_the_login_of_the_host(host_visitor: Visitor, host: Host, service: Service) -> None:
    page = await host_visitor.open(f"{MOUNT}/queues/mail?state=queued")
    await expect(page.get_by_role("heading", name="Host")).to_be_visible()
    await page.get_by_role("button", name="Enter").click()
    await expect(page).to_have_url(f"{host.url}{MOUNT}/queues/mail?state=queued")
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))

    pages = page.get_by_role("navigation", name="Pages")
    for item in (await pages.get_by_role("link").all_inner_texts())[::4]:
        await pages.get_by_role("link", name=item.strip(), exact=True).click()
        await expect(pages.locator("[aria-current=page]")).to_have_text(item.strip())
    await page.get_by_role("link", name="API").click()
    await expect(page.locator("h1")).to_contain_text("Windlass")
    await page.get_by_role("link", name="openapi.json", exact=True).click()
    await page.goto(f"{MOUNT}/")

    await page.get_by_role("button", name="Pause mail").click()
    await expect(page.get_by_role("status").filter(has_text="mail is paused")).to_be_visible()
    (entry,) = service.audits().wait().entries
    assert (entry.who, entry.what) == ("grace", "pause_queue")
    service.enqueue([NewJob(queue="images", name="resize")]).wait()
    await expect(page.get_by_role("row", name="images")).to_be_visible()  # by its live updates

    await page.get_by_label("Search jobs by id, name or tag").fill("resize")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="resize", exact=True).first.click()
    await expect(page).to_have_url(re.compile(rf"{MOUNT}/jobs/[0-9a-f-]+$"))
    assert [url for url in urls if not url.startswith(f"{host.url}{MOUNT}/")] == []
    paths = {str(cookie.get("name")): cookie.get("path") for cookie in await page.context.cookies()}
    assert paths == {"user": "/", "windlass_visit": MOUNT}
    await expect(page.get_by_role("button", name="Log out")).to_have_count(0)  # at the host


async def test_tokens_log_in_below_their_mount(host_visitor: Visitor, host: Host, service: Service) -> None:
    host_visitor.monitor.tolerate("401")
    token = service.create_token(NewToken(name="ada", roles=frozenset({Role.ADMIN}))).wait().text
    page = await host_visitor.open("/tokens/jobs?state=queued")
    await page.get_by_label("Token").fill(token)
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{host.url}/tokens/jobs?state=queued")
    (cookie,) = [cookie for cookie in await page.context.cookies() if cookie.get("name") == "windlass_session"]
    assert (cookie.get("path"), cookie.get("httpOnly"), cookie.get("sameSite")) == ("/tokens", True, "Strict")
    await page.goto(f"{MOUNT}/")
    await expect(page.get_by_role("heading", name="Host")).to_be_visible()  # the session counts at its mount only
    await page.goto("/tokens/")
    await page.get_by_role("button", name="Pause mail").click()
    await expect(page.get_by_role("status").filter(has_text="mail is paused")).to_be_visible()
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_url(f"{host.url}/tokens/login")


async def test_another_site_acts_by_no_form(host_visitor: Visitor, host: Host, service: Service) -> None:
    """The host's cookie has no SameSite here: the browser attaches it to a form of another site."""
    host_visitor.monitor.tolerate("40[03]")
    page = await host_visitor.open(f"{MOUNT}/")
    await page.get_by_role("button", name="Enter").click()
    await expect(page.get_by_role("button", name="Pause mail")).to_be_visible()
    action = ""

    async def send_form(route: Route) -> None:
        form = '<form method="post" action="{}"><input name="queue" value="mail"><button>Win</button></form>'
        await route.fulfill(body=form.format(f"{host.url}{action}"), content_type="text/html")

    await page.context.route("http://others.example/", send_form)
    for action in (f"{MOUNT}/do/pause-queue", f"{MOUNT}/api/v1/queues/mail/pause"):
        await page.goto("http://others.example/")
        await page.get_by_role("button").click()
        await expect(page).to_have_url(f"{host.url}{action}")
        await expect(page.get_by_text(re.compile("another origin|other site"))).to_be_visible()
    assert service.pauses("mail").wait() == []


async def test_an_open_page_follows_a_lost_login(host_visitor: Visitor, host: Host, service: Service) -> None:
    host_visitor.monitor.tolerate("401")
    page = await host_visitor.open(f"{MOUNT}/")
    await page.get_by_role("button", name="Enter").click()
    await expect(page.get_by_role("row", name="mail")).to_be_visible()
    await page.context.clear_cookies(name="user")
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    await expect(page.get_by_role("heading", name="Host")).to_be_visible()
