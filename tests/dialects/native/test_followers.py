"""Many event followers over HTTP: shared encoding, limits on their number, and clients that do not read."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from tests.dialects.event_stream import EventStream, following
from tests.dialects.sample_jobs import path, put, take, until
from windlass.core.access.tokens import NewToken, Role
from windlass.core.event import Emit
from windlass.core.job import Blob, NewJob
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.wire import sse
from windlass.wire.events import EventShape

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

EVENTS = "/api/v1/events"
READ = frozenset({Role.READ})
FOLLOWERS, JOBS = 10, 200
WAIT_S = 20.0


@pytest.fixture
def server_settings() -> Settings:
    return Settings(port=0, bedrock_port=None, roles="api", followers_max=3, token_followers_max=2)


def api_settings() -> Settings:
    return Settings(port=0, bedrock_port=None, roles="api")


async def enqueue(service: Service, count: int) -> None:
    await service.enqueue([NewJob(queue="q", name=f"n{number}") for number in range(count)])


@contextlib.asynccontextmanager
async def followers(client: httpx.AsyncClient, count: int, *tokens: str) -> AsyncIterator[list[EventStream]]:
    """Open streams: `count` without a token, and one for each token."""
    async with contextlib.AsyncExitStack() as stack:
        streams = []
        for token in (*[""] * count, *tokens):
            shown = {"authorization": f"Bearer {token}"} if token else {}
            streams.append(await stack.enter_async_context(following(client, EVENTS, **shown)))
            await streams[-1].mark()
        yield streams


async def get_refusal(client: httpx.AsyncClient, where: str, **headers: str) -> httpx.Response:
    async with asyncio.timeout(WAIT_S):  # the response to an accepted follower never ends
        return await client.get(where, headers=headers)


# Shared encoding


@pytest.mark.parametrize("server_settings", [api_settings()])
async def test_an_event_is_encoded_once_for_all_followers(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = 0
    encode = msgspec.json.encode

    def count(value: Any, **more: Any) -> bytes:
        nonlocal encoded
        encoded += isinstance(value, EventShape)
        return encode(value, **more)

    monkeypatch.setattr(msgspec.json, "encode", count)
    async with followers(client, FOLLOWERS) as streams:
        await enqueue(service, JOBS)
        told = [await stream.some(JOBS) for stream in streams]
    assert [heard.data["name"] for heard in told[0]] == [f"n{number}" for number in range(JOBS)]
    assert all(heard == told[0] for heard in told)
    assert encoded == JOBS


@pytest.mark.parametrize("server_settings", [api_settings()])
async def test_events_that_happen_together_are_written_together(running: Server, service: Service) -> None:
    """The engine reports the events of one call in one reply; the test counts the chunks of the response."""
    target = urlsplit(running.url)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    writer.write(f"GET {EVENTS} HTTP/1.1\r\nHost: {target.netloc}\r\n\r\n".encode())
    sizes = []
    async with asyncio.timeout(WAIT_S):
        await reader.readuntil(b"id: ")
        await reader.readuntil(b"\r\n")
        await enqueue(service, JOBS)
        seen = 0
        while seen < JOBS:
            sizes.append(int(await reader.readuntil(b"\r\n"), 16))
            seen += (await reader.readexactly(sizes[-1] + 2)).count(b"event: queued\n")
    writer.close()
    assert len(sizes) <= JOBS // 20
    assert max(sizes) <= 2 * 64 * 1024


# Limits


async def test_a_token_may_follow_so_often_and_again_when_one_has_ended(
    client: httpx.AsyncClient, running: Server, service: Service
) -> None:
    job = await put(service)
    async with followers(client, 1):
        async with followers(client, 1):
            for where in (EVENTS, f"{path(job)}/events"):
                answer = await get_refusal(client, where)
                assert answer.status_code == 429
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.headers["retry-after"] == "1"
                problem = answer.json()
                assert problem["code"] == "too_many_requests"
                assert "'local'" in problem["detail"]
                assert "WINDLASS_TOKEN_FOLLOWERS_MAX" in problem["detail"]
            assert running.state.followers.count == 2
        await until(lambda: running.state.followers.count == 1)
        async with followers(client, 1):
            assert running.state.followers.count == 2
    await until(lambda: running.state.followers.count == 0)


async def test_a_process_has_so_many_followers_of_all_tokens(
    client: httpx.AsyncClient, running: Server, service: Service
) -> None:
    tokens = [(await service.create_token(NewToken(name=f"t{at}", roles=READ))).text for at in range(4)]
    async with followers(client, 0, *tokens[:3]):
        answer = await get_refusal(client, EVENTS, authorization=f"Bearer {tokens[3]}")
        assert answer.status_code == 429
        assert "WINDLASS_FOLLOWERS_MAX" in answer.json()["detail"]
    await until(lambda: running.state.followers.count == 0)


async def test_pages_of_the_dashboard_count_apart_and_both_are_metered(
    client: httpx.AsyncClient, running: Server
) -> None:
    async with followers(client, 2), client.stream("GET", "/live") as first, client.stream("GET", "/live") as second:
        assert (first.status_code, second.status_code) == (200, 200)
        assert (await get_refusal(client, "/live")).status_code == 429
        scraped = (await client.get("/metrics")).text
        for kind in ("client", "page"):
            assert re.search(rf'^windlass_server_followers{{.*kind="{kind}".*}} 2$', scraped, re.MULTILINE)
    await until(lambda: running.state.page_followers.count == 0)


async def test_a_follower_that_is_refused_otherwise_does_not_count(client: httpx.AsyncClient, running: Server) -> None:
    for _ in range(3):
        assert (await get_refusal(client, f"{EVENTS}?position=nonsense")).status_code == 400
    assert running.state.followers.count == 0


# A token limited to some queues, during events in others


@contextlib.asynccontextmanager
async def keep_enqueueing(service: Service, queue: str) -> AsyncIterator[None]:
    async def enqueue_on() -> None:
        while True:
            await put(service, queue=queue)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(enqueue_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


@pytest.fixture
async def scoped(service: Service) -> str:
    return (await service.create_token(NewToken(name="mine", roles=READ, queues=("mine",)))).text


async def test_a_revoked_token_follows_no_more_although_nothing_was_for_it(
    client: httpx.AsyncClient, service: Service, scoped: str
) -> None:
    async with followers(client, 0, scoped) as [stream], keep_enqueueing(service, "theirs"):
        await service.revoke_token("mine")
        assert await stream.rest() == []


async def test_a_stream_says_that_it_lives_although_nothing_is_for_it(
    client: httpx.AsyncClient, service: Service, scoped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with followers(client, 0, scoped) as [stream], keep_enqueueing(service, "theirs"):
        monkeypatch.setattr(sse, "KEEP_ALIVE_S", 0.3)
        before = stream.last_id
        assert await stream.mark() != before
        assert stream.comments == 1


# Clients that do not read


@pytest.mark.parametrize("server_settings", [api_settings()])
async def test_a_client_that_does_not_read_delays_no_other_and_learns_what_it_missed(
    client: httpx.AsyncClient, running: Server, service: Service
) -> None:
    target = urlsplit(running.url)
    asleep = socket.socket()
    asleep.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asleep.connect((target.hostname, target.port))
    asleep.sendall(f"GET {EVENTS} HTTP/1.1\r\nHost: {target.netloc}\r\n\r\n".encode())
    await until(lambda: running.state.followers.count == 1)
    async with following(client, EVENTS) as stream:
        await stream.mark()
        await put(service)
        job = await take(service)
        await stream.some(2)
        value = Blob(msgspec.json.encode("x" * 16_000))
        batches, per_batch = 16, 50
        for _ in range(batches):  # some 13 MB: more than sockets and buffers hold
            await service.emit([Emit(job.id, job.lease_token, value)] * per_batch)
            heard = await stream.some(per_batch)
            assert "missed" not in [event.kind for event in heard]
    assert await asyncio.to_thread(_read_until, asleep, b"event: missed\n")


def _read_until(asleep: socket.socket, wanted: bytes) -> bool:
    asleep.settimeout(WAIT_S)
    rest = b""
    with asleep:
        while data := asleep.recv(2**20):
            if wanted in rest + data:
                return True
            rest = data[-len(wanted) :]
    return False
