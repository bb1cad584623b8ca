"""Several processes fire schedules with any interleaving of their calls, while time jumps, workers run, and people
edit, pause and resume: each occurrence has at most one job, and none is lost."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.service.frozen_engine import START_MS, frozen_store, frozen_time
from tests.service.helpers import take
from tests.service.machines import invariants
from tests.service.schedules.schedule_builders import fire, scheduled
from tests.support.engine_process import EngineProcess
from windlass.core.job import Blob, Job
from windlass.core.operations import Finish, Listing
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection

PROCESSES = 3
NAMES = ("a", "b")
RHYTHMS: tuple[tuple[dict[str, Any], int], ...] = (
    ({"every_ms": 1_000}, 1_000),
    ({"every_ms": 7_000}, 7_000),
    ({"repeat": "SCHEDULED, +3 SECONDS"}, 3_000),
    ({"cron": "* * * * *", "timezone": "Europe/Berlin"}, 60_000),
)
_namespaces = itertools.count(1)


@pytest.fixture
def frozen() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as process, frozen_time():
        yield process


@dataclass
class Expected:
    """One schedule: its occurrences since it last began to count are `first`, `first` + `step_ms`, …"""

    fields: dict[str, Any]
    step_ms: int
    first: int
    passed: int = 0  # occurrences of rhythms it had before
    instants: set[int] = field(default_factory=set)

    def count_up_to(self, planned_at: int) -> None:
        """Everything before the occurrence it stands at has been decided upon."""
        self.instants |= set(range(self.first, planned_at, self.step_ms))
        self.passed += (planned_at - self.first) // self.step_ms
        assert (planned_at - self.first) % self.step_ms == 0, "it has left its rhythm"
        self.first = planned_at


class World:
    def __init__(self, engine: EngineProcess) -> None:
        namespace = f"occur{next(_namespaces)}"
        self.link = SyncReconnectingConnection(parse_url(engine.unix_url))
        self.link.call("FLUSHDB")
        self.services = [Service(frozen_store(engine, namespace)) for _ in range(PROCESSES)]
        self.service = self.services[0]
        self.flows: list[Generator[Any, Any, Any] | None] = [None] * PROCESSES
        self.answers: list[Any] = [None] * PROCESSES
        self.now = START_MS
        self.expected: dict[str, Expected] = {}
        self.held: list[Job] = []
        self.service.configure("q", {"history_length": 100_000}).wait()

    def close(self) -> None:
        for one in self.services:
            one.store.close_sync()
        self.link.close()

    def pass_time(self, by_ms: int) -> None:
        self.now += by_ms
        for one in self.services:
            one.store.clock_offset_ms = self.now - START_MS

    def step(self, process: int) -> None:
        """One call of one process: looking, or firing what it saw when it looked."""
        flow = self.flows[process] or self.services[process]._fire_flow()
        try:
            effect = flow.send(self.answers[process]) if self.flows[process] else next(flow)
        except StopIteration:
            self.flows[process], self.answers[process] = None, None
            return
        self.flows[process] = flow
        self.answers[process] = self.services[process].store._perform_sync(effect)

    def schedule(self, name: str, rhythm: int | None, changes: dict[str, Any]) -> None:
        known = self.expected.get(name)
        fields, step_ms = RHYTHMS[rhythm or 0]
        if known is not None and rhythm is None:
            fields = {
                key: known.fields[key] for key in known.fields.keys() & {"every_ms", "repeat", "cron", "timezone"}
            }
            step_ms = known.step_ms
        planned_before = self.service.schedule_of(name).wait().planned_at_ms if known else None
        status = self.service.schedule(scheduled(name, **fields | changes)).wait()
        assert status.planned_at_ms is not None
        if known is None:
            known = self.expected[name] = Expected(fields | changes, step_ms, status.planned_at_ms)
        known.count_up_to(planned_before or known.first)
        known.fields, known.step_ms, known.first = fields | changes, step_ms, status.planned_at_ms

    def pause(self, name: str) -> None:
        if name in self.expected:
            self.service.pause_schedule(name).wait()

    def resume(self, name: str) -> None:
        if name in self.expected:
            known, before = self.expected[name], self.service.schedule_of(name).wait()
            after = self.service.resume_schedule(name).wait()
            assert before.planned_at_ms is not None
            assert after.planned_at_ms is not None
            if before.is_paused:
                known.count_up_to(before.planned_at_ms)
                known.first = after.planned_at_ms
                assert after.planned_at_ms > self.now or after.planned_at_ms == before.planned_at_ms

    def work(self, ends: bool) -> None:
        self.held += take(self.service, most=2, lease_ms=2**48 - 1)
        if ends and self.held:
            requests = [Finish(job.id, job.lease_token) for job in self.held]
            self.held = []
            self.service.finish(requests).wait()

    def jobs(self) -> list[Job]:
        found: list[Job] = []
        for state in ("queued", "running", "history", "cancelled"):
            cursor = ""
            while True:
                page = self.service.jobs(Listing(queue="q", state=state, most=500, cursor=cursor)).wait()
                found += page.jobs
                cursor = page.cursor
                if not cursor:
                    break
        return found

    def check(self) -> None:
        found = invariants.snapshot(self.link, self.service.store.root(0), self.now)
        invariants.check(found)
        for name, known in self.expected.items():
            mine = [one.job for one in found.jobs.values() if one.job.schedule == name and not one.job.state.is_ended]
            if known.fields.get("overlap") == "skip" and not known.instants:
                assert len(mine) <= 1, f"{name} overlaps: {mine}"

    def check_all(self) -> None:
        """Run all processes to their end."""
        for process in range(PROCESSES):
            while self.flows[process]:
                self.step(process)
        for name in self.expected:
            self.resume(name)
        fire(self.service)
        made = [(job.schedule, job.planned_at_ms) for job in self.jobs()]
        assert len(set(made)) == len(made), "an occurrence has two jobs"
        for name, known in self.expected.items():
            status = self.service.schedule_of(name).wait()
            assert status.planned_at_ms is not None
            assert status.planned_at_ms > self.now, "something is still due"
            known.count_up_to(status.planned_at_ms)
            mine = {at for schedule, at in made if schedule == name}
            assert mine <= known.instants, "a job for an instant that was none of its occurrences"
            assert status.fired == len(mine)
            assert status.fired + status.skipped + status.missed == known.passed, "an occurrence was lost"


steps = st.one_of(
    st.tuples(st.just("step"), st.integers(0, PROCESSES - 1)),
    st.tuples(st.just("step"), st.integers(0, PROCESSES - 1)),
    st.tuples(st.just("pass_time"), st.sampled_from((1, 500, 1_000, 3_000, 61_000, 400_000))),
    st.tuples(
        st.just("schedule"),
        st.sampled_from(NAMES),
        st.none() | st.integers(0, len(RHYTHMS) - 1),
        st.fixed_dictionaries(
            {},
            optional={
                "misfire": st.sampled_from(("all", "latest", "none")),
                "overlap": st.sampled_from(("allow", "skip", "replace")),
                "misfire_after_ms": st.sampled_from((0, 2_000)),
                "payload": st.sampled_from((Blob(b"1"), Blob(b"x" * 300_000))),
            },
        ),
    ),
    st.tuples(st.sampled_from(("pause", "resume")), st.sampled_from(NAMES)),
    st.tuples(st.just("work"), st.booleans()),
)


@settings(
    max_examples=120,
    deadline=None,
    phases=(Phase.generate,) if os.environ.get("WINDLASS_MUTANT") else tuple(Phase),
    suppress_health_check=list(HealthCheck),
)
@given(does=st.lists(steps, min_size=5, max_size=40))
def test_each_occurrence_once_and_none_lost(frozen: EngineProcess, does: list[tuple[Any, ...]]) -> None:
    world = World(frozen)
    try:
        for name, *arguments in [("schedule", "a", 0, {}), *does]:
            getattr(world, name)(*arguments)
            world.check()
        world.check_all()
    finally:
        world.close()


@pytest.mark.parametrize("misfire", ["all", "latest", "none"])
@pytest.mark.parametrize("jumps", [(1_000,) * 5, (90_000,), (500, 2_500, 30_000, 1_000)])
def test_nothing_is_missed_by_who_makes_up_for_all(frozen: EngineProcess, misfire: Any, jumps: tuple[int, ...]) -> None:
    world = World(frozen)
    world.schedule("a", 0, {"misfire": misfire, "misfire_after_ms": 0})
    for jump in jumps:
        world.pass_time(jump)
        for process in (0, 0, 0, 1, 2, 1, 2, 1, 2):
            world.step(process)
    world.check_all()
    status = world.service.schedule_of("a").wait()
    assert (status.missed == 0) == (misfire == "all" or jumps == (1_000,) * 5)
    world.close()
