"""Timeline of a durable job: its suspensions, between runs of which only the last is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.durable import DurableState, Step, StepKind, StepStatus
from windlass.core.job import Blob, Job, Timeline
from windlass.core.states import State
from windlass.dashboard.views import timeline

HOUR_MS = 3_600_000
CREATED_MS = 1_000_000


def job(state: State, **changes: Any) -> Job:
    known: dict[str, Any] = {"id": b"j" * 16, "queue": "q", "name": "n", "payload": Blob(b"null"), "state": state}
    times = {"created_at_ms": CREATED_MS, "run_at_ms": CREATED_MS, "started_at_ms": None, "ended_at_ms": None}
    empty = {field.name: None for field in msgspec.structs.fields(Job) if field.required}
    return Job(**(empty | known | times | changes))


def sleep(begun_ms: int, ended_ms: int | None) -> Step:
    status = StepStatus.DONE if ended_ms else StepStatus.WAITING
    return Step(name="sleep", kind=StepKind.SLEEP, status=status, number=1, begun_at_ms=begun_ms, ended_at_ms=ended_ms)


def phases(found: Job, now_ms: int, *steps: Step, **state: Any) -> list[tuple[str, int]]:
    """Return the kinds of the phases with their ends."""
    stored = Timeline(found, [])
    durable = DurableState(now_ms=now_ms, steps=steps, **state)
    return [(phase.kind, phase.to_ms) for phase in timeline.add_rests(timeline.phases(stored, now_ms), stored, durable)]


def test_a_sleeping_job_has_run_rests_and_will_wake() -> None:
    began_ms, sleeps_ms, now_ms = CREATED_MS + 10, CREATED_MS + 500, CREATED_MS + HOUR_MS
    found = job(State.SUSPENDED, started_at_ms=began_ms, run_at_ms=now_ms + HOUR_MS)
    assert phases(found, now_ms, sleep(sleeps_ms, None), suspended_at_ms=sleeps_ms) == [
        ("wait", began_ms), ("run", sleeps_ms), ("rest", now_ms), ("ahead", now_ms + HOUR_MS),
    ]  # fmt: skip


def test_a_finished_job_shows_its_earlier_run_and_its_sleep() -> None:
    """Its first start is not stored: the job counts as running from its first step on."""
    first_ms, wakes_ms = CREATED_MS + 100, CREATED_MS + HOUR_MS
    again_ms, ended_ms = wakes_ms + 50, wakes_ms + 900
    found = job(State.FINISHED, started_at_ms=again_ms, ended_at_ms=ended_ms, attempt=1)
    work = Step(name="a", kind=StepKind.STEP, status=StepStatus.DONE, number=0, begun_at_ms=first_ms)
    assert phases(found, ended_ms + 5, work, sleep(first_ms + 200, wakes_ms)) == [
        ("wait", first_ms), ("run", first_ms + 200), ("rest", wakes_ms), ("run", again_ms), ("good", ended_ms),
    ]  # fmt: skip


def test_a_job_without_waits_is_shown_as_before() -> None:
    found = job(State.RUNNING, started_at_ms=CREATED_MS + 10, attempt=1)
    work = Step(name="a", kind=StepKind.STEP, status=StepStatus.DONE, number=0, begun_at_ms=CREATED_MS + 20)
    assert phases(found, CREATED_MS + 100, work) == [("wait", CREATED_MS + 10), ("run", CREATED_MS + 100)]
