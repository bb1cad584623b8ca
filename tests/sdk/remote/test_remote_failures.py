"""An application that uses a server, with failures of the server, the token or the URL."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.restartable_server import RestartableServer, restartable_server
from windlass import Windlass
from windlass.core.access.tokens import NewToken, Role
from windlass.core.durable import StreamWrite
from windlass.core.errors import (
    REFUSALS,
    BadSetting,
    EngineUnavailable,
    EngineUnsuitable,
    Forbidden,
    TooManyRequests,
    Unauthorized,
    WindlassError,
)
from windlass.core.job import Blob, Codec
from windlass.core.operations import Finish, Listing, Take
from windlass.sdk.remote.address import parse_server_url
from windlass.sdk.remote.request import ApiResponse, NoAnswer, NotReached, error_of, get, post
from windlass.sdk.remote.retry_policy import RequestRetryPolicy
from windlass.sdk.remote.store import RemoteStore, ServerInfo
from windlass.service import Service
from windlass.store.store import Store
from windlass.web.app.content_negotiation import problem_response
from windlass.wire.encoding import JSON, MSGPACK

pytestmark = pytest.mark.anyio
DEAD = "http://127.0.0.1:1"


def new_app(url: str, **options: object) -> Windlass:
    app = Windlass(url, **options)  # type: ignore[arg-type]

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    return app


# A server that is killed and restarts


@pytest.fixture
def server(engine: EngineProcess, store: Store) -> Iterator[RestartableServer]:
    store.open_sync()
    with restartable_server(engine.unix_url, store.namespace) as server:
        yield server


async def test_calls_outlive_a_killed_server_and_nothing_is_doubled(
    server: RestartableServer, engine_service: Service
) -> None:
    app = new_app(server.url)
    add = app.tasks["add"]
    ids: list[str] = []
    stop = threading.Event()

    async def enqueue_awaited() -> None:
        while not stop.is_set():
            ids.append((await add.aenqueue(1, 2)).id)

    def enqueue_blocking() -> None:
        while not stop.is_set():
            ids.append(add.enqueue(3, 4).id)

    async def have_been_enqueued(more: int) -> None:
        wanted = len(ids) + more
        while len(ids) < wanted:  # noqa: ASYNC110 (threads fill it)
            await asyncio.sleep(0.01)

    callers = [asyncio.create_task(enqueue_awaited()) for _ in range(4)]
    callers += [asyncio.create_task(asyncio.to_thread(enqueue_blocking)) for _ in range(2)]
    try:
        async with asyncio.timeout(60):
            for _ in range(2):
                await have_been_enqueued(30)
                await asyncio.to_thread(server.kill)  # during calls
                await asyncio.to_thread(server.start)
            await have_been_enqueued(30)
    finally:
        stop.set()
        await asyncio.gather(*callers)
        await app.aclose()
    found = await _all_ids(engine_service)
    assert len(ids) == len(set(ids))
    assert sorted(found) == sorted(ids)


async def test_a_stream_that_is_read_through_kills_of_the_server_is_whole(
    server: RestartableServer, engine_service: Service
) -> None:
    app = new_app(server.url)
    handle = await app.tasks["add"].using(queue="talk").aenqueue(1, 2)
    (job,) = (await engine_service.take(Take(queues=("talk",)))).jobs

    async def write(number: int) -> None:
        value = (Blob(b"%d" % number),)
        request = StreamWrite(id=job.id, token=job.lease_token, values=value, sequence=number)
        await engine_service.write_stream([request]).one()

    found: list[int] = []
    stream = aiter(handle.stream())
    async with asyncio.timeout(60):
        for number in range(6):
            await write(number)
            if number % 2:  # the reader has seen a part of the stream
                found.append((await anext(stream)).value)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
        await engine_service.finish([Finish(job.id, job.lease_token)]).one()
        found += [entry.value async for entry in stream]
    await app.aclose()
    assert found == list(range(6))


async def _all_ids(engine_service: Service) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        page = await engine_service.jobs(Listing(queue="default", state="queued", most=500, cursor=cursor))
        found += [job.key for job in page.jobs]
        cursor = page.cursor
        if not cursor:
            return found


async def test_who_waits_for_an_end_outlives_a_killed_server(
    server: RestartableServer, engine_service: Service
) -> None:
    app = new_app(server.url)
    handle = await app.tasks["add"].aenqueue(1, 2)
    awaiting = asyncio.create_task(handle.aresult())
    blocking = asyncio.create_task(asyncio.to_thread(handle.result))
    following = asyncio.create_task(_kinds(handle))
    while not (await engine_service.job([handle.id_bytes]).one()).job.state.is_ended:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        [job] = (await engine_service.take(Take(queues=("default",)))).jobs
        await engine_service.finish([Finish(job.id, job.lease_token)])
    async with asyncio.timeout(60):
        assert [await awaiting, await blocking] == [None, None]
        kinds = await following
    assert kinds[0] == "snapshot"
    assert kinds[-1] in ("finished", "ended")
    await app.aclose()


async def _kinds(handle: object) -> list[str]:
    return [event.kind async for event in handle.events()]  # type: ignore[attr-defined]


async def test_a_server_that_is_not_there_yet_is_waited_for(server: RestartableServer) -> None:
    server.kill()
    app = new_app(server.url)
    enqueuing = asyncio.create_task(app.tasks["add"].aenqueue(1, 2))
    await asyncio.to_thread(server.start)
    assert (await enqueuing).status == "queued"
    await app.aclose()


async def test_a_server_that_does_not_come_is_named() -> None:
    with pytest.raises(EngineUnavailable, match=r"server at http://127\.0\.0\.1:1: .*refused.*windlass serve"):
        new_app(DEAD, patience="0s").tasks["add"].enqueue(1, 2)
    app = new_app(DEAD, patience="100ms")
    with pytest.raises(EngineUnavailable, match="Cannot reach the server"):
        await app.tasks["add"].aenqueue(1, 2)
    await app.aclose()


# Tokens


async def _token(engine_service: Service, *roles: Role, **more: object) -> str:
    made = await engine_service.create_token(NewToken(name="-".join(roles), roles=frozenset(roles), **more))  # type: ignore[arg-type]
    return made.text


@contextlib.asynccontextmanager
async def closing(app: Windlass) -> AsyncIterator[Windlass]:
    try:
        yield app
    finally:
        await app.aclose()


async def test_a_token_lets_in(served: str, engine_service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    token = await _token(engine_service, Role.PRODUCE, queues=("default",))
    async with closing(new_app(served, token=token)) as app:
        handle = await app.tasks["add"].aenqueue(1, 2)
        assert await handle.acancel() == "cancelled"
        assert await asyncio.to_thread(lambda: app.tasks["add"].enqueue(1, 2).state) == "queued"
        with pytest.raises(Forbidden, match="queue"):
            await app.tasks["add"].using(queue="other").aenqueue(1, 2)
    monkeypatch.setenv("WINDLASS_TOKEN", token)
    monkeypatch.setenv("WINDLASS_URL", served)
    async with closing(new_app(None)) as app:  # type: ignore[arg-type]
        assert (await app.tasks["add"].aenqueue(1, 2)).status == "queued"


@pytest.fixture
async def reader(engine_service: Service) -> str:
    """A token that exists when the server starts, so that the server requires tokens."""
    return await _token(engine_service, Role.READ)


async def test_a_wrong_token_is_refused_at_once(reader: str, served: str) -> None:
    for wrong in (None, reader[:-1] + ("a" if reader[-1] != "a" else "b")):
        async with closing(new_app(served, token=wrong)) as app:
            with pytest.raises(Unauthorized):
                await app.tasks["add"].aenqueue(1, 2)
            with pytest.raises(Unauthorized):
                await asyncio.to_thread(app.tasks["add"].enqueue, 1, 2)
    async with closing(new_app(served, token=reader)) as app:
        with pytest.raises(Forbidden, match="produce"):
            await app.tasks["add"].aenqueue(1, 2)


# Servers that are not Windlass servers


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>Welcome</html>")

    def log_message(self, *_args: object) -> None:
        pass


async def test_something_else_that_answers() -> None:
    with HTTPServer(("127.0.0.1", 0), Stranger) as other:
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        try:
            app = new_app(f"http://127.0.0.1:{other.server_port}")
            with pytest.raises(EngineUnsuitable, match="not a Windlass server"):
                await app.tasks["add"].aenqueue(1, 2)
            await app.aclose()
        finally:
            other.shutdown()
            serving.join()


ADDRESS = parse_server_url(DEAD)


@pytest.mark.parametrize("encoding", [Codec.JSON, Codec.MSGPACK])
@pytest.mark.parametrize("code", REFUSALS)
def test_refusals_are_the_same_classes(code: str, encoding: Codec) -> None:
    said = problem_response(REFUSALS[code]("Not so."), encoding)  # type: ignore[arg-type]
    found = error_of(ADDRESS, "/x", ApiResponse(said.status, said.content_type, said.body))
    assert (type(found), str(found)) == (REFUSALS[code], "Not so.")


@pytest.mark.parametrize(
    ("status", "media", "body", "kind"),
    [
        (502, "text/html", b"<html>", NoAnswer),
        (504, "", b"", NoAnswer),
        (302, "text/html", b"", EngineUnsuitable),
        (500, JSON, b"{}", EngineUnsuitable),
        (500, MSGPACK, b"\xc1", EngineUnsuitable),
    ],
)
def test_answers_that_are_not_ours(status: int, media: str, body: bytes, kind: type[WindlassError]) -> None:
    found = error_of(ADDRESS, "/x", ApiResponse(status, media, body))
    assert type(found) is kind
    assert str(ADDRESS) in str(found)


def test_what_is_sent_again() -> None:
    safe, taking = get("/x", None), post("/take", None, is_repeatable=False)
    for error, request in ((NotReached("x"), taking), (NoAnswer("x"), safe), (TooManyRequests(), taking)):
        pauses = [RequestRetryPolicy(10, 0).pause_s(error, request, 0) for _ in range(3)]
        assert all(0 < pause_s <= 0.05 for pause_s in pauses)
    patience = RequestRetryPolicy(10, 0)
    assert max(patience.pause_s(NotReached("x"), safe, 0) for _ in range(50)) <= 1.0
    for error, request, now_s in (
        (NoAnswer("x"), taking, 0.0),
        (Forbidden(), safe, 0.0),
        (NotReached("x"), safe, 10.0),
    ):
        with pytest.raises(type(error)):
            RequestRetryPolicy(10, 0).pause_s(error, request, now_s)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate of this machine, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    made = directory / "certificate.pem", directory / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(made[1]), "-out", str(made[0])]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    return made


async def test_certificates_are_checked(certificate: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    with HTTPServer(("127.0.0.1", 0), Stranger) as other:
        other.socket = context.wrap_socket(other.socket, server_side=True)
        serving = threading.Thread(target=other.serve_forever)
        serving.start()
        url = f"https://127.0.0.1:{other.server_port}"
        try:
            for query, error in (("", BadSetting), (f"?ssl_ca_certs={certificate[0]}", EngineUnsuitable)):
                store = RemoteStore(parse_server_url(url + query), patience_s=0)
                with pytest.raises(error, match="not trusted" if error is BadSetting else "not a Windlass server"):
                    await asyncio.to_thread(store.open_sync)
                with pytest.raises(error, match="not trusted" if error is BadSetting else "not a Windlass server"):
                    await store.perform(get("/info", ServerInfo))
                await store.close()
        finally:
            other.shutdown()
            serving.join()


# URLs


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:8080", "http://localhost:8080"),
        ("https://jobs.example.org", "https://jobs.example.org:443"),
        ("HTTP://[::1]/queue/", "http://[::1]:80/queue"),
    ],
)
def test_urls_of_servers(url: str, shown: str) -> None:
    assert str(parse_server_url(url)) == shown


@pytest.mark.parametrize(
    "url",
    ["http://", "http://user:hunter2@host", "http://host:99999", "http://host/?ssl_ca_certs=x", "https://host?x=1#y"],
)
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises(BadSetting, match="Example: http://localhost:8080") as caught:
        parse_server_url(url)
    assert "hunter2" not in str(caught.value)


def test_certificates_that_are_not_there() -> None:
    with pytest.raises(BadSetting, match="missing"):
        parse_server_url("https://host?ssl_ca_certs=/missing.pem").ssl_context()
