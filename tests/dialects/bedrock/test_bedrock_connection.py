"""Connections of Bedrock's port: order, ends and bounds, whatever the commands do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from tests.dialects.bedrock.client import Talk, command, talking
from tests.dialects.bedrock.fake_router import JOB, Trial, trying, until
from windlass.core.access.tokens import NewToken, Role
from windlass.dialects.bedrock.verbs import VERBS
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def trial(service: Service) -> AsyncIterator[Trial]:
    async with trying(service) as trial:
        yield trial


@pytest.fixture
async def talk(trial: Trial) -> AsyncIterator[Talk]:
    async with talking(trial.address) as talk:
        yield talk


# What needs no desk


async def test_ping(talk: Talk) -> None:
    assert await talk.ask(b"Ping\n\n") == ("200 OK", {"Content-Length": "0"}, b"")
    assert (await talk.ask(b"PING / HTTP/1.1\r\n\r\n")).line == "200 OK"


async def test_status(talk: Talk, trial: Trial) -> None:
    found = (await talk.ask(b"Status\n\n")).json
    assert found["isLeader"] is True
    assert found["isDetached"] is False
    assert found["state"] == "LEADING"
    assert found["plugins"][0]["name"] == "Jobs"
    assert found["host"] == trial.address
    assert list(found) == sorted(found, key=str.lower)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/status/handlingCommands", "HTTP/1.1 200 LEADING"),
        ("/status/isFollower", "HTTP/1.1 500 Not Following. State=LEADING"),
        ("/status/other", "HTTP/1.1 404 Not Found"),
    ],
)
async def test_status_by_http(talk: Talk, path: str, line: str) -> None:
    assert (await talk.ask(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())).line == line


@pytest.mark.parametrize("request_line", [b"Nope", b"GET / HTTP/1.1", b"\0\0", b" ", b"CreateJobX"])
async def test_an_unknown_verb_keeps_the_connection(talk: Talk, request_line: bytes) -> None:
    await talk.send(request_line + b"\n\nPing\n\n")
    assert (await talk.answer()).line == "430 Unrecognized command"
    assert (await talk.answer()).line == "200 OK"


# One at a time, in order


async def test_requests_that_come_at_once_are_answered_in_order(talk: Talk, trial: Trial) -> None:
    await talk.send(b"".join(command("CreateJob", name=number) + b"Ping\r\n\r\n" for number in range(1000)))
    for number in range(1000):
        assert (await talk.answer()).body == f"{number} for local".encode()
        assert (await talk.answer()).body == b""
    assert trial.desk.answered == [str(number) for number in range(1000)]


async def test_one_that_waits_holds_back_those_behind_it(talk: Talk, trial: Trial) -> None:
    await talk.send(command("CreateJob", name="wait") + command("CreateJob", name="second"))
    await trial.desk.entered.wait()
    assert trial.desk.answered == []
    trial.desk.gate.set()
    assert [(await talk.answer()).body, (await talk.answer()).body] == [b"wait for local", b"second for local"]


async def test_more_than_may_wait_is_read_when_there_is_room(service: Service) -> None:
    requests = command("CreateJob", name="x" * 10_000) * 400
    async with (
        trying(service, pipelined_bytes_max=1000) as trial,
        talking(trial.address) as talk,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(talk.send(command("CreateJob", name="wait") + requests))
        await trial.desk.entered.wait()
        trial.desk.gate.set()
        for _ in range(401):
            assert (await talk.answer()).status == 200


async def test_a_command_that_fails_is_answered_and_the_next_one_too(
    talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await talk.ask("CreateJob", name="fail")).line == "502 Internal failure"
    assert "ZeroDivisionError" in caplog.text
    assert (await talk.ask("CreateJob", name="good")).status == 200


# Connection: close and forget, and later times


async def test_close_is_answered_echoed_and_done(talk: Talk) -> None:
    await talk.send(command("CreateJob", name="a", Connection="Close") + command("CreateJob", name="never"))
    answer = await talk.answer()
    assert (answer.line, answer.headers["Connection"]) == ("200 OK", "close")
    assert await talk.end() == b""


async def test_a_forgotten_command_runs_with_nobody_to_answer(talk: Talk, trial: Trial) -> None:
    answer = await talk.ask("CreateJob", name="wait", Connection="forget")
    assert (answer.line, answer.headers["Connection"]) == ("202 Successfully queued", "close")
    assert await talk.end() == b""
    trial.desk.gate.set()
    await trial.desk.until(lambda: trial.desk.answered == ["wait"])


async def test_a_forgotten_getjob_gives_its_job_back(talk: Talk, trial: Trial) -> None:
    await talk.ask("GetJob", name="job", Connection="forget")
    await trial.desk.until(lambda: trial.desk.undeliverable)
    assert trial.desk.undeliverable[0].jobs == (JOB,)


async def test_a_command_for_a_later_time(trial: Trial) -> None:
    soon = int((time.time() + 0.2) * 1_000_000)
    async with talking(trial.address) as talk:
        assert (await talk.ask("CreateJob", name="later", commandExecuteTime=soon)).status == 202
        assert await talk.end() == b""
    await trial.desk.until(lambda: trial.desk.answered == ["later"])
    assert time.time() * 1_000_000 >= soon


async def test_a_time_that_has_passed_is_no_reason_to_wait(talk: Talk) -> None:
    assert (await talk.ask("CreateJob", name="now", commandExecuteTime=1_000_000)).status == 200


async def test_a_forgotten_command_has_its_timeout_too(talk: Talk, trial: Trial) -> None:
    await talk.ask("CreateJob", name="wait", Connection="forget", timeout=20)
    await trial.desk.until(lambda: trial.desk.cancelled)


async def test_only_so_many_commands_are_kept_for_later(
    trial: Trial, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.dialects.bedrock.deferred_commands.QUEUED_MAX", 1)
    async with talking(trial.address) as first:
        assert (await first.ask("CreateJob", name="wait", Connection="forget")).status == 202
    assert (await talk.ask("CreateJob", name="b", Connection="forget")).line.startswith("503 Too many commands")
    assert (await talk.ask("CreateJob", name="c")).status == 200


async def test_what_was_for_later_is_dropped_aloud_when_the_server_stops(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async with trying(service) as trial, talking(trial.address) as talk:
        await talk.ask("CreateJob", name="later", commandExecuteTime=int((time.time() + 3600) * 1_000_000))
    assert "Dropped 1 deferred commands" in caplog.text


# Timeouts


async def test_a_command_that_takes_too_long_is_given_up(talk: Talk, trial: Trial) -> None:
    assert (await talk.ask("CreateJob", name="wait", timeout=50)).line == "555 Timeout"
    assert trial.desk.cancelled == 1
    assert (await talk.ask("CreateJob", name="next")).status == 200


async def test_a_longer_timeout_is_kept_by_the_sweep(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.dialects.bedrock.connection.PRECISE_TIMEOUT_S", 0.0)
    async with trying(service, linger_timeout_s=0.1) as trial, talking(trial.address) as talk:
        assert (await talk.ask("CreateJob", name="wait", timeout=50)).line == "555 Timeout"


async def test_who_waits_for_a_job_is_timed_by_the_desk(talk: Talk, trial: Trial) -> None:
    await talk.send(command("GetJob", name="wait for a job", Connection="wait", timeout=1))
    await trial.desk.entered.wait()
    await asyncio.sleep(0.1)
    trial.desk.gate.set()
    assert (await talk.answer()).status == 200


# Clients that go


async def test_who_waits_for_a_job_and_goes_is_given_none(trial: Trial) -> None:
    async with talking(trial.address) as talk:
        await talk.send(command("GetJob", name="wait for a job", Connection="wait"))
        await trial.desk.entered.wait()
        talk.vanish()
    await trial.desk.until(lambda: trial.desk.cancelled == 1)


async def test_a_job_whose_client_has_gone_goes_back(trial: Trial) -> None:
    async with talking(trial.address) as talk:
        await talk.send(command("GetJob", name="wait for a job"))
        await trial.desk.entered.wait()
        talk.vanish()
    await until(lambda: not trial.listener.open)
    trial.desk.gate.set()
    await trial.desk.until(lambda: trial.desk.undeliverable)
    assert trial.desk.cancelled == 0


@pytest.mark.parametrize("connection", ["wait", "keep"])
async def test_a_client_that_has_closed_its_side_gets_no_job(talk: Talk, trial: Trial, connection: str) -> None:
    await talk.send(command("GetJob", name="wait for a job", Connection=connection))
    await trial.desk.entered.wait()
    talk.writer.write_eof()
    await asyncio.sleep(0.05)
    trial.desk.gate.set()
    assert (await talk.answer()).line.startswith("400 The client closed its side")
    assert await talk.end() == b""
    assert len(trial.desk.undeliverable) == (connection == "keep")


async def test_a_client_that_has_closed_its_side_gets_every_other_reply(talk: Talk, trial: Trial) -> None:
    await talk.send(command("CreateJob", name="wait") + command("CreateJob", name="b") + b"Pi")
    await trial.desk.entered.wait()
    talk.writer.write_eof()
    trial.desk.gate.set()
    assert [(await talk.answer()).body, (await talk.answer()).body] == [b"wait for local", b"b for local"]
    assert await talk.end() == b""


async def test_a_client_that_asks_and_closes_its_side_in_one_breath(talk: Talk, trial: Trial) -> None:
    """Both may be read before the command has begun."""
    await talk.ask(b"Ping\n\n")
    (connection,) = trial.listener._connections
    connection.data_received(command("GetJob", name="wait for a job", Connection="wait"))
    assert connection.eof_received()
    assert (await talk.answer()).line.startswith("400 The client closed its side")
    assert trial.desk.answered == []


async def test_replies_that_wait_for_a_client_that_reads_slowly_survive_its_half_close(trial: Trial) -> None:
    async with talking(trial.address, limit=1024) as talk:
        await talk.send(command("CreateJob", name="large") * 3)
        talk.writer.write_eof()
        await asyncio.sleep(0.1)
        assert len(await talk.end()) > 3 * 8_000_000


async def test_other_commands_run_to_their_end_without_a_client(trial: Trial) -> None:
    async with talking(trial.address) as talk:
        await talk.send(command("FinishJob", name="wait"))
        await trial.desk.entered.wait()
    trial.desk.gate.set()
    await trial.desk.until(lambda: trial.desk.answered == ["wait"])
    assert trial.desk.cancelled == 0


# Leases


async def test_a_lease_bound_to_its_connection_ends_with_it(trial: Trial) -> None:
    async with talking(trial.address) as talk:
        await talk.ask("GetJob", name="job", Lease="connection")
    await trial.desk.until(lambda: trial.desk.given_back == [(JOB,)])


async def test_other_leases_are_kept_and_those_reported_on_too(trial: Trial) -> None:
    async with talking(trial.address) as talk:
        await talk.ask("GetJob", name="job")
    async with talking(trial.address) as talk:
        await talk.ask("GetJob", name="job", Lease="connection")
        await talk.ask("FinishJob", name="it")
    await trial.listener.stop(5)
    assert trial.desk.given_back == []


# Tokens


async def test_when_tokens_exist_one_must_be_shown_once(talk: Talk, trial: Trial, service: Service) -> None:
    made = await service.create_token(NewToken(name="shop", roles=frozenset({Role.PRODUCE})))
    await asyncio.sleep(1.1)  # what was known of tokens has become old
    for shown in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic x"}):
        refused = await talk.ask("CreateJob", name="a", **shown)
        assert refused.line == "401 Unauthorized"
        assert "error" in refused.headers
    assert (await talk.ask(b"Ping\n\n")).status == 200
    assert (await talk.ask(b"Nope\n\n")).status == 430
    assert (await talk.ask("CreateJob", name="a", Authorization=f"Bearer {made.text}")).body == b"a for shop"
    assert (await talk.ask("CreateJob", name="b")).body == b"b for shop"
    async with talking(trial.address) as other:
        assert (await other.ask("CreateJob", name="c")).status == 401


ALLOWED = {
    Role.PRODUCE: {"CreateJob", "CreateJobs", "CancelJob", "QueryJob"},
    Role.WORK: {"GetJob", "GetJobs", "FinishJob", "RetryJob", "FailJob", "UpdateJob", "RequeueJobs", "QueryJob"},
    Role.READ: {"Query", "QueryJob", "Status"},
}
EVERYTHING = {"DeleteJob"}.union(*ALLOWED.values())


def test_every_command_stands_in_the_table(engine: object) -> None:
    assert {verb.name for verb in VERBS.values()} == EVERYTHING | {"Ping"}


async def test_roles_and_queues(service: Service) -> None:
    tokens = {role: await service.create_token(NewToken(name=role.value, roles=frozenset({role}))) for role in Role}
    elsewhere = NewToken(name="elsewhere", roles=frozenset({Role.WORK}), queues=("mail*",))
    here = NewToken(name="here", roles=frozenset({Role.WORK}), queues=("bed*",))
    other, mine = await service.create_token(elsewhere), await service.create_token(here)
    async with trying(service) as trial, talking(trial.address) as talk:
        for role, made in tokens.items():
            statuses = {
                verb: (await talk.ask(verb, name="a", Authorization=f"Bearer {made.text}")).status
                for verb in EVERYTHING
            }
            allowed = EVERYTHING if role is Role.ADMIN else ALLOWED[role]
            assert statuses == {verb: 200 if verb in allowed else 403 for verb in EVERYTHING}
        refused = await talk.ask("GetJob", name="a", Authorization=f"Bearer {other.text}")
        assert (refused.line, "mail*" in refused.headers["error"]) == ("403 Forbidden", True)
        assert (await talk.ask("GetJob", name="a", Authorization=f"Bearer {mine.text}")).status == 200


async def test_a_rate_is_kept(service: Service) -> None:
    slow = NewToken(name="slow", roles=frozenset({Role.PRODUCE}), rate=1)
    shown = {"Authorization": f"Bearer {(await service.create_token(slow)).text}"}
    async with trying(service) as trial, talking(trial.address) as talk:
        assert (await talk.ask("CreateJob", name="a", **shown)).status == 200
        assert (await talk.ask("CreateJob", name="a", **shown)).line == "429 Too many requests"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example.org:8888"},
        {"Host": "localhost", "Origin": "http://evil.example.org"},
        {"Origin": "x://y"},
    ],
)
async def test_no_web_page_gives_commands_where_no_token_does(talk: Talk, headers: dict[str, str]) -> None:
    assert (await talk.ask("CreateJob / HTTP/1.1", name="a", **headers)).line == "403 Forbidden"


# Bounds


async def test_too_many_connections(service: Service) -> None:
    async with trying(service, connections_max=1) as trial, talking(trial.address) as first:
        await first.ask(b"Ping\n\n")
        async with talking(trial.address) as second:
            await second.send(b"Ping\n\n")
            assert (await second.answer()).line == "503 Too many connections; try again in a moment"
            assert await second.end() == b""
        assert (await first.ask(b"Ping\n\n")).status == 200


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
async def test_what_cannot_be_read_is_said_after_the_replies_that_are_owed(
    service: Service, data: bytes, status: int
) -> None:
    async with trying(service, header_bytes_max=2000) as trial, talking(trial.address) as talk:
        await talk.send(command("CreateJob", name="a") + data)
        assert (await talk.answer()).status == 200
        last = await talk.answer()
        assert (last.status, last.headers["Connection"]) == (status, "close")
        assert await talk.end() == b""


async def test_slow_heads_are_left_and_idle_connections_kept(service: Service) -> None:
    async with trying(service, head_timeout_s=0.3) as trial, contextlib.AsyncExitStack() as stack:
        idle, slow, within = [await stack.enter_async_context(talking(trial.address)) for _ in range(3)]
        await idle.ask(b"Ping\n\n")
        await slow.send(b"Pi")
        await within.send(b"Ping\nContent-Length: 5\n\nab")
        assert (await slow.answer()).line == "408 The request did not arrive in time"
        assert (await within.answer()).status == 408
        assert await slow.end() == await within.end() == b""
        assert (await idle.ask(b"Ping\n\n")).status == 200


async def test_idle_connections_make_room_when_there_are_many(service: Service) -> None:
    """Together: without the third the first two would not be many."""
    async with trying(service, connections_max=4, crowded_timeout_s=0.5) as trial, contextlib.AsyncExitStack() as stack:
        coming = [stack.enter_async_context(talking(trial.address)) for _ in range(3)]
        talks = await asyncio.gather(*coming)
        for talk in talks:
            assert await talk.end() == b""


async def test_requests_of_all_together_have_a_bound(service: Service) -> None:
    async with trying(service, bodies_bytes_max=1000) as trial, talking(trial.address) as talk:
        await talk.send(b"CreateJob\nname: " + b"x" * 2000)
        assert (await talk.answer()).line.startswith("503 The server holds")
        assert await talk.end() == b""


async def test_a_client_that_does_not_read_is_left(service: Service) -> None:
    async with trying(service, write_timeout_s=0.3) as trial, talking(trial.address, limit=1024) as talk:
        await talk.send(command("CreateJob", name="large") * 4 + command("CreateJob", name="unreached"))
        await until(lambda: not trial.listener.open)
        assert "unreached" not in trial.desk.answered


async def test_garbage_harms_nobody_else(talk: Talk, trial: Trial) -> None:
    for garbage in (b"\0" * 5000, bytes(range(256)) * 20, b"\n" * 100_000, b": \n\n" * 100, b"\xff\n\n", b"\r" * 9000):
        async with talking(trial.address) as other:
            await other.send(garbage)
            other.writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await other.end()
    assert (await talk.ask("CreateJob", name="fine")).status == 200


# The end


async def test_a_server_that_stops_answers_what_was_asked_and_tells_who_waits(service: Service) -> None:
    async with trying(service) as trial, contextlib.AsyncExitStack() as stack:
        idle, under_way, waiting = [await stack.enter_async_context(talking(trial.address)) for _ in range(3)]
        await idle.ask(b"Ping\n\n")
        await waiting.send(command("GetJob", name="wait for a job", Connection="wait", timeout=60000))
        await under_way.send(command("CreateJob", name="wait"))
        await until(lambda: trial.listener.handlers_running == 2)
        stopping = asyncio.create_task(trial.listener.stop(10))
        told = await waiting.answer()
        assert (told.line, told.headers["Connection"]) == ("303 Timeout", "close")
        assert await idle.end() == b""
        trial.desk.gate.set()
        last = await under_way.answer()
        assert (last.body, last.headers["Connection"]) == (b"wait for local", "close")
        await stopping


async def test_who_begins_to_wait_while_the_server_stops_is_told_at_once(service: Service) -> None:
    async with trying(service, stop_delay_s=5.0) as trial, talking(trial.address) as talk:
        await talk.ask(b"Ping\n\n")
        stopping = asyncio.create_task(trial.listener.stop(10))
        await trial.listener.stopping.wait()
        assert (await talk.ask("GetJob", name="wait", Connection="wait")).line == "303 Timeout"
        await stopping
        assert trial.desk.answered == []


async def test_after_the_grace_what_is_left_is_cut(service: Service) -> None:
    async with trying(service) as trial, talking(trial.address) as talk:
        await talk.send(command("CreateJob", name="wait"))
        await trial.desk.entered.wait()
        await trial.listener.stop(0.05)
        assert trial.desk.cancelled == 1
        assert trial.listener.open == 0
