"""Forged requests: every action of the dashboard, as a page of another site would send it in the name of a logged-in
user. The actions come from the routes, so that a new action is tested too."""

from __future__ import annotations

import httpx
import pytest

from tests.dashboard.page_client import PageClient
from windlass import dashboard
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.scheduling.schedule import Schedule
from windlass.server import Server
from windlass.service import Service
from windlass.web.app.router import Router

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

# They need no session: the login, and signed links, whose address is the permission.
WITHOUT_SESSION = ("/login", "/signals/{link}")
POSTS = [route.path for route in Router(dashboard.ROUTES).routes if route.method == "POST"]
ACTIONS = [path for path in POSTS if path not in WITHOUT_SESSION]
PAGES = [route.path for route in Router(dashboard.ROUTES).routes if route.method == "GET" and "{" not in route.path]


async def _populated(service: Service) -> dict[str, str]:
    """Create an object for every action. Return the fields of all actions."""
    (made,) = await service.enqueue([NewJob(queue="mail", name="send")])
    assert not isinstance(made, Exception)
    await service.limit(Limit(name="nightly", matches=Matcher(queue="mail"), running=5))
    await service.schedule(Schedule(name="nightly", job=NewJob(queue="mail", name="n"), every_ms=86_400_000))
    job = format_id(made.id)
    fields = {
        "queue": "mail",
        "name": "nightly",
        "id": job,
        "ids": job,
        "payload": "{}",
        "state": "queued",
        "running": "1",
    }
    return fields | {"confirmed": "1", "revision": "1", "lease_ms": "1m"}


async def _everything(service: Service) -> list[bytes]:
    return [line async for line in service.export()][1:]


@pytest.fixture
def token(service: Service) -> str:
    return service.create_token(NewToken(name="me", roles=frozenset({Role.ADMIN}))).wait().text


async def _csrf(page_client: PageClient) -> str:
    return next(fields["csrf"] for _, fields in (await page_client.get("/queues")).forms if "csrf" in fields)


async def test_refuses_forged_forms(token: str, page_client: PageClient, running: Server, service: Service) -> None:
    fields = await _populated(service)
    await page_client.log_in(token)
    mine = await _csrf(page_client)
    async with httpx.AsyncClient(base_url=running.url, timeout=30, headers={"accept": "text/html"}) as client:
        other_client = PageClient(client)
        await other_client.log_in(token)
        theirs = await _csrf(other_client)
    assert mine != theirs
    before = await _everything(service)
    forged = {
        "no CSRF token": ({}, {}),
        "an empty CSRF token": ({"csrf": ""}, {}),
        "another visitor's": ({"csrf": theirs}, {}),
        "a kept password": ({}, {"authorization": "Basic YTpi"}),
        "an empty token": ({}, {"authorization": "Bearer"}),
        "another site": ({"csrf": mine}, {"sec-fetch-site": "cross-site"}),
        "another host of this site": ({"csrf": mine}, {"sec-fetch-site": "same-site"}),
        "another origin": ({"csrf": mine}, {"origin": "https://evil.example"}),
        "no origin": ({"csrf": mine}, {"origin": "null"}),
        "another port": ({"csrf": mine}, {"origin": "http://127.0.0.1:1"}),
    }
    for path in ACTIONS:
        for case, (more, headers) in forged.items():
            answer = await page_client.http.post(path, data=fields | more, headers=headers)
            assert answer.status_code in (400, 403), (path, case)
    assert await _everything(service) == before
    assert (await page_client.get("/")).status == 200  # the session still exists


async def test_get_requests_change_nothing(token: str, page_client: PageClient, service: Service) -> None:
    fields = await _populated(service)
    await page_client.log_in(token)
    before = await _everything(service)
    for path in ACTIONS:
        assert (await page_client.http.get(path, params=fields)).status_code == 405, path
    for path in PAGES:
        if path != "/live":
            await page_client.http.get(path, params={"csrf": await _csrf(page_client), "confirmed": "1"})
    assert await _everything(service) == before


async def test_login_replaces_a_planted_session(token: str, page_client: PageClient) -> None:
    page_client.http.cookies.set("windlass_session", "static.99999999999.planted")
    await page_client.log_in(token)
    jar = page_client.http.cookies.jar
    kept = [cookie.value for cookie in jar if cookie.name == "windlass_session" and cookie.domain]
    assert "static.99999999999.planted" not in kept


async def test_no_page_can_be_framed(page_client: PageClient) -> None:
    for path in ("/", "/login", "/nowhere", "/queues"):
        policy = (await page_client.http.get(path)).headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
