"""Login, sessions and roles in a real browser, and forged forms of other sites."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.chromium import Visitor
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.server import Server
from windlass.service import Service

pytestmark = pytest.mark.anyio

FORGED = (
    '<form method="post" action="{url}/do/pause-queue"><input name="queue" value="mail"><button>Win</button></form>'
)


@pytest.fixture
def tokens(service: Service) -> dict[str, str]:
    """Created before the server starts, so that the server requires a token."""
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    roles = {"grace": Role.ADMIN, "ada": Role.READ}
    return {
        name: service.create_token(NewToken(name=name, roles=frozenset({role}))).wait().text
        for name, role in roles.items()
    }


async def log_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.keyboard.press("Enter")


async def test_a_session_from_login_to_logout(tokens: dict[str, str], visitor: Visitor, service: Service) -> None:
    visitor.monitor.tolerate("401")
    page = await visitor.open("/jobs?state=queued")
    await expect(page.get_by_label("Token")).to_be_focused()
    await log_in(page, "wl_wrong")
    await expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")
    await log_in(page, tokens["grace"])
    await expect(page).to_have_url(re.compile(r"/jobs\?state=queued$"))
    await expect(page.get_by_role("link", name="send")).to_be_visible()
    assert await page.evaluate("document.cookie") == ""
    (cookie,) = [found for found in await page.context.cookies() if found.get("name") == "windlass_session"]
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")

    await page.goto("/")
    await page.get_by_role("button", name="Pause mail").click()
    await expect(page.get_by_role("status").filter(has_text="mail is paused")).to_be_visible()
    (entry,) = service.audits().wait().entries
    assert (entry.who, entry.what, entry.target) == ("grace", "pause_queue", "mail")

    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Token")).to_be_visible()
    await page.go_back()
    await expect(page.get_by_label("Token")).to_be_visible()  # the old page is not shown


async def test_the_role_read_sees_no_buttons(tokens: dict[str, str], visitor: Visitor, service: Service) -> None:
    visitor.monitor.tolerate("401")
    page = await visitor.open("/login")
    await log_in(page, tokens["ada"])
    await expect(page.get_by_role("row", name="mail")).to_be_visible()
    for path in ("/queues", "/queues/mail", "/jobs", "/schedules", "/limits", "/"):
        await page.goto(path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert await page.locator("form[action*='/do/'] button").count() == 0, path
    service.revoke_token("ada").wait()
    await expect(page.get_by_label("Token")).to_be_visible()  # the open page notices the revocation


async def test_refuses_a_forged_form(visitor: Visitor, running: Server) -> None:
    """Without tokens, network access is the only permission that another site could abuse."""
    visitor.monitor.tolerate("40[03]")
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/")
    forged_page = FORGED.format(url=running.url)
    await page.context.route(
        "http://others.example/", lambda route: route.fulfill(body=forged_page, content_type="text/html")
    )
    await page.goto("http://others.example/")
    await page.get_by_role("button").click()
    await expect(page).to_have_url(re.compile("/do/pause-queue"))
    assert await running.service.pauses("mail") == []
