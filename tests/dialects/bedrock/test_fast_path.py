"""Commands of Bedrock that wait for one future and have no task: order, ends and failures are those of all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.dialects.bedrock.client import SocketClient, command, connect
from tests.dialects.bedrock.fake_router import ListenerSetup, running_listener, until
from windlass.core.errors import EngineUnavailable
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def setup(service: Service) -> AsyncIterator[ListenerSetup]:
    async with running_listener(service, clock=lambda: 0.0) as setup:
        yield setup


@pytest.fixture
async def client(setup: ListenerSetup) -> AsyncIterator[SocketClient]:
    async with connect(setup.address) as client:
        yield client


async def _begun(client: SocketClient, setup: ListenerSetup, **more: object) -> asyncio.Future[bytes]:
    await client.send(command("CreateJob", name="brief", **more))
    async with asyncio.timeout(20):
        await setup.router.entered.wait()
    assert setup.router.fast_reply is not None
    return setup.router.fast_reply


async def test_what_comes_behind_it_waits(client: SocketClient, setup: ListenerSetup) -> None:
    begun = await _begun(client, setup)
    await client.send(b"Ping\n\n" + command("CreateJob", name="other"))
    await until(lambda: setup.listener.buffered_bytes > 0)
    assert setup.router.answered == []
    begun.set_result(b"done")
    assert (await client.answer()).body == b"done"
    assert (await client.answer()).line == "200 OK"
    assert (await client.answer()).body == b"other for local"


async def test_more_behind_it_than_may_wait_is_read_later(service: Service) -> None:
    """Also what comes after the last one that waited: reading had paused before it."""
    async with (
        running_listener(service, clock=lambda: 0.0, pipelined_bytes_max=100) as setup,
        connect(setup.address) as client,
    ):
        begun = await _begun(client, setup)
        setup.router.entered.clear()
        await client.send(command("CreateJob", name="brief" + "x" * 200))
        await until(lambda: setup.listener.buffered_bytes > 100)
        begun.set_result(b"first")
        async with asyncio.timeout(20):
            await setup.router.entered.wait()
        assert setup.router.fast_reply is not None
        assert setup.router.fast_reply is not begun
        setup.router.fast_reply.set_result(b"second")
        assert [(await client.answer()).body for _ in range(2)] == [b"first", b"second"]
        assert (await client.call(b"Ping\n\n")).line == "200 OK"


async def test_a_command_takes_no_longer_than_it_may(client: SocketClient, setup: ListenerSetup) -> None:
    begun = await _begun(client, setup, timeout=20)
    assert (await client.answer()).line == "555 Timeout"
    assert begun.cancelled()
    assert (await client.call(b"Ping\n\n")).line == "200 OK"


async def test_what_goes_wrong_is_told(
    client: SocketClient, setup: ListenerSetup, caplog: pytest.LogCaptureFixture
) -> None:
    (await _begun(client, setup)).set_exception(EngineUnavailable("It is away."))
    assert (await client.answer()).line == "502 Engine unavailable"
    setup.router.entered.clear()
    (await _begun(client, setup)).set_exception(ZeroDivisionError())
    assert (await client.answer()).line == "502 Internal failure"
    assert "Command CreateJob failed" in caplog.text
    caplog.clear()
    assert (await client.call("CreateJob", name="brief fail")).line == "502 Internal failure"
    assert "Command CreateJob failed" in caplog.text
    assert (await client.call("CreateJob", name="brief refused")).line == "402 Malformed name"


async def test_a_client_that_goes_leaves_nothing(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        begun = await _begun(client, setup)
    assert not begun.done()
    begun.set_result(b"for nobody")
    await until(lambda: setup.listener.handlers_running == setup.listener.open == 0)


async def test_a_server_that_stops_lets_it_end(service: Service) -> None:
    async with running_listener(service, clock=lambda: 0.0) as setup, connect(setup.address) as client:
        begun = await _begun(client, setup)
        stopping = asyncio.create_task(setup.listener.stop(grace_s=20))
        await until(lambda: setup.listener.is_closing)
        begun.set_result(b"last")
        answer = await client.answer()
        assert (answer.body, answer.headers["Connection"]) == (b"last", "close")
        await stopping


async def test_one_that_never_ends_is_cut(service: Service) -> None:
    async with running_listener(service, clock=lambda: 0.0) as setup, connect(setup.address) as client:
        begun = await _begun(client, setup)
        await setup.listener.stop(grace_s=0.05)
        assert begun.cancelled()


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=["host", "origin", "site"],
)
async def test_whoever_says_where_they_come_from_is_asked_about_it(
    client: SocketClient, setup: ListenerSetup, headers: dict[str, str]
) -> None:
    assert (await client.call("CreateJob", name="brief", **headers)).line == "403 Forbidden"
    assert setup.router.fast_reply is None


async def test_a_token_that_was_shown_once_counts_for_the_short_way(client: SocketClient, setup: ListenerSetup) -> None:
    assert (await client.call("CreateJob", name="other", Authorization="Bearer nonsense")).line == "401 Unauthorized"
    assert (await client.call("CreateJob", name="brief")).line == "401 Unauthorized"
