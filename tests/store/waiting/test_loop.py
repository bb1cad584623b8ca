"""The wait loop, driven step by step without I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from windlass.store.commands.command import Flow
from windlass.store.store import Store
from windlass.store.waiting import loop
from windlass.store.waiting.loop import GRACE_MS, SHORTEST_PAUSE_S, Look, PartitionWait, Wait, wait_flow
from windlass.store.waiting.wakeups import BLOCK_S, Place, Wakeups

A: Place = ("a", "")
B: Place = ("b", "")
WAIT_MS = 3_600_000


class ScriptedWait(Wait[str]):
    """Wait in one partition. Each poll yields its number; the test sends the evaluated reply."""

    def __init__(self, store: Store, places: tuple[Place, ...] = (A,)) -> None:
        super().__init__()
        self.part = PartitionWait(0, places, self.event)
        self.part.wakeups = store.wakeups.new_sync(0)
        self.parts = (self.part,)
        self.polls = 0
        self.answer: str | None = None

    def look(self, left_s: float) -> Flow[Any]:
        self.polls += 1
        self.registered_ms = self.part.registration(left_s).for_ms
        return _no_poll()

    def read(self, found: Look[str]) -> Look[str]:
        if found.is_found:
            self.part.note_found()
        return found

    def received(self, _is_woken: bool) -> str | None:
        assert not self.part.is_waiting
        return self.answer


def _no_poll() -> Flow[Any]:
    yield


def nothing(due_in_s: float | None = None, *, is_listening: bool = True) -> Look[str]:
    return Look("nothing", False, due_in_s, is_listening=is_listening)


FOUND = Look("found", True)


@pytest.fixture
def wait(store: Store) -> ScriptedWait:
    return ScriptedWait(store)


def returned(flow: Iterator[Any], reply: object) -> str:
    """Send the reply; the loop must end with it."""
    with pytest.raises(StopIteration) as end:
        flow.send(reply)  # type: ignore[attr-defined]
    answer: str = end.value.value
    return answer


def test_a_poll_that_finds_something_ends_the_wait(wait: ScriptedWait) -> None:
    flow = wait_flow(wait, WAIT_MS)
    next(flow)
    assert returned(flow, FOUND) == "found"
    assert wait.part.registered == frozenset()  # a poll that found something registered nothing


@pytest.mark.parametrize(
    ("due_in_s", "pause_s"), [(None, BLOCK_S), (2.5, 2.5), (10 * BLOCK_S, BLOCK_S), (0, SHORTEST_PAUSE_S)]
)
def test_it_waits_until_something_is_due(wait: ScriptedWait, due_in_s: float | None, pause_s: float) -> None:
    flow = wait_flow(wait, WAIT_MS)
    next(flow)
    assert flow.send(nothing(due_in_s)) == pause_s
    assert wait.part.is_waiting
    flow.send(False)
    assert wait.polls == 2
    assert returned(flow, FOUND) == "found"


class Clock:
    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


def test_after_its_time_it_polls_once_more(wait: ScriptedWait, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    flow = wait_flow(wait, 3_000)
    next(flow)
    assert flow.send(nothing()) == 3.0
    clock.now_s += 3.0
    flow.send(False)
    assert wait.polls == 2
    assert returned(flow, nothing()) == "nothing"
    assert wait.part.registered == {A}


def test_until_ends_the_wait_after_one_more_poll(wait: ScriptedWait) -> None:
    wait.until = asyncio.Event()
    flow = wait_flow(wait, WAIT_MS)
    next(flow)
    flow.send(nothing())
    wait.until.set()
    flow.send(False)
    assert returned(flow, nothing()) == "nothing"
    assert wait.polls == 2


def test_an_answer_that_came_with_the_wakeup_needs_no_poll(wait: ScriptedWait) -> None:
    flow = wait_flow(wait, WAIT_MS)
    next(flow)
    flow.send(nothing())
    wait.answer = "handed"
    assert returned(flow, True) == "handed"
    assert wait.polls == 1


def test_new_places_are_polled_before_the_wait(wait: ScriptedWait) -> None:
    flow = wait_flow(wait, WAIT_MS)
    next(flow)
    wait.part.next_places = (A, B)
    flow.send(nothing(is_listening=False))
    assert (wait.polls, wait.part.places) == (2, (A, B))
    assert flow.send(nothing()) == BLOCK_S
    assert wait.part.registered == {A, B}


def test_a_used_wakeup_is_not_passed_on(store: Store) -> None:
    wait = ScriptedWait(store, (A, B))
    flow = wait_flow(wait, WAIT_MS)
    next(flow)
    flow.send(nothing())
    wait.part.woken_place = A
    flow.send(True)
    assert (wait.part.last_wakeup, wait.part.woken_place) == (A, None)
    returned(flow, FOUND)
    assert wait.part.registered == {B}


def test_a_partition_that_was_not_polled_keeps_earlier_registrations(wait: ScriptedWait) -> None:
    wait.part.note_skipped()
    assert wait.part.registered == frozenset()
    wait.part.registered = frozenset({A})
    wait.part.renew()
    wait.part.note_skipped()
    assert wait.part.registered == {A}


def test_a_shared_registration_outlives_a_short_wait(store: Store) -> None:
    """All listeners of a place share one registration, and the last poll sets its time."""

    async def waits() -> None:
        async with store:
            wakeups: Wakeups = store.wakeups.of(0)
            alone, other = ScriptedWait(store), ScriptedWait(store)
            for wait in (alone, other):
                wait.part.wakeups = wakeups
            wakeups.add(alone.part)
            next(wait_flow(alone, 30))
            assert alone.registered_ms <= 30 + GRACE_MS
            wakeups.add(other.part)
            next(wait_flow(other, 30))
            assert other.registered_ms == BLOCK_S * 1000 + GRACE_MS
            other.part.note_found()
            assert other.part.registered == {A}  # the engine registers it even if the poll finds something
            for wait in (alone, other):
                wakeups.leave(wait.part)

    asyncio.run(waits())
