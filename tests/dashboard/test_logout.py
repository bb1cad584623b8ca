"""Logout ends a session on the server: copies of its cookie open nothing, in any process."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.dashboard.page_client import Looker, Page
from tests.support.server_process import ServingProcess, of_store, until
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


async def log_in(looker: Looker, token: str = STATIC) -> str:
    """Begin a session; answer its cookie, which a thief could have copied."""
    looker.client.cookies.clear()
    await looker.log_in(token)
    return looker.client.cookies[sessions.COOKIE]


async def log_out(looker: Looker) -> None:
    page = await looker.look("/")
    assert (await looker.send("/logout", page.form("/logout"))).status_code == 303


async def status_with(looker: Looker, session: str, path: str = "/") -> int:
    looker.client.cookies.clear()
    return (await looker.client.get(path, headers=cookie_of(session) | {"accept": "*/*"})).status_code


async def test_a_copied_cookie_opens_nothing_after_logout(looker: Looker) -> None:
    copied = await log_in(looker)
    await log_out(looker)
    for path in ("/", "/api/v1/queues", "/live"):
        assert await status_with(looker, copied, path) == 401


async def test_other_sessions_of_the_token_go_on(looker: Looker, service: Service) -> None:
    token = service.create_token(NewToken(name="team", roles=frozenset({Role.READ}))).wait().text
    others = await log_in(looker, token)
    mine = await log_in(looker, token)
    assert mine != others
    await log_out(looker)
    assert await status_with(looker, mine) == 401
    assert await status_with(looker, others) == 200


async def test_a_renewed_cookie_ends_with_its_session(looker: Looker, service: Service) -> None:
    made = service.create_token(NewToken(name="me", roles=frozenset({Role.READ}))).wait()
    old = sessions.issue_session(made.token.id, made.token.digest, time.time() - sessions.LIFETIME_S + 3600)
    looker.client.cookies.set(sessions.COOKIE, old.text)
    answer = await looker.client.get("/")
    renewed = answer.cookies[sessions.COOKIE]
    assert renewed != old.text
    looker.client.cookies.clear()
    looker.client.cookies.set(sessions.COOKIE, old.text)
    await log_out(looker)
    assert await status_with(looker, renewed) == 401


async def test_a_cookie_that_was_made_up_is_not_renewed_for_another_token(looker: Looker, service: Service) -> None:
    """It would be a session of an admin: whose request it is was shown by the header, not by the cookie."""
    token = service.create_token(NewToken(name="reader", roles=frozenset({Role.READ}))).wait().text
    made_up = f"{sessions.STATIC_ID}.{int(time.time()) + 60}.made.up"
    answer = await looker.client.get("/", headers=cookie_of(made_up) | {"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert sessions.COOKIE not in answer.headers.get("set-cookie", "")


async def test_a_live_page_of_the_session_ends_with_it(
    looker: Looker, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHECK_INTERVAL_S", 0.5)
    copied = await log_in(looker)
    async with (
        httpx.AsyncClient(base_url=running.url, timeout=30) as thief,
        thief.stream("GET", "/live", headers=cookie_of(copied)) as stream,
    ):
        assert stream.status_code == 200
        await log_out(looker)
        async with asyncio.timeout(20):
            async for _ in stream.aiter_lines():
                pass


async def test_a_cookie_that_is_none_is_logged_out_without_a_word(looker: Looker, service: Service) -> None:
    await log_in(looker)
    fields = (await looker.look("/")).form("/logout")
    looker.client.cookies.delete(sessions.COOKIE)
    looker.client.cookies.set(sessions.COOKIE, "static.99999999999.made.up")
    assert (await looker.send("/logout", fields)).status_code == 303
    assert service.tokens().wait().ended_sessions == {}


async def test_too_many_logouts_of_a_token_end_all_its_sessions(looker: Looker, service: Service) -> None:
    """The names kept for a token are bounded; the bound must not undo a logout."""
    until_s = int(time.time()) + sessions.LIFETIME_S
    for number in range(ENDED_PER_TOKEN_MAX):
        service.end_session(f"{sessions.STATIC_ID}.{number}", until_s).wait()
    await log_in(looker)
    await log_out(looker)  # from then on the server knows of all the others
    others, mine = await log_in(looker), await log_in(looker)
    assert await status_with(looker, others) == 200
    looker.client.cookies.set(sessions.COOKIE, mine)
    await log_out(looker)
    assert await status_with(looker, mine) == 401
    assert await status_with(looker, others) == 401
    assert len(service.tokens().wait().ended_sessions) <= ENDED_PER_TOKEN_MAX + 2
    await log_in(looker)
    assert (await looker.look("/")).status == 200


def test_every_process_of_an_engine_knows_of_a_logout(store: Store) -> None:
    store.open_sync()
    with (
        ServingProcess(of_store(store), token=STATIC) as one,
        ServingProcess(of_store(store), token=STATIC) as other,
        httpx.Client(base_url=one.url, timeout=30, headers={"accept": "text/html"}) as client,
    ):
        form = Page(client.get("/login")).form("/login")
        client.post("/login", data=form | {"token": STATIC})
        copied = cookie_of(client.cookies[sessions.COOKIE])
        assert [httpx.get(server.url, headers=copied).status_code for server in (one, other)] == [200, 200]
        client.post("/logout", data=Page(client.get("/")).form("/logout"))
        assert httpx.get(one.url, headers=copied).status_code == 401
        until(lambda: httpx.get(other.url, headers=copied).status_code == 401)
    store.close_sync()
