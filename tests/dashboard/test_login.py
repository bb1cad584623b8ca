"""Sessions: login, expiry and permissions; and requests that other sites cause a browser to send."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.dashboard.page_client import PageClient
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
    """Created before the server starts, so that the server requires a token."""
    return _token(service)


@pytest.fixture
def token_or_none(service: Service, name: str) -> str:
    return _token(service, name) if name else ""


async def test_without_tokens_no_login_is_needed(page_client: PageClient) -> None:
    page = await page_client.get("/")
    assert page.status == 200
    assert "/logout" not in page.actions
    assert (await page_client.get("/login")).status == 303


async def test_login_returns_to_the_requested_page(token: str, page_client: PageClient) -> None:
    page = await page_client.get("/?x=1")
    assert page.status == 401
    assert page.form("/login")["next"] == "/?x=1"
    answer = await page_client.send("/login", page.form("/login") | {"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?x=1")
    assert (await page_client.get("/")).status == 200


@pytest.mark.parametrize(("method", "site", "sets_cookie"), [
    ("GET", "none", True), ("GET", "cross-site", True), ("POST", "same-origin", True), ("POST", "cross-site", False),
])  # fmt: skip
async def test_a_form_of_another_site_gets_no_csrf_cookie(
    token: str, page_client: PageClient, method: str, site: str, sets_cookie: bool
) -> None:
    """The browser withholds our cookies from such a request: a new cookie would make the forms of open pages stale."""
    answer = await page_client.http.request(method, "/login", headers={"sec-fetch-site": site})
    cookies = [cookie for cookie in answer.headers.get_list("set-cookie") if cookie.startswith(CSRF_COOKIE)]
    assert bool(cookies) == sets_cookie
    assert all("HttpOnly" in cookie and "SameSite=Lax" in cookie for cookie in cookies)


async def test_attributes_of_the_session_cookie(token: str, page_client: PageClient) -> None:
    answer = await page_client.log_in(token)
    (cookie,) = [text for text in answer.headers.get_list("set-cookie") if text.startswith(sessions.COOKIE)]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/" in cookie
    assert "Secure" not in cookie  # it would not be sent over plain HTTP
    assert token not in cookie
    page = await page_client.get("/login")
    answer = await page_client.send("/login", page.form("/login") | {"token": token}, x_forwarded_proto="https")
    assert "Secure" in answer.headers["set-cookie"]


async def test_logout_ends_a_session(token: str, page_client: PageClient) -> None:
    await page_client.log_in(token)
    page = await page_client.get("/")
    assert (await page_client.send("/logout", page.form("/logout"))).headers["location"] == "/login"
    assert (await page_client.get("/")).status == 401


async def test_a_session_ends_when_its_token_is_revoked(token: str, page_client: PageClient, service: Service) -> None:
    _token(service, "another")
    await page_client.log_in(token)
    service.revoke_token("me").wait()
    while (page := await page_client.get("/")).status == 200:
        pass
    assert page.status == 401
    assert "session has ended" in page.text


async def test_a_new_token_with_the_same_name_does_not_revive_a_session(
    token: str, page_client: PageClient, service: Service
) -> None:
    await page_client.log_in(token)
    service.revoke_token("me").wait()
    _token(service)
    while (await page_client.get("/")).status == 200:
        pass


class TestStaticToken:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, token=STATIC)

    async def test_starts_a_session(self, page_client: PageClient) -> None:
        assert (await page_client.get("/")).status == 401
        await page_client.log_in(STATIC)
        assert (await page_client.get("/")).status == 200


@pytest.mark.parametrize(
    "cookie",
    ["", "x", "static.99999999999.x", "a.b.c", "..", "static.9999999999999999999.x", "x" * 5000, "%00.1.é"],
)
async def test_refuses_foreign_cookies(token: str, page_client: PageClient, cookie: str) -> None:
    headers = httpx.Headers({"cookie": f"{sessions.COOKIE}={cookie}"}, encoding="utf-8")
    answer = await page_client.http.get("/", headers=headers)
    assert answer.status_code in (401, 431)


async def test_refuses_modified_sessions(token: str, page_client: PageClient, service: Service) -> None:
    other = _token(service, "other", READING)
    await page_client.log_in(token)
    mine = page_client.http.cookies[sessions.COOKIE]
    token_id, expires, session_id, code = mine.split(".")
    page_client.http.cookies.clear()
    for forged in (
        f"{token_id}.{int(expires) + 1}.{session_id}.{code}",
        f"{other.split('_')[1]}.{expires}.{session_id}.{code}",
        f"{token_id}.{expires}.{session_id[::-1]}.{code}",
    ):
        answer = await page_client.http.get("/", headers={"cookie": f"{sessions.COOKIE}={forged}"})
        assert answer.status_code == 401
    assert (await page_client.http.get("/", headers={"cookie": f"{sessions.COOKIE}={mine}"})).status_code == 200


async def test_renews_an_old_session(token: str, page_client: PageClient, running: Server) -> None:
    await page_client.log_in(token)
    fresh = await page_client.http.get("/")
    assert sessions.COOKIE not in fresh.headers.get("set-cookie", "")
    stored = (await running.service.tokens()).tokens[0]
    old = sessions.issue_session(stored.id, stored.digest, time.time() - sessions.LIFETIME_S + 3600)
    page_client.http.cookies.clear()
    answer = await page_client.http.get("/", headers={"cookie": f"{sessions.COOKIE}={old.text}"})
    assert answer.status_code == 200
    renewed = sessions.parse_session(answer.cookies[sessions.COOKIE])
    assert renewed is not None
    assert renewed.expires_at_s > old.expires_at_s


@pytest.mark.parametrize(("given", "status"), [("", 400), ("wrong", 401), (f"wl_{'a' * 12}_{'b' * 43}", 401)])
async def test_refuses_an_unknown_token(token: str, page_client: PageClient, given: str, status: int) -> None:
    answer = await page_client.log_in(given)
    assert answer.status_code == status
    assert sessions.COOKIE not in answer.headers.get("set-cookie", "")


async def test_a_token_without_the_role_read_starts_no_session(
    token: str, page_client: PageClient, service: Service
) -> None:
    answer = await page_client.log_in(_token(service, "worker", frozenset({Role.WORK})))
    assert answer.status_code == 403
    assert "role read" in answer.text


@pytest.mark.parametrize("next_page", ["https://evil.example/", "//evil.example", "/\\evil.example", "x", "/a\r\nX: y"])
async def test_login_redirects_only_within_this_server(token: str, page_client: PageClient, next_page: str) -> None:
    page = await page_client.get("/login")
    answer = await page_client.send("/login", page.form("/login") | {"token": token, "next": next_page})
    assert answer.headers["location"] == "/"


# Requests that other sites cause


async def test_login_needs_our_form(token: str, page_client: PageClient) -> None:
    await page_client.get("/login")
    answer = await page_client.send("/login", {"token": token})
    assert answer.status_code == 400
    assert sessions.COOKIE not in answer.headers.get("set-cookie", "")


async def test_an_action_needs_our_form(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await page_client.get("/")).form("/do/pause-queue")
    for wrong in (fields | {"csrf": ""}, fields | {"csrf": "0" * 32}, {"queue": "mail"}):
        assert (await page_client.send("/do/pause-queue", wrong)).status_code == 400
    page_client.http.cookies.clear()
    assert (await page_client.send("/do/pause-queue", fields)).status_code == 400
    assert service.pauses("mail").wait() == []


@pytest.mark.parametrize(
    "headers",
    [{"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}, {"origin": "http://evil.example"}],
)
@pytest.mark.parametrize("name", ["", "me"])
async def test_refuses_actions_from_other_sites(
    token_or_none: str, page_client: PageClient, service: Service, headers: dict[str, str]
) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    if token_or_none:
        await page_client.log_in(token_or_none)
    fields = (await page_client.get("/")).form("/do/pause-queue")
    assert (await page_client.send("/do/pause-queue", fields, **headers)).status_code in (400, 403)
    assert service.pauses("mail").wait() == []
    assert (await page_client.send("/do/pause-queue", fields, sec_fetch_site="same-origin")).status_code == 303


async def test_a_session_allows_only_reads_of_the_api(token: str, page_client: PageClient) -> None:
    await page_client.log_in(token)
    assert (await page_client.http.get("/api/v1/queues", headers={"accept": "*/*"})).status_code == 200
    answer = await page_client.http.post("/api/v1/jobs", json={"queue": "q", "name": "n"}, headers={"accept": "*/*"})
    assert answer.status_code == 401
    answer = await page_client.http.get("/api/v1/queues", headers={"accept": "*/*", "sec-fetch-site": "cross-site"})
    assert answer.status_code == 403


async def test_other_sites_can_link_to_a_page_but_not_read_it(page_client: PageClient) -> None:
    navigation = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert (await page_client.get("/", **navigation)).status == 200
    assert (
        await page_client.get("/", **navigation | {"sec_fetch_mode": "no-cors", "sec_fetch_dest": "empty"})
    ).status == 403
    assert (await page_client.get("/", **navigation | {"sec_fetch_dest": "iframe"})).status == 403
    assert (await page_client.http.get("/api/v1/queues", headers=_named(navigation))).status_code == 403


async def test_refuses_an_unknown_host_name(page_client: PageClient) -> None:
    assert (await page_client.get("/", host="evil.example")).status == 403


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


async def test_a_link_from_another_site_reloads_with_the_cookie(token: str, page_client: PageClient) -> None:
    navigation = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    page = await page_client.get("/?x=1", **navigation)
    assert (page.status, page.answer.headers["refresh"]) == (401, "0; url=/?x=1")
    assert "refresh" not in (await page_client.get("/?x=1")).answer.headers
    assert (
        "refresh"
        not in (await page_client.get("/?x=1", **navigation | {"sec_fetch_site": "same-origin"})).answer.headers
    )
