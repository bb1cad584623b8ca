"""Commands of Bedrock that wait for one future and have no task: order, ends and failures are those of all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.dialects.bedrock.client import Talk, command, talking
from tests.dialects.bedrock.fake_router import Trial, trying, until
from windlass.core.errors import EngineUnavailable
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def trial(service: Service) -> AsyncIterator[Trial]:
    async with trying(service, clock=lambda: 0.0) as trial:
        yield trial


@pytest.fixture
async def talk(trial: Trial) -> AsyncIterator[Talk]:
    async with talking(trial.address) as talk:
        yield talk


async def _begun(talk: Talk, trial: Trial, **more: object) -> asyncio.Future[bytes]:
    await talk.send(command("CreateJob", name="brief", **more))
    async with asyncio.timeout(20):
        await trial.desk.entered.wait()
    assert trial.desk.brief is not None
    return trial.desk.brief


async def test_what_comes_behind_it_waits(talk: Talk, trial: Trial) -> None:
    begun = await _begun(talk, trial)
    await talk.send(b"Ping\n\n" + command("CreateJob", name="other"))
    await until(lambda: trial.listener.buffered_bytes > 0)
    assert trial.desk.answered == []
    begun.set_result(b"done")
    assert (await talk.answer()).body == b"done"
    assert (await talk.answer()).line == "200 OK"
    assert (await talk.answer()).body == b"other for local"


async def test_more_behind_it_than_may_wait_is_read_later(service: Service) -> None:
    """Also what comes after the last one that waited: reading had paused before it."""
    async with (
        trying(service, clock=lambda: 0.0, pipelined_bytes_max=100) as trial,
        talking(trial.address) as talk,
    ):
        begun = await _begun(talk, trial)
        trial.desk.entered.clear()
        await talk.send(command("CreateJob", name="brief" + "x" * 200))
        await until(lambda: trial.listener.buffered_bytes > 100)
        begun.set_result(b"first")
        async with asyncio.timeout(20):
            await trial.desk.entered.wait()
        assert trial.desk.brief is not None
        assert trial.desk.brief is not begun
        trial.desk.brief.set_result(b"second")
        assert [(await talk.answer()).body for _ in range(2)] == [b"first", b"second"]
        assert (await talk.ask(b"Ping\n\n")).line == "200 OK"


async def test_a_command_takes_no_longer_than_it_may(talk: Talk, trial: Trial) -> None:
    begun = await _begun(talk, trial, timeout=20)
    assert (await talk.answer()).line == "555 Timeout"
    assert begun.cancelled()
    assert (await talk.ask(b"Ping\n\n")).line == "200 OK"


async def test_what_goes_wrong_is_told(talk: Talk, trial: Trial, caplog: pytest.LogCaptureFixture) -> None:
    (await _begun(talk, trial)).set_exception(EngineUnavailable("It is away."))
    assert (await talk.answer()).line == "502 Engine unavailable"
    trial.desk.entered.clear()
    (await _begun(talk, trial)).set_exception(ZeroDivisionError())
    assert (await talk.answer()).line == "502 Internal failure"
    assert "The command CreateJob failed" in caplog.text
    caplog.clear()
    assert (await talk.ask("CreateJob", name="brief fail")).line == "502 Internal failure"
    assert "The command CreateJob failed" in caplog.text
    assert (await talk.ask("CreateJob", name="brief refused")).line == "402 Malformed name"


async def test_a_client_that_goes_leaves_nothing(trial: Trial) -> None:
    async with talking(trial.address) as talk:
        begun = await _begun(talk, trial)
    assert not begun.done()
    begun.set_result(b"for nobody")
    await until(lambda: trial.listener.handlers_running == trial.listener.open == 0)


async def test_a_server_that_stops_lets_it_end(service: Service) -> None:
    async with trying(service, clock=lambda: 0.0) as trial, talking(trial.address) as talk:
        begun = await _begun(talk, trial)
        stopping = asyncio.create_task(trial.listener.stop(grace_s=20))
        await until(lambda: trial.listener.is_closing)
        begun.set_result(b"last")
        answer = await talk.answer()
        assert (answer.body, answer.headers["Connection"]) == (b"last", "close")
        await stopping


async def test_one_that_never_ends_is_cut(service: Service) -> None:
    async with trying(service, clock=lambda: 0.0) as trial, talking(trial.address) as talk:
        begun = await _begun(talk, trial)
        await trial.listener.stop(grace_s=0.05)
        assert begun.cancelled()


@pytest.mark.parametrize(
    "said",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
    ids=["host", "origin", "site"],
)
async def test_whoever_says_where_they_come_from_is_asked_about_it(
    talk: Talk, trial: Trial, said: dict[str, str]
) -> None:
    assert (await talk.ask("CreateJob", name="brief", **said)).line == "403 Forbidden"
    assert trial.desk.brief is None


async def test_a_token_that_was_shown_once_counts_for_the_short_way(talk: Talk, trial: Trial) -> None:
    assert (await talk.ask("CreateJob", name="other", Authorization="Bearer nonsense")).line == "401 Unauthorized"
    assert (await talk.ask("CreateJob", name="brief")).line == "401 Unauthorized"
