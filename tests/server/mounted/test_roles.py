"""A mounted application with a function `role`: the host decides who may do what, and tokens do not apply."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.dashboard.page_client import PageClient
from tests.server.mounted.host_server import MOUNT, bearer, hosted, mounted
from windlass import Access, Windlass, asgi
from windlass.core.access.tokens import Role
from windlass.core.alerts.rule import AlertRule
from windlass.core.errors import WindlassError
from windlass.core.job import NewJob
from windlass.service import Service

pytestmark = pytest.mark.anyio

JOB = {"queue": "mail", "name": "send"}
HTML = {"accept": "text/html"}


def of_header(scope: Any) -> Any:
    """Take the role from a header, in place of a login of the host."""
    return dict(scope["headers"]).get(b"x-role", b"").decode() or None


async def of_header_later(scope: Any) -> Any:
    await asyncio.sleep(0)
    return of_header(scope)


@pytest.mark.parametrize("role", [of_header, of_header_later])
async def test_the_host_decides(app: Windlass, token_of: Callable[[Role], str], role: Any) -> None:
    token = token_of(Role.ADMIN)
    async with hosted(mounted(asgi(app, role=role))) as host:

        async def status(method: str, path: str, **headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            content = b'{"queue":"mail","name":"send"}' if method == "POST" else None
            return (await host.client.request(method, f"{MOUNT}{path}", headers=named, content=content)).status_code

        assert await status("GET", "/api/v1/queues") == 401
        assert await status("GET", "/api/v1/queues", authorization=f"Bearer {token}") == 401
        assert await status("GET", "/api/v1/queues", x_role="read") == 200
        assert await status("POST", "/api/v1/jobs", x_role="read") == 403
        assert await status("POST", "/api/v1/jobs", x_role="produce") == 201
        assert await status("GET", "/audit", x_role="read") == 403
        assert await status("GET", "/audit", x_role="admin") == 200
        assert await status("GET", "/login", x_role="admin") == 404  # people log in at the host
        assert await status("GET", "/healthz") == 200


async def test_large_bodies_only_after_the_host_has_admitted(app: Windlass) -> None:
    body = b'{"queue":"mail","name":"send","payload":"' + b"x" * 150_000 + b'"}'
    async with hosted(mounted(asgi(app, role=of_header))) as host:
        for role, status in (("produce", 201), ("", 401), ("read", 403)):
            answer = await host.client.post(f"{MOUNT}/api/v1/jobs", content=body, headers={"x-role": role})
            assert answer.status_code == status


async def test_a_reader_can_act_by_no_form(app: Windlass, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    async with hosted(mounted(asgi(app, role=of_header))) as host:
        pages = PageClient(host.client)
        form = (await pages.get(f"{MOUNT}/", x_role="admin")).form("/do/pause-queue", queue="mail")
        actions = (await pages.get(f"{MOUNT}/", x_role="read")).actions
        assert [action for action in actions if "/do/" in action] == []
        refused = await pages.send(f"{MOUNT}/do/pause-queue", form, x_role="read")
        assert (refused.status_code, "Ask the operator" in refused.text) == (403, True)
        assert service.pauses("mail").wait() == []
        assert (await pages.send(f"{MOUNT}/do/pause-queue", form, x_role="admin")).status_code == 303
        assert len(service.pauses("mail").wait()) == 1


async def test_the_audit_log_names_the_person(app: Windlass, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    role = lambda _: Access(role="admin", name="ada@example.org")  # noqa: E731
    async with hosted(mounted(asgi(app, role=role))) as host:
        answer = await host.client.post(f"{MOUNT}/api/v1/queues/mail/pause", json={})
        assert answer.status_code < 300
    (entry,) = service.audits().wait().entries
    assert (entry.who, entry.what, entry.peer) == ("ada@example.org", "pause_queue", "127.0.0.1")


async def test_access_to_some_queues(app: Windlass, service: Service) -> None:
    service.enqueue([NewJob(queue=queue, name="send") for queue in ("mail", "images")]).wait()
    role = lambda _: Access(role=("read", "produce"), queues=["ma*"])  # noqa: E731
    async with hosted(mounted(asgi(app, role=role))) as host:
        found = (await host.client.get(f"{MOUNT}/api/v1/queues")).json()["queues"]
        assert [queue["queue"] for queue in found] == ["mail"]
        assert (await host.client.post(f"{MOUNT}/api/v1/jobs", json=JOB)).status_code == 201
        assert (await host.client.post(f"{MOUNT}/api/v1/jobs", json=JOB | {"queue": "images"})).status_code == 403


async def test_an_admin_of_some_queues_sets_no_caps(app: Windlass, service: Service) -> None:
    """A cap is for all jobs of its key, in any queue."""
    role = lambda _: Access(role="admin", queues=["ma*"])  # noqa: E731
    async with hosted(mounted(asgi(app, role=role))) as host:
        capped = JOB | {"cap": {"limit": "each", "running": 1}}
        assert (await host.client.post(f"{MOUNT}/api/v1/jobs", json=capped)).status_code == 403
        assert (await host.client.post(f"{MOUNT}/api/v1/jobs", json=JOB)).status_code == 201


async def test_an_admin_of_some_queues_replaces_no_alert_rule_about_others(app: Windlass, service: Service) -> None:
    service.set_alert(AlertRule(name="all", kind="failures")).wait()
    role = lambda _: Access(role="admin", queues=["ma*"])  # noqa: E731
    own = {"kind": "failures", "pattern": "mail"}
    async with hosted(mounted(asgi(app, role=role))) as host:
        assert (await host.client.put(f"{MOUNT}/api/v1/alerts/all", json=own)).status_code == 403
        assert (await host.client.put(f"{MOUNT}/api/v1/alerts/mine", json=own)).status_code == 200
        page = await PageClient(host.client).get(f"{MOUNT}/alerts")
        form = page.form("/do/set-alert") | own | {"name": "all", "known": "all"}
        refused = await host.client.post(f"{MOUNT}/do/set-alert", data=form, headers=HTML)
        assert "about other queues than your token" in html.unescape(refused.text)
    assert {one.rule.name: one.rule.pattern for one in service.alerts().wait().rules} == {"all": "", "mine": "mail"}


async def test_refuses_pages_of_other_origins(app: Windlass, service: Service) -> None:
    """The browser of a person who is logged in at the host attaches the host's cookie to requests of any page."""
    async with hosted(mounted(asgi(app, role=lambda _: "admin"))) as host:
        path = f"{MOUNT}/api/v1/jobs"
        own = host.url.removeprefix("http://")
        cases = [
            ({"origin": "https://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"origin": f"http://{own}.evil.example"}, 403),
            ({"sec-fetch-site": "cross-site"}, 403),
            ({"sec-fetch-site": "same-site"}, 403),
            ({"origin": f"http://{own}"}, 201),
            ({"sec-fetch-site": "same-origin"}, 201),
            ({}, 201),  # not a browser
            # No browser adds this header by itself; its own page must ask the host before (CORS).
            ({"origin": "https://shop.example", **bearer("of the host")}, 201),
        ]
        for headers, status in cases:
            assert (await host.client.post(path, json=JOB, headers=headers)).status_code == status, headers
        link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert (await host.client.get(f"{MOUNT}/", headers=link | HTML)).status_code == 200
        framed = link | {"sec-fetch-dest": "iframe"}
        assert (await host.client.get(f"{MOUNT}/", headers=framed | HTML)).status_code == 403


async def test_forms_need_their_own_secret(app: Windlass, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    async with hosted(mounted(asgi(app, role=lambda _: "admin"))) as host:
        pages = PageClient(host.client)
        form = (await pages.get(f"{MOUNT}/")).form("/do/pause-queue", queue="mail")
        action = f"{host.url}{MOUNT}/do/pause-queue"
        async with httpx.AsyncClient() as other:  # without the cookie of the form
            assert (await other.post(action, data=form)).status_code == 400
        assert (await host.client.post(action, data=form | {"csrf": ""})).status_code == 400
        assert service.pauses("mail").wait() == []


async def test_people_are_sent_to_the_login_of_the_host(app: Windlass) -> None:
    async with hosted(mounted(asgi(app, role=of_header, login_url="/accounts/login?theme=dark"))) as host:
        answer = await host.client.get(f"{MOUNT}/jobs?state=failed", headers=HTML)
        assert answer.status_code == 303
        assert answer.headers["location"] == ("/accounts/login?theme=dark&next=%2Fops%2Fjobs%2Fjobs%3Fstate%3Dfailed")
        live = await host.client.get(f"{MOUNT}/jobs", headers=HTML | {"x-windlass-live": "1"})
        sent = await host.client.post(f"{MOUNT}/do/pause-queue", data={"queue": "mail"}, headers=HTML)
        api = await host.client.get(f"{MOUNT}/api/v1/queues")
        assert [answer.status_code for answer in (live, sent, api)] == [401, 401, 401]
    async with hosted(mounted(asgi(app, role=of_header))) as host:
        answer = await host.client.get(f"{MOUNT}/jobs", headers=HTML)
        assert (answer.status_code, "Log in to the application" in answer.text) == (401, True)
        assert 'name="token"' not in answer.text


@pytest.mark.parametrize("answer", ["root", True, ValueError("no database")])
async def test_a_wrong_answer_opens_nothing(app: Windlass, caplog: pytest.LogCaptureFixture, answer: Any) -> None:
    def role(_: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with hosted(mounted(asgi(app, role=role))) as host:
        found = await host.client.get(f"{MOUNT}/api/v1/queues")
        assert (found.status_code, found.json()["code"]) == (500, "internal_error")
        assert (await host.client.get(f"{MOUNT}/healthz")).status_code == 200
    assert ("no database" if isinstance(answer, Exception) else "`role` has returned") in caplog.text


async def test_an_open_stream_ends_when_the_role_is_withdrawn(app: Windlass, service: Service) -> None:
    roles = ["read"]
    async with (
        hosted(mounted(asgi(app, role=lambda _: roles[0] if roles else None))) as host,
        host.client.stream("GET", f"{MOUNT}/live") as answer,
    ):
        pieces = answer.aiter_bytes()
        assert b"hello" in await anext(pieces)
        roles.clear()
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        assert [piece async for piece in pieces] == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"parts": ["pages"]}, "'pages' is not a part"),
        ({"role": "admin"}, "must be a function"),
        ({"login_url": "/login"}, "needs `role`"),
        ({"roles": "api,cook"}, "'cook' is not a server role"),
    ],
)
def test_refuses_wrong_options(app: Windlass, options: dict[str, Any], text: str) -> None:
    with pytest.raises(WindlassError, match=text):
        asgi(app, **options)
