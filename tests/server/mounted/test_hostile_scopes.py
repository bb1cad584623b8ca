"""Scopes and messages that no good server sends: each request ends with an answer, and opens nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.mounted.test_lifecycle import background_tasks
from tests.support.profiles import IS_DEEP
from windlass import Windlass, asgi
from windlass.core.access.tokens import Role
from windlass.core.job import NewJob
from windlass.service import Service

pytestmark = pytest.mark.anyio

BODY = b'{"queue":"mail","name":"send"}'
DISCONNECT = {"type": "http.disconnect"}


def scope_of(sent: str, method: str = "GET", *, root: str = "/ops", **more: Any) -> dict[str, Any]:
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": f"{root}{sent}", "raw_path": f"{root}{sent}".encode(), "root_path": root, "query_string": b"",
        "headers": [], "client": ("192.0.2.1", 7), "server": ("127.0.0.1", 80),
    } | more  # fmt: skip


async def call(application: Any, scope: dict[str, Any], *messages: dict[str, Any]) -> tuple[int, bytes]:
    """Return the status and body. Messages are received in order, then the client disconnects."""
    incoming, sent = [*messages], list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        return incoming.pop(0) if incoming else DISCONNECT

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(scope, receive, send)
    starts = [message["status"] for message in sent if message["type"] == "http.response.start"]
    assert len(starts) <= 1
    return starts[0] if starts else 0, b"".join(message.get("body", b"") for message in sent)


def request(body: bytes = b"", *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def refuse(_: Any) -> None:
    return None


def admin(_: Any) -> str:
    return "admin"


SECRET = "secret-queue"  # noqa: S105 (name of a queue)
PROTECTED = ("/api/v1/queues", "/queues", "/metrics", "/jobs")
TRICKS = (
    "{}", "/{}", "/.{}", "/x/..{}", "{}/", "{}/.", "{}%00", "{};a=b", "/healthz/..{}", "/static/..{}",
    "/healthz/%2e%2e{}", "/%2e{}", "{}?x", "{}#x", "/login/..{}", "/docs/..{}", "\\{}", "/healthz%2f..{}", "{}/healthz",
    "/healthz;{}", "{}.css",
)  # fmt: skip


ROOTS = ("", "/ops", "/ops/", "//ops", "/healthz", "/api/v1")


@pytest.mark.parametrize("root", ROOTS if IS_DEEP else ROOTS[:4:3])
async def test_no_spelling_of_a_path_is_admitted(app: Windlass, service: Service, root: str) -> None:
    """Neither the host's refusal nor a missing token is passed by a path that one side reads in another way."""
    service.enqueue([NewJob(queue=SECRET, name="n")]).wait()
    async with asgi(app, role=refuse) as hosted, asgi(app) as with_tokens, asgi(app, role=admin) as opened:
        shown = await call(opened, scope_of("/api/v1/queues"), request())
        assert (shown[0], SECRET.encode() in shown[1]) == (200, True)
        for path, trick in itertools.product(PROTECTED, TRICKS):
            sent = trick.format(path)
            variants: tuple[dict[str, Any], ...] = (
                {}, {"raw_path": None}, {"path": sent}, {"raw_path": b"/healthz"}, {"path": f"{root}/healthz/..{path}"},
            )  # fmt: skip
            for more, application in itertools.product(variants, (hosted, with_tokens)):
                status, body = await call(application, scope_of(sent, root=root, **more), request())
                assert SECRET.encode() not in body, (sent, more)
                assert status < 500, (sent, more)


async def test_a_forged_identity_of_a_proxy_is_not_believed(app: Windlass) -> None:
    forged = [
        (name, b"127.0.0.1") for name in (b"x-forwarded-for", b"x-real-ip", b"forwarded", b"client-ip", b"x-client-ip")
    ]
    forged += [(name, b"/healthz") for name in (b"x-original-url", b"x-rewrite-url", b"x-forwarded-prefix")]
    forged += [(name, b"admin") for name in (b"x-forwarded-user", b"x-remote-user", b"remote-user")]
    async with asgi(app) as application:
        for client in (("127.0.0.1", 1), None, ("::1", 1)):
            scope = scope_of("/api/v1/queues", headers=forged, client=client)
            assert (await call(application, scope, request()))[0] == 401


async def test_a_client_that_leaves_within_a_body_enqueues_nothing(app: Windlass, service: Service) -> None:
    async with asgi(app, role=admin) as application:
        scope = scope_of("/api/v1/jobs", "POST")
        for messages in ((), (request(BODY, more=True),), (request(BODY[:9], more=True), request(b"", more=True))):
            status, _ = await call(application, scope, *messages)
            assert status in (0, 400)
        assert service.stats(["mail"]).wait()[0].queued == 0
        assert (await call(application, scope, request(BODY[:9], more=True), request(BODY[9:])))[0] == 201


@pytest.mark.parametrize("length", [b"-1", b"1e9", b"99999999999999999999999999", b"0x10", b"", b"5, 5", b"\xff"])
async def test_an_announced_length_is_not_believed(app: Windlass, length: bytes) -> None:
    async with asgi(app, role=admin) as application:
        scope = scope_of("/api/v1/jobs", "POST", headers=[(b"content-length", length)])
        assert (await call(application, scope, request(BODY)))[0] in (201, 413)


async def test_paths_that_are_no_text(app: Windlass) -> None:
    for raw in (b"/\xc3\x83/x", b"/\xc3\x83", b"/%ff%fe", b"/\xff", b"/ops%", b"/%c3\x83/\xc3", b"%", b""):
        for root in ("", "/ops", "/\u00c3\u0083", "/\ufffd"):
            scope = scope_of("/x", root=root, raw_path=raw, path=raw.decode("latin-1"))
            async with asgi(app, role=refuse) as application:
                assert (await call(application, scope, request()))[0] in (401, 404)


async def test_other_types_of_scopes_open_nothing(app: Windlass) -> None:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])

    application = asgi(app, role=admin)
    for kind in ("websocket", "http.extension", "lifespan2", ""):
        await application({"type": kind, "path": "/api/v1/queues", "headers": []}, receive, send)
    assert sent == ["websocket.close"]
    assert background_tasks() == set()  # nothing was started


async def test_a_lifespan_without_order_leaves_nothing_behind(app: Windlass) -> None:
    for messages in (["shutdown", "shutdown"], ["startup", "startup"], ["startup", "shutdown"], ["nonsense", ""]):
        incoming = [f"lifespan.{name}" for name in messages]
        application = asgi(app, role=admin)

        async def receive(incoming: list[str] = incoming) -> dict[str, Any]:
            return {"type": incoming.pop(0)}

        async def send(_: Any) -> None:
            return None

        await application({"type": "lifespan"}, receive, send)
        assert background_tasks() == set()


async def test_a_token_of_a_machine_is_needed_for_each_request(app: Windlass, token_of: Callable[[Role], str]) -> None:
    bearer = (b"authorization", f"Bearer {token_of(Role.ADMIN)}".encode())
    async with asgi(app) as application:
        wrong = (b"authorization", b"Bearer x")
        for fields, status in (
            ([bearer], 200),
            ([(b"Authorization", bearer[1])], 200),
            ([], 401),
            ([bearer, wrong], 401),
            ([wrong, bearer], 401),
            ([(b"authorization", bearer[1][7:])], 401),
        ):
            assert (await call(application, scope_of("/api/v1/queues", headers=fields), request()))[0] == status, fields
