"""Connections of the Bedrock port: order of replies, closing, timeouts and bounds."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from tests.dialects.bedrock.client import SocketClient, command, connect
from tests.dialects.bedrock.fake_router import JOB, ListenerSetup, running_listener, until
from windlass.core.access.tokens import NewToken, Role
from windlass.dialects.bedrock.verbs import VERBS
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def setup(service: Service) -> AsyncIterator[ListenerSetup]:
    async with running_listener(service) as setup:
        yield setup


@pytest.fixture
async def client(setup: ListenerSetup) -> AsyncIterator[SocketClient]:
    async with connect(setup.address) as client:
        yield client


# What needs no desk


async def test_ping(client: SocketClient) -> None:
    assert await client.call(b"Ping\n\n") == ("200 OK", {"Content-Length": "0"}, b"")
    assert (await client.call(b"PING / HTTP/1.1\r\n\r\n")).line == "200 OK"


async def test_status(client: SocketClient, setup: ListenerSetup) -> None:
    found = (await client.call(b"Status\n\n")).json
    assert found["isLeader"] is True
    assert found["isDetached"] is False
    assert found["state"] == "LEADING"
    assert found["plugins"][0]["name"] == "Jobs"
    assert found["host"] == setup.address
    assert list(found) == sorted(found, key=str.lower)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/status/handlingCommands", "HTTP/1.1 200 LEADING"),
        ("/status/isFollower", "HTTP/1.1 500 Not Following. State=LEADING"),
        ("/status/other", "HTTP/1.1 404 Not Found"),
    ],
)
async def test_status_by_http(client: SocketClient, path: str, line: str) -> None:
    assert (await client.call(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())).line == line


@pytest.mark.parametrize("request_line", [b"Nope", b"GET / HTTP/1.1", b"\0\0", b" ", b"CreateJobX"])
async def test_an_unknown_verb_keeps_the_connection(client: SocketClient, request_line: bytes) -> None:
    await client.send(request_line + b"\n\nPing\n\n")
    assert (await client.answer()).line == "430 Unrecognized command"
    assert (await client.answer()).line == "200 OK"


# One at a time, in order


async def test_pipelined_requests_are_answered_in_order(client: SocketClient, setup: ListenerSetup) -> None:
    await client.send(b"".join(command("CreateJob", name=number) + b"Ping\r\n\r\n" for number in range(1000)))
    for number in range(1000):
        assert (await client.answer()).body == f"{number} for local".encode()
        assert (await client.answer()).body == b""
    assert setup.router.answered == [str(number) for number in range(1000)]


async def test_a_waiting_command_blocks_the_commands_after_it(client: SocketClient, setup: ListenerSetup) -> None:
    await client.send(command("CreateJob", name="wait") + command("CreateJob", name="second"))
    await setup.router.entered.wait()
    assert setup.router.answered == []
    setup.router.gate.set()
    assert [(await client.answer()).body, (await client.answer()).body] == [b"wait for local", b"second for local"]


async def test_excess_pipelined_input_is_read_when_there_is_room(service: Service) -> None:
    requests = command("CreateJob", name="x" * 10_000) * 400
    async with (
        running_listener(service, pipelined_bytes_max=1000) as setup,
        connect(setup.address) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(client.send(command("CreateJob", name="wait") + requests))
        await setup.router.entered.wait()
        setup.router.gate.set()
        for _ in range(401):
            assert (await client.answer()).status == 200


async def test_a_failed_command_does_not_affect_the_next_command(
    client: SocketClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await client.call("CreateJob", name="fail")).line == "502 Internal failure"
    assert "ZeroDivisionError" in caplog.text
    assert (await client.call("CreateJob", name="good")).status == 200


# Connection: close and forget, and later times


async def test_connection_close_is_echoed_and_closes(client: SocketClient) -> None:
    await client.send(command("CreateJob", name="a", Connection="Close") + command("CreateJob", name="never"))
    answer = await client.answer()
    assert (answer.line, answer.headers["Connection"]) == ("200 OK", "close")
    assert await client.read_to_end() == b""


async def test_a_forgotten_command_runs_without_its_client(client: SocketClient, setup: ListenerSetup) -> None:
    answer = await client.call("CreateJob", name="wait", Connection="forget")
    assert (answer.line, answer.headers["Connection"]) == ("202 Successfully queued", "close")
    assert await client.read_to_end() == b""
    setup.router.gate.set()
    await setup.router.until(lambda: setup.router.answered == ["wait"])


async def test_a_forgotten_getjob_releases_its_job(client: SocketClient, setup: ListenerSetup) -> None:
    await client.call("GetJob", name="job", Connection="forget")
    await setup.router.until(lambda: setup.router.undelivered)
    assert setup.router.undelivered[0].jobs == (JOB,)


async def test_a_deferred_command(setup: ListenerSetup) -> None:
    soon = int((time.time() + 0.2) * 1_000_000)
    async with connect(setup.address) as client:
        assert (await client.call("CreateJob", name="later", commandExecuteTime=soon)).status == 202
        assert await client.read_to_end() == b""
    await setup.router.until(lambda: setup.router.answered == ["later"])
    assert time.time() * 1_000_000 >= soon


async def test_an_execution_time_in_the_past_does_not_defer(client: SocketClient) -> None:
    assert (await client.call("CreateJob", name="now", commandExecuteTime=1_000_000)).status == 200


async def test_a_forgotten_command_has_a_timeout(client: SocketClient, setup: ListenerSetup) -> None:
    await client.call("CreateJob", name="wait", Connection="forget", timeout=20)
    await setup.router.until(lambda: setup.router.cancelled)


async def test_deferred_commands_are_bounded(
    setup: ListenerSetup, client: SocketClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.dialects.bedrock.connections.deferred_commands.QUEUED_MAX", 1)
    async with connect(setup.address) as first:
        assert (await first.call("CreateJob", name="wait", Connection="forget")).status == 202
    assert (await client.call("CreateJob", name="b", Connection="forget")).line.startswith("503 Too many commands")
    assert (await client.call("CreateJob", name="c")).status == 200


async def test_a_stopping_server_drops_and_logs_deferred_commands(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_listener(service) as setup, connect(setup.address) as client:
        await client.call("CreateJob", name="later", commandExecuteTime=int((time.time() + 3600) * 1_000_000))
    assert "Dropped 1 deferred commands" in caplog.text


# Timeouts


async def test_a_command_times_out(client: SocketClient, setup: ListenerSetup) -> None:
    assert (await client.call("CreateJob", name="wait", timeout=50)).line == "555 Timeout"
    assert setup.router.cancelled == 1
    assert (await client.call("CreateJob", name="next")).status == 200


async def test_the_sweep_enforces_longer_timeouts(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.dialects.bedrock.connections.connection.PRECISE_TIMEOUT_S", 0.0)
    async with running_listener(service, linger_timeout_s=0.1) as setup, connect(setup.address) as client:
        assert (await client.call("CreateJob", name="wait", timeout=50)).line == "555 Timeout"


async def test_the_router_times_a_waiting_getjob(client: SocketClient, setup: ListenerSetup) -> None:
    await client.send(command("GetJob", name="wait for a job", Connection="wait", timeout=1))
    await setup.router.entered.wait()
    await asyncio.sleep(0.1)
    setup.router.gate.set()
    assert (await client.answer()).status == 200


# Clients that go


async def test_a_waiting_client_that_disconnects_gets_no_job(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        await client.send(command("GetJob", name="wait for a job", Connection="wait"))
        await setup.router.entered.wait()
        client.reset()
    await setup.router.until(lambda: setup.router.cancelled == 1)


async def test_a_job_whose_client_is_gone_is_released(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        await client.send(command("GetJob", name="wait for a job"))
        await setup.router.entered.wait()
        client.reset()
    await until(lambda: not setup.listener.open)
    setup.router.gate.set()
    await setup.router.until(lambda: setup.router.undelivered)
    assert setup.router.cancelled == 0


@pytest.mark.parametrize("connection", ["wait", "keep", "close"])
async def test_a_client_that_has_closed_its_side_gets_its_job(
    client: SocketClient, setup: ListenerSetup, connection: str
) -> None:
    await client.send(command("GetJob", name="wait for a job", Connection=connection))
    await setup.router.entered.wait()
    client.writer.write_eof()
    await until(lambda: all(connection._has_eof for connection in setup.listener._connections))
    setup.router.gate.set()
    assert (await client.answer()).line == "200 OK"
    assert await client.read_to_end() == b""
    assert setup.router.undelivered == []


@pytest.mark.parametrize("connection", ["wait", "keep", "close"])
async def test_a_job_for_a_client_that_has_closed_its_connection_is_released(
    setup: ListenerSetup, connection: str
) -> None:
    """Its end of input looks like a half-close. The reset of its system, after the reply, tells them apart."""
    async with connect(setup.address) as client:
        await client.send(command("GetJob", name="wait for a job", Connection=connection))
        await setup.router.entered.wait()
    await until(lambda: all(connection._has_eof for connection in setup.listener._connections))
    setup.router.gate.set()
    await setup.router.until(lambda: setup.router.undelivered)
    assert [reply.jobs for reply in setup.router.undelivered] == [(JOB,)]


async def test_a_waiting_client_that_ends_its_input_later_gets_no_job(
    client: SocketClient, setup: ListenerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.dialects.bedrock.connections.connection.HALF_CLOSE_S", 0.0)
    await client.send(command("GetJob", name="wait for a job", Connection="wait"))
    await setup.router.entered.wait()
    client.writer.write_eof()
    assert (await client.answer()).line == "303 Timeout"
    assert await client.read_to_end() == b""
    assert setup.router.cancelled == 1


async def test_a_waiting_client_that_resets_after_its_half_close_gets_no_job(service: Service) -> None:
    async with running_listener(service, linger_timeout_s=0.1) as setup, connect(setup.address) as client:
        await client.send(command("GetJob", name="wait for a job", Connection="wait"))
        await setup.router.entered.wait()
        client.writer.write_eof()
        await until(lambda: all(connection._has_eof for connection in setup.listener._connections))
        client.reset()
        await setup.router.until(lambda: setup.router.cancelled == 1)


async def test_pipelined_jobs_of_a_half_closed_client_are_all_delivered_or_all_released(setup: ListenerSetup) -> None:
    requests = command("GetJob", name="wait for a job") + command("GetJobs", name="job", numResults=1)
    async with connect(setup.address) as client, connect(setup.address) as gone:
        await client.send(requests)
        client.writer.write_eof()
        assert setup.router.undelivered == []
        await gone.send(requests)
        gone.writer.close()
        await until(lambda: all(connection._has_eof for connection in setup.listener._connections))
        setup.router.gate.set()
        assert (await client.read_to_end()).count(b"200 OK") == 2
    await setup.router.until(lambda: len(setup.router.undelivered) == 2)


async def test_a_client_that_has_closed_its_side_gets_every_other_reply(
    client: SocketClient, setup: ListenerSetup
) -> None:
    await client.send(command("CreateJob", name="wait") + command("CreateJob", name="b") + b"Pi")
    await setup.router.entered.wait()
    client.writer.write_eof()
    setup.router.gate.set()
    assert [(await client.answer()).body, (await client.answer()).body] == [b"wait for local", b"b for local"]
    assert await client.read_to_end() == b""


async def test_a_client_that_sends_and_half_closes_at_once(client: SocketClient, setup: ListenerSetup) -> None:
    """Both may be read before the command has started."""
    await client.call(b"Ping\n\n")
    (connection,) = setup.listener._connections
    connection.data_received(command("GetJob", name="wait for a job", Connection="wait"))
    assert connection.eof_received()
    setup.router.gate.set()
    assert (await client.answer()).line == "200 OK"
    assert setup.router.undelivered == []


async def test_pending_replies_to_a_slow_reader_survive_its_half_close(setup: ListenerSetup) -> None:
    async with connect(setup.address, limit=1024) as client:
        await client.send(command("CreateJob", name="large") * 3)
        client.writer.write_eof()
        await asyncio.sleep(0.1)
        assert len(await client.read_to_end()) > 3 * 8_000_000


async def test_other_commands_finish_without_their_client(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        await client.send(command("FinishJob", name="wait"))
        await setup.router.entered.wait()
    setup.router.gate.set()
    await setup.router.until(lambda: setup.router.answered == ["wait"])
    assert setup.router.cancelled == 0


# Leases


async def test_a_connection_lease_ends_with_its_connection(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        await client.call("GetJob", name="job", Lease="connection")
    await setup.router.until(lambda: setup.router.released == [(JOB,)])


async def test_a_server_that_stops_leaves_the_jobs_to_its_clients(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        await client.call("GetJob", name="job", Lease="connection")
        await setup.listener.stop(5)
        assert await client.read_to_end() == b""
    assert setup.router.released == []


async def test_other_leases_and_reported_jobs_are_not_released(setup: ListenerSetup) -> None:
    async with connect(setup.address) as client:
        await client.call("GetJob", name="job")
    async with connect(setup.address) as client:
        await client.call("GetJob", name="job", Lease="connection")
        await client.call("FinishJob", name="it")
    await setup.listener.stop(5)
    assert setup.router.released == []


# Tokens


async def test_a_token_is_needed_once_per_connection(
    client: SocketClient, setup: ListenerSetup, service: Service
) -> None:
    made = await service.create_token(NewToken(name="shop", roles=frozenset({Role.PRODUCE})))
    await asyncio.sleep(1.1)  # what was known of tokens has become old
    for shown in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic x"}):
        refused = await client.call("CreateJob", name="a", **shown)
        assert refused.line == "401 Unauthorized"
        assert "error" in refused.headers
    assert (await client.call(b"Ping\n\n")).status == 200
    assert (await client.call(b"Nope\n\n")).status == 430
    assert (await client.call("CreateJob", name="a", Authorization=f"Bearer {made.text}")).body == b"a for shop"
    assert (await client.call("CreateJob", name="b")).body == b"b for shop"
    async with connect(setup.address) as other:
        assert (await other.call("CreateJob", name="c")).status == 401


ALLOWED = {
    Role.PRODUCE: {"CreateJob", "CreateJobs", "CancelJob", "QueryJob"},
    Role.WORK: {"GetJob", "GetJobs", "FinishJob", "RetryJob", "FailJob", "UpdateJob", "RequeueJobs", "QueryJob"},
    Role.READ: {"Query", "QueryJob", "Status"},
}
EVERYTHING = {"DeleteJob"}.union(*ALLOWED.values())


def test_every_command_is_in_the_table(engine: object) -> None:
    assert {verb.name for verb in VERBS.values()} == EVERYTHING | {"Ping"}


async def test_roles(service: Service) -> None:
    tokens = {role: await service.create_token(NewToken(name=role.value, roles=frozenset({role}))) for role in Role}
    async with running_listener(service) as setup, connect(setup.address) as client:
        for role, made in tokens.items():
            statuses = {
                verb: (await client.call(verb, name="a", Authorization=f"Bearer {made.text}")).status
                for verb in EVERYTHING
            }
            allowed = EVERYTHING if role is Role.ADMIN else ALLOWED[role]
            assert statuses == {verb: 200 if verb in allowed else 403 for verb in EVERYTHING}


async def test_the_rate_of_a_token_is_enforced(service: Service) -> None:
    slow = NewToken(name="slow", roles=frozenset({Role.PRODUCE}), rate=1)
    shown = {"Authorization": f"Bearer {(await service.create_token(slow)).text}"}
    async with running_listener(service) as setup, connect(setup.address) as client:
        assert (await client.call("CreateJob", name="a", **shown)).status == 200
        assert (await client.call("CreateJob", name="a", **shown)).line == "429 Too many requests"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example.org:8888"},
        {"Host": "localhost", "Origin": "http://evil.example.org"},
        {"Origin": "x://y"},
    ],
)
async def test_web_pages_cannot_send_commands_without_tokens(client: SocketClient, headers: dict[str, str]) -> None:
    assert (await client.call("CreateJob / HTTP/1.1", name="a", **headers)).line == "403 Forbidden"


# Bounds


async def test_too_many_connections(service: Service) -> None:
    async with running_listener(service, connections_max=1) as setup, connect(setup.address) as first:
        await first.call(b"Ping\n\n")
        async with connect(setup.address) as second:
            await second.send(b"Ping\n\n")
            assert (await second.answer()).line == "503 Too many connections; try again in a moment"
            assert await second.read_to_end() == b""
        assert (await first.call(b"Ping\n\n")).status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"X" * 3000, 431),
        (b"X\n" + b"h: 1\n" * 3000 + b"\n", 431),
        (b"X\nContent-Length: 99999999999\n\n", 413),
        (b"X\nContent-Length: -1\n\n", 400),
        (b"X\nTransfer-Encoding: chunked\n\n", 400),
        (b"X\nname: \xff\xfe\n\n", 400),
    ],
)
async def test_a_protocol_error_is_answered_after_pending_replies(service: Service, data: bytes, status: int) -> None:
    async with running_listener(service, header_bytes_max=2000) as setup, connect(setup.address) as client:
        await client.send(command("CreateJob", name="a") + data)
        assert (await client.answer()).status == 200
        last = await client.answer()
        assert (last.status, last.headers["Connection"]) == (status, "close")
        assert await client.read_to_end() == b""


async def test_slow_heads_time_out_and_idle_connections_stay(service: Service) -> None:
    async with running_listener(service, head_timeout_s=0.3) as setup, contextlib.AsyncExitStack() as stack:
        idle, slow, within = [await stack.enter_async_context(connect(setup.address)) for _ in range(3)]
        await idle.call(b"Ping\n\n")
        await slow.send(b"Pi")
        await within.send(b"Ping\nContent-Length: 5\n\nab")
        assert (await slow.answer()).line == "408 The request did not arrive in time"
        assert (await within.answer()).status == 408
        assert await slow.read_to_end() == await within.read_to_end() == b""
        assert (await idle.call(b"Ping\n\n")).status == 200


async def test_idle_connections_close_when_connections_run_short(service: Service) -> None:
    """Connect concurrently: two connections alone do not count as many."""
    async with (
        running_listener(service, connections_max=4, crowded_timeout_s=0.5) as setup,
        contextlib.AsyncExitStack() as stack,
    ):
        coming = [stack.enter_async_context(connect(setup.address)) for _ in range(3)]
        clients = await asyncio.gather(*coming)
        for client in clients:
            assert await client.read_to_end() == b""


async def test_buffered_requests_are_bounded_in_total(service: Service) -> None:
    async with running_listener(service, bodies_bytes_max=1000) as setup, connect(setup.address) as client:
        await client.send(b"CreateJob\nname: " + b"x" * 2000)
        assert (await client.answer()).line.startswith("503 The server holds")
        assert await client.read_to_end() == b""


async def test_a_client_that_does_not_read_is_disconnected(service: Service) -> None:
    async with running_listener(service, write_timeout_s=0.3) as setup, connect(setup.address, limit=1024) as client:
        await client.send(command("CreateJob", name="large") * 4 + command("CreateJob", name="unreached"))
        await until(lambda: not setup.listener.open)
        assert "unreached" not in setup.router.answered


async def test_garbage_does_not_affect_other_connections(client: SocketClient, setup: ListenerSetup) -> None:
    for garbage in (b"\0" * 5000, bytes(range(256)) * 20, b"\n" * 100_000, b": \n\n" * 100, b"\xff\n\n", b"\r" * 9000):
        async with connect(setup.address) as other:
            await other.send(garbage)
            other.writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await other.read_to_end()
    assert (await client.call("CreateJob", name="fine")).status == 200


# The end


async def test_a_stopping_server_answers_pending_and_waiting_commands(service: Service) -> None:
    async with running_listener(service) as setup, contextlib.AsyncExitStack() as stack:
        idle, under_way, waiting = [await stack.enter_async_context(connect(setup.address)) for _ in range(3)]
        await idle.call(b"Ping\n\n")
        await waiting.send(command("GetJob", name="wait for a job", Connection="wait", timeout=60000))
        await under_way.send(command("CreateJob", name="wait"))
        await until(lambda: setup.listener.handlers_running == 2)
        stopping = asyncio.create_task(setup.listener.stop(10))
        told = await waiting.answer()
        assert (told.line, told.headers["Connection"]) == ("303 Timeout", "close")
        assert await idle.read_to_end() == b""
        setup.router.gate.set()
        last = await under_way.answer()
        assert (last.body, last.headers["Connection"]) == (b"wait for local", "close")
        await stopping


async def test_a_getjob_that_waits_during_a_stop_is_answered_at_once(service: Service) -> None:
    async with running_listener(service, stop_delay_s=5.0) as setup, connect(setup.address) as client:
        await client.call(b"Ping\n\n")
        stopping = asyncio.create_task(setup.listener.stop(10))
        await setup.listener.stopping.wait()
        assert (await client.call("GetJob", name="wait", Connection="wait")).line == "303 Timeout"
        await stopping
        assert setup.router.answered == []


async def test_remaining_connections_are_cut_after_the_grace(service: Service) -> None:
    async with running_listener(service) as setup, connect(setup.address) as client:
        await client.send(command("CreateJob", name="wait"))
        await setup.router.entered.wait()
        await setup.listener.stop(0.05)
        assert setup.router.cancelled == 1
        assert setup.listener.open == 0
