"""Autoscaler: examples, and properties of every history."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.scale import Load
from windlass.sdk.worker.supervision.autoscaler import UP_PAUSE_S, WAITED_MS, Autoscaler

SLOTS = 4
IDLE = Load(0, 0, 0)


def busy(queued: int, running: int, age_ms: int = WAITED_MS) -> Load:
    return Load(queued, age_ms if queued else 0, running)


@pytest.mark.parametrize(
    ("load", "current", "wanted"),
    [
        (IDLE, 1, 1),
        (busy(1, 4), 1, 2),  # a single job that has waited is enough
        (busy(1000, 4), 1, 2),  # at most twice as many at a time
        (busy(1000, 8), 2, 4),
        (busy(5, 16), 4, 6),  # as many as the queued jobs can fill
        (busy(1000, 24), 6, 8),  # never more than the most
        (busy(1000, 4, age_ms=WAITED_MS - 1), 1, 1),  # it may still find a free slot
        (busy(1000, 1), 1, 1),  # slots are free: something else holds the jobs back, such as a limit
        (busy(1000, 0), 1, 1),  # or a task that no worker knows
    ],
)
def test_growing(load: Load, current: int, wanted: int) -> None:
    assert Autoscaler(1, 8).decide(100.0, load, SLOTS, current) == wanted


def test_shrinking_one_at_a_time_when_fewer_have_been_enough() -> None:
    autoscaler = Autoscaler(1, 8, down_after_s=30)
    assert [autoscaler.decide(at, IDLE, SLOTS, 3) for at in (0.0, 15.0, 29.9)] == [3, 3, 3]
    assert autoscaler.decide(30.0, IDLE, SLOTS, 3) == 2
    assert autoscaler.decide(31.0, IDLE, SLOTS, 2) == 2  # the count starts again here
    assert autoscaler.decide(61.0, IDLE, SLOTS, 2) == 1
    assert autoscaler.decide(999.0, IDLE, SLOTS, 1) == 1


def test_a_moment_of_load_starts_the_patience_anew() -> None:
    autoscaler = Autoscaler(1, 8, down_after_s=30)
    assert autoscaler.decide(0.0, IDLE, SLOTS, 2) == 2
    assert autoscaler.decide(20.0, Load(0, 0, 5), SLOTS, 2) == 2
    assert autoscaler.decide(31.0, IDLE, SLOTS, 2) == 2
    assert autoscaler.decide(61.0, IDLE, SLOTS, 2) == 1


def test_growing_again_waits_until_new_processes_could_help() -> None:
    autoscaler = Autoscaler(1, 8)
    assert autoscaler.decide(0.0, busy(100, 4), SLOTS, 1) == 2
    assert autoscaler.decide(UP_PAUSE_S - 0.1, busy(100, 8), SLOTS, 2) == 2
    assert autoscaler.decide(UP_PAUSE_S, busy(100, 8), SLOTS, 2) == 4


loads = st.builds(Load, st.integers(0, 5000), st.integers(0, 60_000), st.integers(0, 64))


@given(
    bounds=st.tuples(st.integers(1, 8), st.integers(0, 8)),
    down_after_s=st.floats(0.1, 60),
    slots=st.integers(1, 50),
    steps=st.lists(st.tuples(st.floats(0.01, 20), loads), max_size=60),
)
def test_bounded_and_never_to_and_fro(
    bounds: tuple[int, int], down_after_s: float, slots: int, steps: list[tuple[float, Load]]
) -> None:
    least, most = bounds[0], bounds[0] + bounds[1]
    autoscaler = Autoscaler(least, most, down_after_s=down_after_s)
    now_s, current = 0.0, least
    changes: list[tuple[float, int]] = []
    for passed_s, load in steps:
        now_s += passed_s
        wanted = autoscaler.decide(now_s, load, slots, current)
        assert least <= wanted <= most
        assert wanted <= max(2 * current, current + 1)
        assert wanted >= current - 1
        if wanted != current:
            changes.append((now_s, wanted - current))
        current = wanted
    for (before_s, _), (after_s, change) in itertools.pairwise(changes):
        assert after_s - before_s >= (UP_PAUSE_S if change > 0 else down_after_s) - 1e-9


@given(current=st.integers(1, 8), load=st.tuples(st.integers(0, 100), st.integers(0, 60_000), st.integers(0, 64)))
def test_steady_load_comes_to_rest(current: int, load: Any) -> None:
    autoscaler, steady, now_s = Autoscaler(1, 8, down_after_s=5), Load(*load), 0.0
    seen = []
    for _ in range(60):
        now_s += 10
        current = autoscaler.decide(now_s, steady, SLOTS, current)
        seen.append(current)
    assert len(set(seen[-20:])) <= 2
