"""Fast path of commands that wait for a single future without a task. It behaves like the other commands."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from tests.dialects.bedrock.client import SocketClient, command, connect
from tests.dialects.bedrock.fake_router import ListenerSetup, running_listener, until
from tests.web.http_client import MemoryTransport
from windlass.core.errors import EngineUnavailable
from windlass.dialects.bedrock.connections.connection import BedrockConnection
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


async def _started(client: SocketClient, setup: ListenerSetup, **more: object) -> asyncio.Future[bytes]:
    await client.send(command("CreateJob", name="brief", **more))
    async with asyncio.timeout(20):
        await setup.router.entered.wait()
    assert setup.router.fast_reply is not None
    return setup.router.fast_reply


async def test_later_commands_wait_for_it(client: SocketClient, setup: ListenerSetup) -> None:
    started = await _started(client, setup)
    await client.send(b"Ping\n\n" + command("CreateJob", name="other"))
    await until(lambda: setup.listener.buffered_bytes > 0)
    assert setup.router.answered == []
    started.set_result(b"done")
    assert (await client.answer()).body == b"done"
    assert (await client.answer()).line == "200 OK"
    assert (await client.answer()).body == b"other for local"


async def test_excess_input_behind_it_is_read_later(service: Service) -> None:
    """Reading pauses, so input after the last waiting command is read too."""
    async with (
        running_listener(service, clock=lambda: 0.0, pipelined_bytes_max=100) as setup,
        connect(setup.address) as client,
    ):
        started = await _started(client, setup)
        setup.router.entered.clear()
        await client.send(command("CreateJob", name="brief" + "x" * 200))
        await until(lambda: setup.listener.buffered_bytes > 100)
        started.set_result(b"first")
        async with asyncio.timeout(20):
            await setup.router.entered.wait()
        assert setup.router.fast_reply is not None
        assert setup.router.fast_reply is not started
        setup.router.fast_reply.set_result(b"second")
        assert [(await client.answer()).body for _ in range(2)] == [b"first", b"second"]
        assert (await client.call(b"Ping\n\n")).line == "200 OK"


async def test_a_command_times_out(client: SocketClient, setup: ListenerSetup) -> None:
    started = await _started(client, setup, timeout=20)
    assert (await client.answer()).line == "555 Timeout"
    assert started.cancelled()
    assert (await client.call(b"Ping\n\n")).line == "200 OK"


async def test_errors_are_answered(
    client: SocketClient, setup: ListenerSetup, caplog: pytest.LogCaptureFixture
) -> None:
    (await _started(client, setup)).set_exception(EngineUnavailable("It is away."))
    assert (await client.answer()).line == "502 Engine unavailable"
    setup.router.entered.clear()
    (await _started(client, setup)).set_exception(ZeroDivisionError())
    assert (await client.answer()).line == "502 Internal failure"
    assert "Command CreateJob failed" in caplog.text
    caplog.clear()
    assert (await client.call("CreateJob", name="brief fail")).line == "502 Internal failure"
    assert "Command CreateJob failed" in caplog.text
    assert (await client.call("CreateJob", name="brief refused")).line == "402 Malformed name"


async def test_a_disconnected_client_leaves_nothing_behind(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        started = await _started(client, setup)
    assert not started.done()
    started.set_result(b"for nobody")
    await until(lambda: setup.listener.handlers_running == setup.listener.open == 0)


async def test_a_stopping_server_waits_for_it(service: Service) -> None:
    async with running_listener(service, clock=lambda: 0.0) as setup, connect(setup.address) as client:
        started = await _started(client, setup)
        stopping = asyncio.create_task(setup.listener.stop(grace_s=20))
        await until(lambda: setup.listener.is_closing)
        started.set_result(b"last")
        answer = await client.answer()
        assert (answer.body, answer.headers["Connection"]) == (b"last", "close")
        await stopping


async def test_a_command_that_never_ends_is_cut(service: Service) -> None:
    async with running_listener(service, clock=lambda: 0.0) as setup, connect(setup.address) as client:
        started = await _started(client, setup)
        await setup.listener.stop(grace_s=0.05)
        assert started.cancelled()


@pytest.mark.parametrize("verb", ["GetJob", "CreateJob"])
async def test_a_command_cancelled_before_its_first_step_is_finished(setup: ListenerSetup, verb: str) -> None:
    connection = BedrockConnection(setup.listener)
    with socket.socket() as unused:
        connection.connection_made(MemoryTransport(socket=unused))
        connection.data_received(command(verb, name="n", Connection="wait"))
        assert setup.listener.handlers_running == 1
        connection.close_now()
        connection.connection_lost(None)
    await until(lambda: setup.listener.handlers_running == 0)
    assert setup.router.answered == []
    assert not setup.listener._connections


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=["host", "origin", "site"],
)
async def test_origin_headers_are_checked(client: SocketClient, setup: ListenerSetup, headers: dict[str, str]) -> None:
    assert (await client.call("CreateJob", name="brief", **headers)).line == "403 Forbidden"
    assert setup.router.fast_reply is None


async def test_an_earlier_token_applies_to_the_fast_path(client: SocketClient, setup: ListenerSetup) -> None:
    assert (await client.call("CreateJob", name="other", Authorization="Bearer nonsense")).line == "401 Unauthorized"
    assert (await client.call("CreateJob", name="brief")).line == "401 Unauthorized"
