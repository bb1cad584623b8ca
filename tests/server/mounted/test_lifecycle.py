"""Start and stop of a mounted application: with the first request, with the host, in several event loops; streams end
with their clients and with the host."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.routing import Mount

from tests.dialects.sample_jobs import until
from tests.server.mounted.host_server import MOUNT, bearer, hosted, mounted
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass import Windlass, asgi
from windlass.core.access.tokens import Role
from windlass.core.errors import BadSetting
from windlass.core.job import NewJob
from windlass.core.operations import Take
from windlass.server.mounted import MountedApplication
from windlass.service import Service

pytestmark = pytest.mark.anyio

WAIT_S = 30


def admin(_: Any) -> str:
    return "admin"


LASTING = {"windlass-mounted", "windlass-loops", "windlass-notifier", "windlass-processor"}
_earlier: set[asyncio.Task[Any]] = set()


@pytest.fixture(autouse=True)
async def _own_tasks(anyio_backend: str) -> AsyncIterator[None]:
    """Other tests may have a server or an application in the same event loop: their tasks do not count."""
    _earlier.clear()
    _earlier.update(asyncio.all_tasks())
    yield
    _earlier.clear()


def own_tasks() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - _earlier


def background_tasks() -> set[str]:
    """Return the lasting tasks that this test has started."""
    return {task.get_name() for task in own_tasks()} & LASTING


async def test_starts_with_the_first_request_and_stops_with_the_host(app: Windlass) -> None:
    application = asgi(app, role=admin)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with application:
            yield

    for program, is_early in ((mounted(application), False), (Starlette(lifespan=lifespan), True)):
        if is_early:
            program.routes.append(Mount(MOUNT, application))
        async with hosted(program) as host:
            if is_early:
                await until(lambda: "windlass-mounted" in background_tasks())
            answers = await asyncio.gather(*(host.client.get(f"{MOUNT}/api/v1/queues") for _ in range(5)))
            assert [answer.status_code for answer in answers] == [200] * 5
            assert {"windlass-mounted", "windlass-loops", "windlass-notifier"} <= background_tasks()
        assert ("windlass-mounted" in background_tasks()) is not is_early
        await application.__aexit__()
        assert background_tasks() == set()


async def test_a_server_may_serve_it_alone(app: Windlass) -> None:
    application = asgi(app, role=admin)
    async with hosted(application, lifespan="on") as host:
        await until(lambda: "windlass-mounted" in background_tasks())  # by the event of its lifespan
        assert (await host.client.get("/api/v1/queues")).status_code == 200
        assert 'href="/queues"' in (await host.client.get("/", headers={"accept": "text/html"})).text
    assert background_tasks() == set()


async def test_a_failed_start_is_told_to_the_server(caplog: pytest.LogCaptureFixture) -> None:
    application = asgi(Windlass("http://127.0.0.1:9/"), role=admin)  # a server, and not an engine
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        messages.append(message)

    await application({"type": "lifespan"}, receive, send)
    assert messages[0]["type"] == "lifespan.startup.failed"
    assert "Give the application the URL of the engine itself" in messages[0]["message"]
    async with hosted(mounted(application)) as host:
        answer = await host.client.get(f"{MOUNT}/api/v1/queues")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "URL of the engine itself" in caplog.text


async def test_downloads_need_a_url(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    application = asgi(app, role=admin, roles="api,processor", parts=["downloader"])
    with pytest.raises(BadSetting, match="set WINDLASS_PUBLIC_URL"):
        await application.__aenter__()
    monkeypatch.setenv("WINDLASS_PUBLIC_URL", "https://shop.example/jobs/")
    async with application:
        assert "windlass-processor" in background_tasks()


def test_each_event_loop_has_its_own(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    """Test clients of frameworks use a loop for each request. The application ends with its loop."""
    application = asgi(app, role=admin)

    async def call() -> int:
        transport = httpx.ASGITransport(app=mounted(application))
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            return (await client.get(f"{MOUNT}/api/v1/queues")).status_code

    with caplog.at_level(logging.WARNING):
        assert [asyncio.run(call()) for _ in range(3)] == [200, 200, 200]
    assert caplog.text == ""


async def test_runs_until_its_loop_ends_also_if_its_host_forgets_it(app: Windlass) -> None:
    async with hosted(mounted(asgi(app, role=admin))) as host:
        assert (await host.client.get(f"{MOUNT}/api/v1/queues")).status_code == 200
    del host
    gc.collect()
    (task,) = [task for task in own_tasks() if task.get_name() == "windlass-mounted"]
    task.cancel()
    await asyncio.wait((task,))
    assert background_tasks() == set()


async def test_follows_the_connection_of_a_test() -> None:
    app = Windlass()
    application = asgi(app, role=admin)
    transport = httpx.ASGITransport(app=mounted(application))
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        for queue in ("mail", "images"):
            async with app.testing():
                await (await app.aservice()).enqueue([NewJob(queue=queue, name="send")])
                found = (await client.get(f"{MOUNT}/api/v1/queues")).json()["queues"]
                assert [item["queue"] for item in found] == [queue]
                await application.__aexit__()


async def test_says_that_the_engine_is_away_and_starts_when_it_is_back() -> None:
    app = Windlass()
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as process:
        app.connect(store := make_store(process, patience_s=0.2))
        process.kill()
        application = asgi(app, role=admin)
        async with hosted(mounted(application)) as host:
            answer = await host.client.get(f"{MOUNT}/api/v1/queues")
            assert (answer.status_code, answer.json()["code"]) == (503, "engine_unavailable")
            assert background_tasks() == set()
            await asyncio.to_thread(process.start)
            assert (await host.client.get(f"{MOUNT}/api/v1/queues")).status_code == 200
            await application.__aexit__()
        store.close_sync()


async def test_background_work_is_not_part_of_a_request(app: Windlass, service: Service) -> None:
    """Bulk actions of the dashboard and the API need a process that runs them."""
    service.enqueue([NewJob(queue="mail", name="send") for _ in range(20)]).wait()
    async with hosted(mounted(asgi(app, role=admin))) as host:
        wanted = {"verb": "cancel", "matches": {"queue": "mail", "state": "queued"}}
        begun = await host.client.post(f"{MOUNT}/api/v1/actions", json=wanted)
        assert begun.status_code < 300, begun.text

        def is_done() -> bool:
            (stats,) = service.stats(["mail"]).wait()
            return stats.queued == 0

        await until(is_done)


async def pass_on(request: Request, call_next: Any) -> Any:
    return await call_next(request)


MIDDLEWARE = [Middleware(GZipMiddleware, minimum_size=10), Middleware(BaseHTTPMiddleware, dispatch=pass_on)]


@pytest.mark.parametrize("path", ["/live", "/api/v1/events"])
@pytest.mark.parametrize("middleware", [[], MIDDLEWARE], ids=["bare", "middleware"])
async def test_streams_end_with_their_client(app: Windlass, path: str, middleware: list[Middleware]) -> None:
    application = asgi(app, role=admin)
    async with hosted(Starlette(routes=[Mount(MOUNT, application)], middleware=middleware)) as host:
        async with host.client.stream("GET", f"{MOUNT}{path}") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            pieces = answer.aiter_bytes()
            await anext(pieces)
            assert await followers(host.client) == 1
        async with asyncio.timeout(WAIT_S):
            while await followers(host.client):  # noqa: ASYNC110 (only the metrics know)
                await asyncio.sleep(0.01)


def takers(service: Service) -> int:
    (stats,) = service.stats(["mail"]).wait()
    return stats.waiting_takers


async def followers(client: httpx.AsyncClient) -> int:
    text = (await client.get(f"{MOUNT}/metrics")).text
    return sum(int(line.split()[-1]) for line in text.splitlines() if line.startswith("windlass_server_followers{"))


async def test_a_lost_long_poll_takes_no_job(app: Windlass, service: Service) -> None:
    async with hosted(mounted(asgi(app, role=admin))) as host:
        taking = asyncio.create_task(
            host.client.post(f"{MOUNT}/api/v1/take", json={"queues": ["mail"], "wait_ms": 60_000}, timeout=60)
        )
        await until(lambda: takers(service) == 1)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await until(lambda: takers(service) == 0)
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        assert len(service.take(Take(queues=("mail",))).wait().jobs) == 1


async def test_streams_end_when_the_host_stops(app: Windlass) -> None:
    """uvicorn waits for every request before it tells the application, and would wait for an open page without end."""
    async with (
        asyncio.timeout(WAIT_S),
        hosted(mounted(asgi(app, role=admin))) as host,
        host.client.stream("GET", f"{MOUNT}/live") as answer,
    ):
        pieces = answer.aiter_bytes()
        await anext(pieces)
        host.stop()
        assert [piece async for piece in pieces] == []


async def test_an_action_runs_to_its_end_without_its_client(app: Windlass, service: Service) -> None:
    """The server may cancel the task of a request at any moment. An action must not be done without its audit entry."""
    application = asgi(app, role=admin)
    await application.__aenter__()
    for turns in range(40):
        task = asyncio.create_task(pause(application, f"mail-{turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await application.__aexit__()
    paused = {name for name in (f"mail-{turns}" for turns in range(40)) if service.pauses(name).wait()}
    assert paused == {entry.target for entry in service.audits().wait().entries}
    assert 10 < len(paused) < 40
    assert background_tasks() == set()


async def pause(application: MountedApplication, queue: str) -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    async def send(_: Any) -> None:
        return None

    scope = {"type": "http", "method": "POST", "path": f"/api/v1/queues/{queue}/pause", "headers": []}
    await application(scope, receive, send)


async def test_tokens_are_for_machines_beside_a_login_for_people(
    app: Windlass, token_of: Callable[[Role], str]
) -> None:
    """One program may mount it twice."""
    token = token_of(Role.PRODUCE)
    people, machines = asgi(app, role=lambda _: None, parts=["dashboard"]), asgi(app, parts=["native"])
    program = Starlette(routes=[Mount("/jobs/machines", machines), Mount("/jobs", people)])
    async with hosted(program) as host:
        job = {"queue": "mail", "name": "send"}
        made = await host.client.post("/jobs/machines/api/v1/jobs", json=job, headers=bearer(token))
        assert (made.status_code, made.headers["location"][:15]) == (201, "/jobs/machines/")
        assert (await host.client.post("/jobs/api/v1/jobs", json=job, headers=bearer(token))).status_code == 404
        assert (await host.client.get("/jobs/queues")).status_code == 401
        assert (await host.client.get("/jobs/machines/queues")).status_code == 404
