"""A mounted application without a function `role`: access needs a token, wherever the request comes from."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.dashboard.page_client import PageClient
from tests.server.mounted.host_server import MOUNT, Host, bearer, hosted, mounted
from windlass import Windlass, asgi
from windlass.core.access.tokens import Role
from windlass.core.job import NewJob
from windlass.service import Service

pytestmark = pytest.mark.anyio

HTML = {"accept": "text/html"}
UNKNOWN = f"wl_{'a' * 12}_{'b' * 43}"  # not verified before its body has arrived
JOB = {"queue": "mail", "name": "send"}


@pytest.fixture
async def host(app: Windlass) -> AsyncIterator[Host]:
    async with hosted(mounted(asgi(app))) as host:
        yield host


@pytest.fixture
def client(host: Host) -> httpx.AsyncClient:
    return host.client


async def test_is_not_open_while_no_token_exists(client: httpx.AsyncClient) -> None:
    """The built-in server is open on loopback then. A host may stand behind a proxy on the same machine."""
    for headers in ({}, {"host": "localhost"}, {"x-forwarded-for": "127.0.0.1"}, bearer("wl_wrong")):
        assert (await client.get(f"{MOUNT}/api/v1/queues", headers=headers)).status_code == 401
        assert (await client.post(f"{MOUNT}/api/v1/jobs", json=JOB, headers=headers)).status_code == 401
        assert (await client.get(f"{MOUNT}/metrics", headers=headers)).status_code == 401
    page = await client.get(f"{MOUNT}/", headers=HTML)
    assert (page.status_code, "windlass tokens create" in page.text) == (401, True)
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/docs.css"):  # as in the server, without data
        assert (await client.get(f"{MOUNT}{path}")).status_code == 200


async def test_the_setting_for_open_servers_opens_no_mount(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_ALLOW_ANONYMOUS", "yes")
    async with hosted(mounted(asgi(app))) as host:
        assert (await host.client.get(f"{MOUNT}/api/v1/queues")).status_code == 401


async def test_tokens_and_the_static_token_apply(
    app: Windlass, token_of: Callable[[Role], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", "s" * 32)
    reader = token_of(Role.READ)
    async with hosted(mounted(asgi(app))) as host:
        made = await host.client.post(f"{MOUNT}/api/v1/jobs", json=JOB, headers=bearer("s" * 32))
        assert made.status_code == 201
        assert made.headers["location"] == f"{MOUNT}/api/v1/jobs/{made.json()['id']}"
        assert (await host.client.get(made.headers["location"], headers=bearer(reader))).status_code == 200
        refused = await host.client.post(f"{MOUNT}/api/v1/queues/mail/pause", json={}, headers=bearer(reader))
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_a_session_stays_below_the_mount(
    client: httpx.AsyncClient, service: Service, token_of: Callable[[Role], str]
) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    pages = PageClient(client)
    client.headers.update(HTML)
    client.cookies.set("sessionid", "of the host", path="/")
    answer = await pages.log_in(token_of(Role.ADMIN), base=MOUNT)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{MOUNT}/")
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(rf"windlass_session=\S+; Path={MOUNT}; Max-Age=\d+; HttpOnly; SameSite=Strict", cookie)

    overview = await pages.get(f"{MOUNT}/")
    links = [element["href"] for tag in ("a", "link") for element in overview.all(tag) if "href" in element]
    links += [element["src"] for tag in ("script", "img") for element in overview.all(tag)]
    links += [action for action in overview.actions if action]  # without an action: a dialog
    assert f"{MOUNT}/do/pause-queue" in links
    assert [link for link in links if not link.startswith((f"{MOUNT}/", "#"))] == []
    paused = await pages.send(f"{MOUNT}/do/pause-queue", overview.form("/do/pause-queue", queue="mail"))
    assert (paused.status_code, paused.headers["location"]) == (303, f"{MOUNT}/")
    assert f"Path={MOUNT};" in paused.headers["set-cookie"]
    assert "mail is paused" in (await pages.get(f"{MOUNT}/")).text


async def test_refuses_forms_of_other_origins(
    client: httpx.AsyncClient, service: Service, token_of: Callable[[Role], str]
) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    pages = PageClient(client)
    await pages.log_in(token_of(Role.ADMIN), base=MOUNT)
    form = (await pages.get(f"{MOUNT}/")).form("/do/pause-queue", queue="mail")
    action = f"{MOUNT}/do/pause-queue"
    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        answer = await client.post(action, data=form, headers=headers)
        assert answer.status_code in (400, 403), headers
        api = await client.post(f"{MOUNT}/api/v1/queues/mail/pause", json={}, headers=headers)
        assert api.status_code == 401  # a session is for pages only
    assert (await client.post(action, data=form | {"csrf": "0" * 32})).status_code == 400
    assert service.pauses("mail").wait() == []


@pytest.mark.parametrize(
    ("back", "wanted"),
    [("https://evil.example/", "/"), ("//evil.example/", "/"), ("/admin", "/"), (f"{MOUNT}/queues", "/queues")],
)
async def test_redirects_stay_below_the_mount(
    client: httpx.AsyncClient, token_of: Callable[[Role], str], back: str, wanted: str
) -> None:
    pages = PageClient(client)
    form = (await pages.get(f"{MOUNT}/login")).form("/login")
    answer = await pages.send(f"{MOUNT}/login", form | {"token": token_of(Role.ADMIN), "next": back})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{MOUNT}{wanted}")


async def test_believes_no_forwarded_header_of_a_client(app: Windlass, token_of: Callable[[Role], str]) -> None:
    """uvicorn believes the proxies that its operator names, and changes the scope. A forged header changes nothing."""
    forged = {
        "x-forwarded-proto": "https", "x-forwarded-host": "evil.example", "x-forwarded-prefix": "/evil",
        "x-script-name": "/evil", "forwarded": "proto=https;host=evil.example", "x-forwarded-for": "127.0.0.1",
    }  # fmt: skip
    token = token_of(Role.ADMIN)
    for is_believed in (False, True):
        async with hosted(mounted(asgi(app)), proxy_headers=is_believed) as host:
            page = await host.client.get(f"{MOUNT}/login", headers=forged)
            assert "evil" not in page.text
            assert f"Path={MOUNT};" in page.headers["set-cookie"]
            assert page.headers["set-cookie"].endswith("Secure") is is_believed
            refused = await host.client.get(f"{MOUNT}/api/v1/queues", headers=forged)
            made = await host.client.post(f"{MOUNT}/api/v1/jobs", json=JOB, headers=forged | bearer(token))
            assert (refused.status_code, made.headers["location"].startswith(f"{MOUNT}/")) == (401, True)


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/x/../../../secret", "/static/x/%2e%2e%2fx", "//"],
)
async def test_a_path_does_not_leave_the_mount(host: Host, path: str) -> None:
    """httpx would resolve the dots, so the request is written by hand."""
    address = httpx.URL(host.url)
    request = f"GET {MOUNT}{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert (await send_raw(address, request.encode())).startswith(b"HTTP/1.1 404")


async def send_raw(address: httpx.URL, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_bodies_are_bounded(
    app: Windlass, token_of: Callable[[Role], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_BODY_MAX", "200000")
    token = token_of(Role.ADMIN)

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b" " * 1000

    async with hosted(mounted(asgi(app))) as host:
        path = f"{MOUNT}/api/v1/jobs"
        for headers, most in ((bearer(token), 200_000), (bearer(UNKNOWN), 64 * 1024)):
            for content in (b" " * (most + 1), pieces(most // 1000 + 2)):
                answer = await host.client.post(path, content=content, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (413, "too_large"), headers
                assert f"may have {most} bytes" in answer.json()["detail"]
        accepted = await host.client.post(
            path, headers=bearer(token), content=b'{"queue":"mail","name":"send","payload":"' + b"x" * 150_000 + b'"}'
        )
        assert accepted.status_code == 201


async def test_streams_a_body_in_both_directions(
    client: httpx.AsyncClient, service: Service, token_of: Callable[[Role], str]
) -> None:
    async def lines() -> AsyncIterator[bytes]:
        for number in range(50):
            yield b'{"queue":"mail","name":"send","payload":%d}\n' % number

    answer = await client.post(f"{MOUNT}/api/v1/jobs:stream", content=lines(), headers=bearer(token_of(Role.PRODUCE)))
    assert answer.status_code == 200, answer.text
    assert service.stats(["mail"]).wait()[0].queued == 50


async def test_refuses_websockets(host: Host) -> None:
    key = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGVzdA==\r\n"
    request = f"GET {MOUNT}/live HTTP/1.1\r\nHost: x\r\n{key}Connection: close\r\n\r\n"
    answer = await send_raw(httpx.URL(host.url), request.encode())
    assert answer.split(b" ")[1] in (b"401", b"403")


async def test_a_head_request_gets_no_body(client: httpx.AsyncClient) -> None:
    whole = await client.get(f"{MOUNT}/docs.css")
    head = await client.head(f"{MOUNT}/docs.css")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
