"""Every action of the dashboard, as a page of somebody else's would ask for it in the name of whoever looks at it: from
the routes themselves, so that a new one cannot be forgotten."""

from __future__ import annotations

import httpx
import pytest

from tests.dashboard.page_client import Looker
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

ACTIONS = [route.path for route in Router(dashboard.ROUTES).routes if route.method == "POST" and route.path != "/login"]
PAGES = [route.path for route in Router(dashboard.ROUTES).routes if route.method == "GET" and "{" not in route.path]


async def _populated(service: Service) -> dict[str, str]:
    """Something for every action to act on; and the fields that lead there."""
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


async def _csrf(looker: Looker) -> str:
    return next(fields["csrf"] for _, fields in (await looker.look("/queues")).forms if "csrf" in fields)


async def test_no_form_of_others_does_anything(token: str, looker: Looker, running: Server, service: Service) -> None:
    fields = await _populated(service)
    await looker.log_in(token)
    mine = await _csrf(looker)
    async with httpx.AsyncClient(base_url=running.url, timeout=30, headers={"accept": "text/html"}) as client:
        somebody = Looker(client)
        await somebody.log_in(token)
        theirs = await _csrf(somebody)
    assert mine != theirs
    before = await _everything(service)
    forged = {
        "nothing": ({}, {}),
        "an empty one": ({"csrf": ""}, {}),
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
        for what, (more, headers) in forged.items():
            answer = await looker.client.post(path, data=fields | more, headers=headers)
            assert answer.status_code in (400, 403), (path, what)
    assert await _everything(service) == before
    assert (await looker.look("/")).status == 200  # nobody was logged out


async def test_looking_changes_nothing(token: str, looker: Looker, service: Service) -> None:
    fields = await _populated(service)
    await looker.log_in(token)
    before = await _everything(service)
    for path in ACTIONS:
        assert (await looker.client.get(path, params=fields)).status_code == 405, path
    for path in PAGES:
        if path != "/live":
            await looker.client.get(path, params={"csrf": await _csrf(looker), "confirmed": "1"})
    assert await _everything(service) == before


async def test_a_session_that_was_there_before_the_login_is_not_the_one_after_it(token: str, looker: Looker) -> None:
    looker.client.cookies.set("windlass_session", "static.99999999999.planted")
    await looker.log_in(token)
    kept = [one.value for one in looker.client.cookies.jar if one.name == "windlass_session" and one.domain]
    assert "static.99999999999.planted" not in kept


async def test_no_page_stands_in_a_frame_of_others(looker: Looker) -> None:
    for path in ("/", "/login", "/nowhere", "/queues"):
        policy = (await looker.client.get(path)).headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
