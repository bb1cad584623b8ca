"""Tests of the retry loop. No test waits for a pause: pauses are zero, or endless and interrupted."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from typing import Any

import pytest

from windlass.retry_loop import STEADY, Pauses, RetryLoop, pause

pytestmark = pytest.mark.anyio

log = logging.getLogger("windlass.test")
AT_ONCE = Pauses(0.0, 0.0)
ENDLESS = Pauses(1e6, 1e6)


class Away(Exception):
    pass


class Refused(Away):
    pass


class Script:
    """Outcomes of attempts in order: exceptions are raised, other values returned."""

    def __init__(self, *outcomes: Any) -> None:
        self._outcomes: Iterator[Any] = iter(outcomes)
        self.calls = 0

    def call(self) -> Any:
        self.calls += 1
        outcome = next(self._outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def acall(self) -> Any:
        return self.call()


def loop_with(pauses: Pauses, **options: Any) -> RetryLoop:
    return RetryLoop(log, "Could not knock", Away, pauses=pauses, **options)


# Pauses


def test_pauses_double_up_to_the_longest() -> None:
    pauses = Pauses(0.5, 3.0)
    assert [pauses.after(failures) for failures in (1, 2, 3, 4, 5, 10_000)] == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_jitter_leaves_the_random_numbers_of_the_program_alone() -> None:
    before = random.getstate()
    Pauses(2.0, 2.0, jitter=0.5).after(1)
    assert random.getstate() == before


def test_jitter_shortens_a_pause_by_at_most_its_share() -> None:
    drawn = [Pauses(2.0, 2.0, jitter=0.5).after(1) for _ in range(200)]
    assert all(1.0 <= pause_s <= 2.0 for pause_s in drawn)
    assert len(set(drawn)) > 1


def test_the_default_is_a_second_for_ever() -> None:
    assert [STEADY.after(failures) for failures in (1, 2, 100)] == [1.0, 1.0, 1.0]


async def test_a_pause_ends_by_itself_without_a_stop() -> None:
    assert not await pause(0.0)
    assert not await pause(0.0, asyncio.Event())


async def test_a_stop_ends_a_pause() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_soon(stop.set)
    assert await pause(1e6, stop)


# Until it is done


async def test_an_attempt_is_repeated_until_it_succeeds() -> None:
    script = Script(Away("far"), Away("far"), 7)
    assert await loop_with(AT_ONCE).until_done(script.acall) == 7
    assert script.calls == 3


async def test_pauses_grow_with_failures_in_a_row(caplog: pytest.LogCaptureFixture) -> None:
    loop = loop_with(Pauses(1e-6, 2e-6))
    await loop.until_done(Script(*[Away("far")] * 3, 7).acall)
    assert [record.message for record in caplog.records] == [
        f"Could not knock; trying again in {text} s: far" for text in ("1e-06", "2e-06", "2e-06")
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


async def test_an_error_without_a_text_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await loop_with(AT_ONCE, level=logging.DEBUG).until_done(Script(Away(), 7).acall)
    assert [(record.levelno, record.message) for record in caplog.records] == [
        (logging.DEBUG, "Could not knock; trying again in 0 s: Away()")
    ]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), asyncio.CancelledError(), Refused("no")])
def test_other_errors_pass_through(error: BaseException) -> None:
    for run in (RetryLoop.until_done, RetryLoop.forever):
        script = Script(error, 7)
        with pytest.raises(type(error)):
            run(loop_with(ENDLESS, unless=Refused), script.acall).send(None)
        assert script.calls == 1


async def test_cancellation_ends_a_pause() -> None:
    async def fail() -> None:
        asyncio.get_running_loop().call_soon(work.cancel)
        raise Away("far")

    work = asyncio.create_task(loop_with(ENDLESS).until_done(fail))
    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_stop_ends_the_pause_and_raises_the_last_error() -> None:
    script, stop = Script(Away("near"), Away("far"), 7), asyncio.Event()
    stop.set()
    with pytest.raises(Away, match="near"):
        await loop_with(ENDLESS).until_done(script.acall, stop)
    assert script.calls == 1


async def test_an_attempt_outside_a_loop_is_logged_and_followed_by_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()
    assert not await loop_with(AT_ONCE).pause_after(Away("far"), stop=stop)
    stop.set()
    assert await loop_with(ENDLESS).pause_after(Away("far"), stop=stop)
    assert caplog.messages == [f"Could not knock; trying again in {text} s: far" for text in ("0", "1e+06")]


async def test_the_default_pause_is_found_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = RetryLoop(log, "Could not knock", Away)
    assert loop.pause_s_after(Away("far"), 5) == STEADY.first_s
    monkeypatch.setattr("windlass.retry_loop.STEADY", AT_ONCE)
    assert loop.pause_s_after(Away("far"), 5) == 0


# For ever


async def test_turns_follow_each_other_and_errors_do_not_end_them() -> None:
    script = Script(1, Away("far"), 2, Away("far"), ValueError("the end"))
    with pytest.raises(ValueError, match="the end"):
        await loop_with(AT_ONCE).forever(script.acall)
    assert script.calls == 5


async def test_pauses_start_at_the_first_again_after_a_turn_without_error(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(Away("far"), Away("far"), 1, Away("far"), ValueError("the end"))
    with pytest.raises(ValueError, match="the end"):
        await loop_with(Pauses(1e-6, 2e-6)).forever(script.acall)
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [1e-6, 2e-6, 1e-6]
