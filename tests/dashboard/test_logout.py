"""Logout ends a session on the server: copies of its cookie are refused in every process."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.dashboard.page_client import Page, PageClient
from tests.support.server_process import ServerProcess, store_options, wait_until
from windlass.core.access.tokens import NewToken, Role
from windlass.dashboard import live
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store
from windlass.web.app import sessions
from windlass.web.app.token_table import ENDED_PER_TOKEN_MAX

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

STATIC = "a-token-from-the-settings"


@pytest.fixture
def server_settings() -> Settings:
    return Settings(port=0, bedrock_port=None, roles="api", token=STATIC)


def cookie_of(session: str) -> dict[str, str]:
    return {"cookie": f"{sessions.COOKIE}={session}"}


async def log_in(page_client: PageClient, token: str = STATIC) -> str:
    """Start a session. Return its cookie, which an attacker could have copied."""
    page_client.http.cookies.clear()
    await page_client.log_in(token)
    return page_client.http.cookies[sessions.COOKIE]


async def log_out(page_client: PageClient) -> None:
    page = await page_client.get("/")
    assert (await page_client.send("/logout", page.form("/logout"))).status_code == 303


async def status_with(page_client: PageClient, session: str, path: str = "/") -> int:
    page_client.http.cookies.clear()
    return (await page_client.http.get(path, headers=cookie_of(session) | {"accept": "*/*"})).status_code


async def test_refuses_a_copied_cookie_after_logout(page_client: PageClient) -> None:
    copied = await log_in(page_client)
    await log_out(page_client)
    for path in ("/", "/api/v1/queues", "/live"):
        assert await status_with(page_client, copied, path) == 401


async def test_other_sessions_of_the_token_continue(page_client: PageClient, service: Service) -> None:
    token = service.create_token(NewToken(name="team", roles=frozenset({Role.READ}))).wait().text
    others = await log_in(page_client, token)
    mine = await log_in(page_client, token)
    assert mine != others
    await log_out(page_client)
    assert await status_with(page_client, mine) == 401
    assert await status_with(page_client, others) == 200


async def test_a_renewed_cookie_ends_with_its_session(page_client: PageClient, service: Service) -> None:
    made = service.create_token(NewToken(name="me", roles=frozenset({Role.READ}))).wait()
    old = sessions.issue_session(made.token.id, made.token.digest, time.time() - sessions.LIFETIME_S + 3600)
    page_client.http.cookies.set(sessions.COOKIE, old.text)
    answer = await page_client.http.get("/")
    renewed = answer.cookies[sessions.COOKIE]
    assert renewed != old.text
    page_client.http.cookies.clear()
    page_client.http.cookies.set(sessions.COOKIE, old.text)
    await log_out(page_client)
    assert await status_with(page_client, renewed) == 401


async def test_does_not_renew_a_forged_cookie(page_client: PageClient, service: Service) -> None:
    """The header authenticates the request, not the cookie: a renewed cookie would be a session of an admin."""
    token = service.create_token(NewToken(name="reader", roles=frozenset({Role.READ}))).wait().text
    made_up = f"{sessions.STATIC_ID}.{int(time.time()) + 60}.made.up"
    answer = await page_client.http.get("/", headers=cookie_of(made_up) | {"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert sessions.COOKIE not in answer.headers.get("set-cookie", "")


async def test_logout_ends_live_streams_of_the_session(
    page_client: PageClient, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHECK_INTERVAL_S", 0.5)
    copied = await log_in(page_client)
    async with (
        httpx.AsyncClient(base_url=running.url, timeout=30) as attacker,
        attacker.stream("GET", "/live", headers=cookie_of(copied)) as stream,
    ):
        assert stream.status_code == 200
        await log_out(page_client)
        async with asyncio.timeout(20):
            async for _ in stream.aiter_lines():
                pass


async def test_logout_with_an_invalid_cookie_does_nothing(page_client: PageClient, service: Service) -> None:
    await log_in(page_client)
    fields = (await page_client.get("/")).form("/logout")
    page_client.http.cookies.delete(sessions.COOKIE)
    page_client.http.cookies.set(sessions.COOKIE, "static.99999999999.made.up")
    assert (await page_client.send("/logout", fields)).status_code == 303
    assert service.tokens().wait().ended_sessions == {}


async def test_too_many_logouts_of_a_token_end_all_its_sessions(page_client: PageClient, service: Service) -> None:
    """The number of ended sessions kept per token is bounded; the bound must not undo a logout."""
    until_s = int(time.time()) + sessions.LIFETIME_S
    for number in range(ENDED_PER_TOKEN_MAX):
        service.end_session(f"{sessions.STATIC_ID}.{number}", until_s).wait()
    await log_in(page_client)
    await log_out(page_client)  # the server now knows all ended sessions
    others, mine = await log_in(page_client), await log_in(page_client)
    assert await status_with(page_client, others) == 200
    page_client.http.cookies.set(sessions.COOKIE, mine)
    await log_out(page_client)
    assert await status_with(page_client, mine) == 401
    assert await status_with(page_client, others) == 401
    assert len(service.tokens().wait().ended_sessions) <= ENDED_PER_TOKEN_MAX + 2
    await log_in(page_client)
    assert (await page_client.get("/")).status == 200


def test_logout_applies_to_every_process(store: Store) -> None:
    store.open_sync()
    with (
        ServerProcess(store_options(store), token=STATIC) as first,
        ServerProcess(store_options(store), token=STATIC) as second,
        httpx.Client(base_url=first.url, timeout=30, headers={"accept": "text/html"}) as client,
    ):
        form = Page(client.get("/login")).form("/login")
        client.post("/login", data=form | {"token": STATIC})
        copied = cookie_of(client.cookies[sessions.COOKIE])
        assert [httpx.get(server.url, headers=copied).status_code for server in (first, second)] == [200, 200]
        client.post("/logout", data=Page(client.get("/")).form("/logout"))
        assert httpx.get(first.url, headers=copied).status_code == 401
        wait_until(lambda: httpx.get(second.url, headers=copied).status_code == 401)
    store.close_sync()
