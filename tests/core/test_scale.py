"""The rule that tells how many workers a queue needs: examples, and properties of every load."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.scale import Load, ScaleTarget, wanted_workers


@pytest.mark.parametrize(
    ("load", "goal", "wanted"),
    [
        (Load(0, 0, 0), ScaleTarget(), 0),
        (Load(1, 0, 0), ScaleTarget(), 1),  # a single job is enough
        (Load(25, 0, 0), ScaleTarget(), 3),
        (Load(22, 0, 3), ScaleTarget(), 3),  # the same jobs, some of them running: the same answer
        (Load(0, 0, 3), ScaleTarget(), 3),  # running jobs keep their workers
        (Load(0, 0, 3), ScaleTarget(slots=2), 2),
        (Load(100, 0, 0), ScaleTarget(slots=4), 3),  # ten jobs per slot
        (Load(100, 0, 0), ScaleTarget(slots=4, target=10), 10),
        (Load(100, 60_000, 0), ScaleTarget(target_age_ms=60_000), 10),  # just in time
        (Load(100, 120_000, 0), ScaleTarget(target_age_ms=60_000), 20),  # twice the time: twice the workers
        (Load(5, 10**9, 0), ScaleTarget(target_age_ms=1), 5),  # never more workers than jobs
        (Load(8, 10**9, 0), ScaleTarget(slots=4, target_age_ms=1), 2),
        (Load(8, 10**9, 0), ScaleTarget(slots=4, target=2, target_age_ms=1), 4),  # the given share stays
        (Load(5000, 0, 0), ScaleTarget(), 100),
        (Load(5000, 0, 50), ScaleTarget(max=7), 7),
        (Load(0, 0, 0), ScaleTarget(min=2), 2),
        (Load(5, 0, 0), ScaleTarget(max=0), 0),
    ],
)
def test_examples(load: Load, goal: ScaleTarget, wanted: int) -> None:
    assert wanted_workers(load, goal) == wanted


goals = st.builds(
    ScaleTarget,
    slots=st.integers(1, 50),
    target=st.integers(0, 100),
    target_age_ms=st.integers(0, 100_000),
    min=st.integers(0, 5),
    max=st.integers(5, 1000),
)


@given(st.integers(0, 10_000), st.integers(0, 10**6), st.integers(0, 500), goals)
def test_more_load_never_needs_fewer_workers(queued: int, age_ms: int, running: int, goal: ScaleTarget) -> None:
    wanted = wanted_workers(Load(queued, age_ms, running), goal)
    assert goal.min <= wanted <= goal.max
    for more in (
        Load(queued + 1, age_ms, running),
        Load(queued, age_ms + 1, running),
        Load(queued, age_ms, running + 1),
    ):
        assert wanted_workers(more, goal) >= wanted
    if queued and running + queued:
        assert wanted >= min(1, goal.max)


@given(st.integers(0, 10_000), st.integers(1, 500), goals)
def test_taking_a_job_adds_no_worker_while_slots_suffice(queued: int, running: int, goal: ScaleTarget) -> None:
    """A worker that takes a job changes nothing about the need, so the answer does not rise by itself."""
    before = wanted_workers(Load(queued + 1, 0, running), goal)
    after = wanted_workers(Load(queued, 0, running + 1), goal)
    assert after <= max(before, -(-(running + 1) // goal.slots))
