"""Jobs whose code waits: steps, cursors, sleeps, signals, timeouts, child jobs, streams, lost leases, retries and
rewinds in any order, to the engine and to a model alike. Each answer, and all that is stored, must be the model's.

The library under test has small bounds, so that full mailboxes and full jobs occur. `WINDLASS_DEEP=1` runs longer."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import windlass.store.store as store_module
from tests.service.admin.doctor_findings import assert_healthy
from tests.service.frozen_engine import START_MS, frozen_library, frozen_store
from tests.service.machines import invariants
from tests.service.machines.choices import id_of, mostly
from tests.service.machines.durable_choices import (
    CHILD_QUEUE,
    LEASE_MS,
    QUEUE,
    REQUEST_IDS,
    instants,
    names,
    oddities,
    outcomes,
    picks,
    signal_waits,
    signals,
    values,
    waits,
)
from tests.service.machines.durable_model import SIGNALS_MAX, STEPS_MAX, SUSPENSIONS_MAX, DurableModel, comparable
from tests.service.model_comparison import as_expected, as_stored
from tests.support.engine_process import EngineProcess
from tests.support.profiles import ENGINE, machine_settings
from windlass.core.durable import ReceiveSignal, Rewind, Signal, StoreStep, StreamWrite, Suspend, Wait
from windlass.core.errors import Refusal
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Enqueued, Fail, Filter, Finish, LeaseRef, Take
from windlass.core.queue import FOREVER_MS
from windlass.core.states import ENDED, LEASED, State
from windlass.service import Service
from windlass.store import scripts

# Found by measuring: some 25 s, and some 10 minutes, on two slow cores.
SETTINGS = machine_settings(usual=150, deep=4_000, steps=45)
FEW_JOBS = 3
_namespaces = itertools.count(1)


def answer_of(reply: Any) -> Any:
    return reply.code if isinstance(reply, Refusal) else reply


def bounded_library() -> scripts.Library:
    bounds = {"steps_max": STEPS_MAX, "signals_max": SIGNALS_MAX, "suspensions_max": SUSPENSIONS_MAX}
    library = frozen_library()
    for name in bounds:
        assert len(re.findall(rf"{name} = \d+", library.source)) == 1, f"the library sets {name} in one place"

    def bound(source: str) -> str:
        for name, value in bounds.items():
            source = re.sub(rf"{name} = \d+", f"{name} = {value}", source)
        return source

    return library.rewritten("bounded", bound)


class DurableMachine(RuleBasedStateMachine):
    def __init__(self, engine: EngineProcess) -> None:
        super().__init__()
        self.store = frozen_store(engine, f"y{os.getpid()}-{next(_namespaces)}")
        self.service = Service(self.store)
        self.store.open_sync()
        self.link = self.store._sync_connection
        self.model = DurableModel(START_MS)
        self.made = itertools.count(1)
        self.ids = [id_of(999)]
        self.leases = [LeaseRef(id_of(999), 1)]  # all ever given, stale ones too
        self.streams: dict[bytes, list[Any]] = {}  # as one reader has read them, in pieces
        self.position = self.service.events().wait().position
        self.seen = invariants.snapshot(self.link, self.store.root(0), START_MS)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                assert_healthy(self.service)
        finally:
            self.link.call("FLUSHDB")
            self.store.close_sync()

    # Looking

    def agree(self, actual: Any, expected: Any, *verbs: str) -> None:
        """Compare the answer, then all jobs and their durable state, then check the invariants."""
        assert actual == expected, f"answered {actual}, not {expected}"
        found = invariants.snapshot(self.link, self.store.root(0), self.model.now_ms)
        self.model.notice_children(self.children_in(found))
        page = self.service.events(self.position, most=500).wait()
        self.position = page.position
        invariants.check_moves(self.seen, found, frozenset((*verbs, "settle")))
        invariants.check_delivered_events(self.seen, found, page.events)
        self.seen = found
        self.check_jobs(found)
        invariants.check(found)

    def children_in(self, found: invariants.Snapshot) -> dict[bytes, dict[bytes, State]]:
        """Return the children that are still linked to a parent that has not ended."""
        children: dict[bytes, dict[bytes, State]] = {}
        for one in found.jobs.values():
            if one.job.parent is not None:
                children.setdefault(one.job.parent, {})[one.job.id] = one.job.state
        return children

    def check_jobs(self, found: invariants.Snapshot) -> None:
        mine = {job_id: one for job_id, one in found.jobs.items() if one.job.queue == QUEUE}
        assert mine.keys() == self.model.jobs.keys(), "the engine and the model hold other jobs"
        for job_id, stored in mine.items():
            job = self.model.jobs[job_id]
            actual, expected = as_stored(found, stored), as_expected(job)
            self.compare(job_id, actual, expected, ("order", "bytes"))
            assert (stored.job.run_at_ms, stored.job.needs_steps) == (job.ready_at, self.model.needs_steps(job_id))
            state = self.service.durable_states([job_id]).one().wait()
            self.compare(job_id, comparable(state), comparable(self.model.state_of(job_id)), ())

    def compare(self, job_id: bytes, actual: dict[str, Any], expected: dict[str, Any], ignored: Any) -> None:
        differing = {key: (actual[key], expected[key]) for key in actual if actual[key] != expected[key]}
        differing = {key: pair for key, pair in differing.items() if key not in ignored}
        assert not differing, f"job {job_id.hex()} (engine, model): {differing}"

    def id(self, pick: int) -> bytes:
        among = list(self.model.jobs) if self.model.jobs and pick < 37 else self.ids
        return among[pick % len(among)]

    def lease(self, pick: int) -> LeaseRef:
        held = [LeaseRef(job.id, job.token) for job in self.model.jobs.values() if job.state in LEASED]
        among = held if held and pick < 34 else self.leases
        return among[-1 - pick % len(among)]

    # Producers, workers and time

    @initialize(
        jobs=st.lists(oddities, min_size=1, max_size=2), signal=signals, value=values, is_early=mostly(False, True)
    )
    def begin(self, jobs: list[dict[str, Any]], signal: str, value: Blob, is_early: bool) -> None:
        for fields in jobs:
            self.enqueue(fields)
        if is_early:
            self.signal(0, signal, value, b"")
        self.take(True, 2)

    @rule(fields=oddities)
    def enqueue(self, fields: dict[str, Any]) -> None:
        if len(self.model.jobs) >= FEW_JOBS:
            return
        fields = {"retry": self.default_retry, **fields}
        new = NewJob(queue=QUEUE, name="a", id=id_of(next(self.made)), lease_ms=LEASE_MS, **fields)
        self.ids.append(new.id)
        answers = [answer_of(reply) for reply in self.service.enqueue([new]).wait()]
        self.agree(answers, self.model.enqueue([new]), "enqueue")

    @property
    def default_retry(self) -> Any:
        return NewJob(queue=QUEUE, name="a").retry

    @rule(steps=mostly(True, False), most=st.integers(1, 2))
    def take(self, steps: bool, most: int) -> None:
        request = Take(queues=(QUEUE,), most=most, wants=Filter(steps=steps))
        taken = self.service.take(request).wait().jobs
        expected: Any = self.model.take(request)
        self.leases += [LeaseRef(job.id, job.lease_token) for job in taken]
        actual = [(job.id, job.lease_token, job.attempt, job.is_durable) for job in taken]
        wanted = [(job.id, job.token, job.attempt, job.id in self.model.durable) for job in expected]
        self.agree(actual, wanted, "take", "promote", "recover", "expire")

    @rule(by_ms=instants, loop=st.sampled_from(("promote", "recover", "clean", "")))
    def time_passes(self, by_ms: int, loop: str) -> None:
        self.model.now_ms += by_ms
        self.store.clock_offset_ms = self.model.now_ms - START_MS
        if loop:
            self.run_loop(loop)

    @rule(nth=st.integers(0, 2), before_ms=mostly(0, 1), loop=st.sampled_from(("promote", "recover", "")))
    def time_comes(self, nth: int, before_ms: int, loop: str) -> None:
        """To the millisecond at which something is due, or the one before it."""
        dues = {at for job in self.model.jobs.values() for at in (job.ready_at, job.deadline, job.expires_at)}
        later = sorted(at - before_ms for at in dues if at - before_ms > self.model.now_ms)
        if later:
            self.time_passes(later[nth % len(later)] - self.model.now_ms, loop)

    def run_loop(self, loop: str) -> None:
        getattr(self.service, loop)().wait()
        if loop == "promote":
            self.model.promote(QUEUE)
        else:
            getattr(self.model, loop)()
        self.agree(None, None, loop, "expire")

    # The holder of a lease

    @rule(pick=picks, outcome=outcomes, value=mostly(Blob(b"1"), Blob(b"22"), None), tries=st.integers(0, 2))
    def store_step(self, pick: int, outcome: dict[str, Any], value: Blob | None, tries: int) -> None:
        lease = self.lease(pick)
        request = StoreStep(id=lease.id, token=lease.token, value=value, tries=tries, ran_ms=tries * 100, **outcome)
        answers = [answer_of(reply) for reply in self.service.store_steps([request]).wait()]
        self.agree(answers, self.model.each([request], self.model.store))

    @rule(pick=picks, wanted=waits)
    def suspend(self, pick: int, wanted: list[dict[str, Any]]) -> None:
        lease = self.lease(pick)
        children = tuple(sorted(self.children_in(self.seen).get(lease.id, {}))) or (id_of(998),)
        chosen = [
            Wait(**wait, children=children[: 1 + pick % 3] if wait["kind"] == "children" else ()) for wait in wanted
        ]
        request = Suspend(id=lease.id, token=lease.token, waits=tuple(chosen))
        answers = [answer_of(reply) for reply in self.service.suspend([request]).wait()]
        self.agree(answers, [self.model.suspend(request)], "suspend")

    @rule(pick=picks, name=signal_waits)
    def receive(self, pick: int, name: str) -> None:
        lease = self.lease(pick)
        request = ReceiveSignal(id=lease.id, token=lease.token, name=name, signal=name.partition("?")[0])
        answers = [answer_of(reply) for reply in self.service.receive_signals([request]).wait()]
        self.agree(answers, self.model.each([request], self.model.receive))

    @rule(
        pick=picks,
        written=st.lists(values, min_size=1, max_size=3),
        sequence=st.integers(0, 4),
        outside=st.sampled_from((None, 0, 1, 2)),
    )
    def write_stream(self, pick: int, written: list[Blob], sequence: int, outside: int | None) -> None:
        lease = self.lease(pick)
        request = StreamWrite(
            id=lease.id, token=lease.token, values=tuple(written), sequence=sequence, outside=outside
        )  # fmt: skip
        answers = [answer_of(reply) for reply in self.service.write_stream([request]).wait()]
        self.agree(answers, self.model.each([request], self.model.write_stream))

    @rule(
        pick=picks, then=st.sampled_from(("retry", "retry", "final", "cancelled")), delay_ms=st.sampled_from((0, 700))
    )
    def fail(self, pick: int, then: Any, delay_ms: int) -> None:
        lease = self.lease(pick)
        request = Fail(id=lease.id, token=lease.token, then=then, delay_ms=delay_ms)
        answers = [answer_of(reply) for reply in self.service.fail([request]).wait()]
        self.agree(answers, self.model.each([request], self.model.fail), "fail")

    @rule(pick=picks, how=st.sampled_from(("finish", "finish", "release")))
    def end_run(self, pick: int, how: str) -> None:
        lease = self.lease(pick)
        states = self.children_in(self.seen).get(lease.id, {}).values()
        if how == "finish" and any(state not in ENDED for state in states):
            return  # it would yield to its children, which another machine tests
        request: Any = Finish(lease.id, lease.token) if how == "finish" else lease
        answers = [answer_of(reply) for reply in getattr(self.service, how)([request]).wait()]
        self.agree(answers, self.model.each([request], getattr(self.model, how)), how)

    # Other people and programs

    @rule(pick=picks, signal=signals, value=values, request_id=st.sampled_from(REQUEST_IDS))
    def signal(self, pick: int, signal: str, value: Blob, request_id: bytes) -> None:
        request = Signal(id=self.id(pick), name=signal, value=value, request_id=request_id)
        answers = [answer_of(reply) for reply in self.service.signal([request]).wait()]
        self.agree(answers, [self.model.signal(request)], "signal")

    @rule(pick=picks, step=mostly("", *("a", "b", "nap", "go?")))
    def rewind(self, pick: int, step: str) -> None:
        request = Rewind(id=self.id(pick), step=step)
        answers = [answer_of(reply) for reply in self.service.rewind([request]).wait()]
        self.agree(answers, [self.model.rewind(request)])

    @rule(pick=picks, step=names)
    def rewind_to_a_stored_step(self, pick: int, step: str) -> None:
        own = self.model.durable.get(self.id(pick))
        known = sorted(own.steps) if own else []
        self.rewind(pick, known[pick % len(known)] if known else step)

    @rule(pick=picks, how=st.sampled_from(("cancel", "retry", "retry", "requeue", "delete")), fully=st.booleans())
    def intervene(self, pick: int, how: str, fully: bool) -> None:
        job_id = self.id(pick)
        options = {"requeue": {"gives_attempt_back": fully}, "delete": {"even_leased": fully}}.get(how, {})
        act: Any = getattr(self.service, how)([job_id], **options)
        answers = [answer_of(reply) for reply in act.wait()]
        decide: Any = getattr(self.model, how)
        self.agree(answers, [decide(job_id, fully) if options else decide(job_id)], how)

    # Child jobs: the model reads their states, which other machines test

    @rule(pick=picks, count=st.integers(1, 2))
    def create_children(self, pick: int, count: int) -> None:
        parents = [job.id for job in self.model.jobs.values() if job.state in LEASED]
        if not parents:
            return
        news = [
            NewJob(
                queue=CHILD_QUEUE, name="child", id=id_of(1_000 + next(self.made)), lease_ms=FOREVER_MS,
                parent=parents[pick % len(parents)],
            )
            for _ in range(count)
        ]  # fmt: skip
        for reply in self.service.enqueue(news).wait():
            assert isinstance(reply, Enqueued), reply
        self.model.sequence += count
        self.model.queues.add(CHILD_QUEUE)
        self.agree(None, None, "enqueue")

    @rule(pick=picks, how=st.sampled_from(("finish", "finish", "fail", "cancel", "delete")))
    def end_child(self, pick: int, how: str) -> None:
        children = [one.job for one in self.seen.jobs.values() if one.job.queue == CHILD_QUEUE]
        alive = sorted(job.id for job in children if job.state not in ENDED)
        if not alive:
            return
        if how in ("cancel", "delete"):
            chosen = [alive[pick % len(alive)]]
            reply = self.service.cancel(chosen) if how == "cancel" else self.service.delete(chosen, even_leased=True)
            reply.wait()
        else:
            self.run_child(how)
        self.agree(None, None, how, "take")

    def run_child(self, how: str) -> None:
        taken = self.service.take(Take(queues=(CHILD_QUEUE,))).wait().jobs
        self.model.token += len(taken)
        for job in taken:
            if how == "finish":
                self.service.finish([Finish(job.id, job.lease_token)]).wait()
            else:
                self.service.fail([Fail(id=job.id, token=job.lease_token)]).wait()

    # Readers

    @rule(pick=picks, most=st.integers(1, 3))
    def read_stream(self, pick: int, most: int) -> None:
        """Read on from where the last reading stopped: the pieces together are the stream."""
        job_id = self.id(pick)
        if job_id not in self.model.jobs:
            return
        own = self.model.durable.get(job_id)
        items = own.stream.items if own else []
        read = self.streams.setdefault(job_id, [])
        if len(read) > len(items):
            read.clear()  # another occurrence has begun
        page = self.service.read_stream(job_id, after=len(read), most=most).wait()
        assert page.items == items[len(read) : len(read) + most]
        read += page.items
        has_ended = self.model.jobs[job_id].state in ENDED
        assert page.is_ended == (has_ended and len(read) == len(items))


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    kind: Any = ENGINE
    with (
        EngineProcess(kind, config=("--save", "", "--appendonly", "no")) as process,
        mock.patch.object(store_module, "library", return_value=bounded_library()),
    ):
        yield process


def test_durable_jobs_follow_the_model(engine: EngineProcess) -> None:
    run_state_machine_as_test(lambda: DurableMachine(engine), settings=SETTINGS)
