"""Sessions: how they begin and end, what they open, and what no page of others can make a browser do."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.dashboard.page_client import Looker
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.dashboard.page_context import CSRF_COOKIE
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.web.app import sessions

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

EVERYTHING = frozenset({Role.ADMIN})
READING = frozenset({Role.READ})
STATIC = "a-token-from-the-settings"


def _token(service: Service, name: str = "me", roles: frozenset[Role] = EVERYTHING, **more: object) -> str:
    return service.create_token(NewToken(name=name, roles=roles, **more)).wait().text  # type: ignore[arg-type]


@pytest.fixture
def token(service: Service) -> str:
    """Made before the server starts: nobody is let in without one."""
    return _token(service)


@pytest.fixture
def token_or_none(service: Service, name: str) -> str:
    return _token(service, name) if name else ""


async def test_without_tokens_there_is_no_login(looker: Looker) -> None:
    page = await looker.look("/")
    assert page.status == 200
    assert "/logout" not in page.actions
    assert (await looker.look("/login")).status == 303


async def test_a_page_without_a_session_is_a_login_that_leads_back_to_it(token: str, looker: Looker) -> None:
    page = await looker.look("/?x=1")
    assert page.status == 401
    assert page.form("/login")["next"] == "/?x=1"
    answer = await looker.send("/login", page.form("/login") | {"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?x=1")
    assert (await looker.look("/")).status == 200


@pytest.mark.parametrize(("method", "site", "is_marked"), [
    ("GET", "none", True), ("GET", "cross-site", True), ("POST", "same-origin", True), ("POST", "cross-site", False),
])  # fmt: skip
async def test_only_a_form_of_another_site_gets_no_mark(
    token: str, looker: Looker, method: str, site: str, is_marked: bool
) -> None:
    """Its browser has sent none of our cookies: a new mark would make the forms of open pages stale."""
    answer = await looker.client.request(method, "/login", headers={"sec-fetch-site": site})
    marks = [one for one in answer.headers.get_list("set-cookie") if one.startswith(CSRF_COOKIE)]
    assert bool(marks) == is_marked
    assert all("HttpOnly" in mark and "SameSite=Lax" in mark for mark in marks)


async def test_the_cookie_is_for_this_server_only_and_no_script_sees_it(token: str, looker: Looker) -> None:
    answer = await looker.log_in(token)
    (cookie,) = [one for one in answer.headers.get_list("set-cookie") if one.startswith(sessions.COOKIE)]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/" in cookie
    assert "Secure" not in cookie  # it would not be sent over plain HTTP
    assert token not in cookie
    page = await looker.look("/login")
    answer = await looker.send("/login", page.form("/login") | {"token": token}, x_forwarded_proto="https")
    assert "Secure" in answer.headers["set-cookie"]


async def test_a_session_ends_by_logout(token: str, looker: Looker) -> None:
    await looker.log_in(token)
    page = await looker.look("/")
    assert (await looker.send("/logout", page.form("/logout"))).headers["location"] == "/login"
    assert (await looker.look("/")).status == 401


async def test_a_session_ends_when_its_token_is_revoked(token: str, looker: Looker, service: Service) -> None:
    _token(service, "another")
    await looker.log_in(token)
    service.revoke_token("me").wait()
    while (page := await looker.look("/")).status == 200:
        pass
    assert page.status == 401
    assert "session has ended" in page.text


async def test_a_token_of_the_same_name_does_not_take_over_a_session(
    token: str, looker: Looker, service: Service
) -> None:
    await looker.log_in(token)
    service.revoke_token("me").wait()
    _token(service)
    while (await looker.look("/")).status == 200:
        pass


class TestStaticToken:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, token=STATIC)

    async def test_it_begins_a_session_too(self, looker: Looker) -> None:
        assert (await looker.look("/")).status == 401
        await looker.log_in(STATIC)
        assert (await looker.look("/")).status == 200


@pytest.mark.parametrize(
    "cookie",
    ["", "x", "static.99999999999.x", "a.b.c", "..", "static.9999999999999999999.x", "x" * 5000, "%00.1.é"],
)
async def test_a_cookie_that_is_not_ours_opens_nothing(token: str, looker: Looker, cookie: str) -> None:
    headers = httpx.Headers({"cookie": f"{sessions.COOKIE}={cookie}"}, encoding="utf-8")
    answer = await looker.client.get("/", headers=headers)
    assert answer.status_code in (401, 431)


async def test_a_session_cannot_be_made_longer_or_anothers(token: str, looker: Looker, service: Service) -> None:
    other = _token(service, "other", READING)
    await looker.log_in(token)
    mine = looker.client.cookies[sessions.COOKIE]
    token_id, expires, session_id, code = mine.split(".")
    looker.client.cookies.clear()
    for forged in (
        f"{token_id}.{int(expires) + 1}.{session_id}.{code}",
        f"{other.split('_')[1]}.{expires}.{session_id}.{code}",
        f"{token_id}.{expires}.{session_id[::-1]}.{code}",
    ):
        answer = await looker.client.get("/", headers={"cookie": f"{sessions.COOKIE}={forged}"})
        assert answer.status_code == 401
    assert (await looker.client.get("/", headers={"cookie": f"{sessions.COOKIE}={mine}"})).status_code == 200


async def test_who_comes_back_late_gets_a_whole_session_again(token: str, looker: Looker, running: Server) -> None:
    await looker.log_in(token)
    fresh = await looker.client.get("/")
    assert sessions.COOKIE not in fresh.headers.get("set-cookie", "")
    stored = (await running.service.tokens()).tokens[0]
    old = sessions.issue_session(stored.id, stored.digest, time.time() - sessions.LIFETIME_S + 3600)
    looker.client.cookies.clear()
    answer = await looker.client.get("/", headers={"cookie": f"{sessions.COOKIE}={old.text}"})
    assert answer.status_code == 200
    renewed = sessions.parse_session(answer.cookies[sessions.COOKIE])
    assert renewed is not None
    assert renewed.expires_at_s > old.expires_at_s


@pytest.mark.parametrize(("given", "status"), [("", 400), ("wrong", 401), (f"wl_{'a' * 12}_{'b' * 43}", 401)])
async def test_a_token_that_is_not_known_is_told_to_be(token: str, looker: Looker, given: str, status: int) -> None:
    answer = await looker.log_in(given)
    assert answer.status_code == status
    assert sessions.COOKIE not in answer.headers.get("set-cookie", "")


async def test_a_token_that_cannot_look_begins_no_session(token: str, looker: Looker, service: Service) -> None:
    answer = await looker.log_in(_token(service, "worker", frozenset({Role.WORK})))
    assert answer.status_code == 403
    assert "role read" in answer.text


@pytest.mark.parametrize("next_page", ["https://evil.example/", "//evil.example", "/\\evil.example", "x", "/a\r\nX: y"])
async def test_a_login_leads_to_pages_of_ours_only(token: str, looker: Looker, next_page: str) -> None:
    page = await looker.look("/login")
    answer = await looker.send("/login", page.form("/login") | {"token": token, "next": next_page})
    assert answer.headers["location"] == "/"


# What others can make a browser do


async def test_a_login_needs_a_form_of_ours(token: str, looker: Looker) -> None:
    await looker.look("/login")
    answer = await looker.send("/login", {"token": token})
    assert answer.status_code == 400
    assert sessions.COOKIE not in answer.headers.get("set-cookie", "")


async def test_an_action_needs_a_form_of_ours(looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await looker.look("/")).form("/do/pause-queue")
    for wrong in (fields | {"csrf": ""}, fields | {"csrf": "0" * 32}, {"queue": "mail"}):
        assert (await looker.send("/do/pause-queue", wrong)).status_code == 400
    looker.client.cookies.clear()
    assert (await looker.send("/do/pause-queue", fields)).status_code == 400
    assert service.pauses("mail").wait() == []


@pytest.mark.parametrize(
    "headers",
    [{"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}, {"origin": "http://evil.example"}],
)
@pytest.mark.parametrize("name", ["", "me"])
async def test_pages_of_others_cannot_act(
    token_or_none: str, looker: Looker, service: Service, headers: dict[str, str]
) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    if token_or_none:
        await looker.log_in(token_or_none)
    fields = (await looker.look("/")).form("/do/pause-queue")
    assert (await looker.send("/do/pause-queue", fields, **headers)).status_code in (400, 403)
    assert service.pauses("mail").wait() == []
    assert (await looker.send("/do/pause-queue", fields, sec_fetch_site="same-origin")).status_code == 303


async def test_a_session_does_not_drive_the_api(token: str, looker: Looker) -> None:
    await looker.log_in(token)
    assert (await looker.client.get("/api/v1/queues", headers={"accept": "*/*"})).status_code == 200
    answer = await looker.client.post("/api/v1/jobs", json={"queue": "q", "name": "n"}, headers={"accept": "*/*"})
    assert answer.status_code == 401
    answer = await looker.client.get("/api/v1/queues", headers={"accept": "*/*", "sec-fetch-site": "cross-site"})
    assert answer.status_code == 403


async def test_a_page_may_be_opened_by_a_link_from_elsewhere_but_not_read_there(looker: Looker) -> None:
    visit = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert (await looker.look("/", **visit)).status == 200
    assert (await looker.look("/", **visit | {"sec_fetch_mode": "no-cors", "sec_fetch_dest": "empty"})).status == 403
    assert (await looker.look("/", **visit | {"sec_fetch_dest": "iframe"})).status == 403
    assert (await looker.client.get("/api/v1/queues", headers=_named(visit))).status_code == 403


async def test_a_name_that_only_leads_here_is_refused(looker: Looker) -> None:
    assert (await looker.look("/", host="evil.example")).status == 403


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


async def test_whoever_follows_a_link_from_elsewhere_comes_again_with_the_cookie(token: str, looker: Looker) -> None:
    visit = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    page = await looker.look("/?x=1", **visit)
    assert (page.status, page.answer.headers["refresh"]) == (401, "0; url=/?x=1")
    assert "refresh" not in (await looker.look("/?x=1")).answer.headers
    assert "refresh" not in (await looker.look("/?x=1", **visit | {"sec_fetch_site": "same-origin"})).answer.headers
