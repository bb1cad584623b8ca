"""Limits, pauses, fair share, aging and name filters, all at once: what a take returns is reckoned anew from the stored
jobs alone. Nobody is taken over a limit, and nobody waits for a job that may run."""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.frozen_engine import START_MS, frozen_store, frozen_time
from tests.service.leases.expected_takes import expected, is_settled, note_starts
from tests.service.machines import invariants
from tests.service.machines.limit_invariants import own_cap, room
from tests.service.takers import answer_or_none, pass_wakeup
from tests.support.engine_process import EngineProcess
from tests.support.profiles import ENGINE, machine_settings
from windlass.core.job import Blob, Cap, Job, NewJob
from windlass.core.limits.limit import Limit, Matcher, encode_key
from windlass.core.operations import Edit, Fail, Filter, Finish, LeaseRef, Take
from windlass.core.states import LEASED, State
from windlass.service import Service
from windlass.service.facet import send
from windlass.store.commands import caps
from windlass.store.commands.take import WaitRegistration
from windlass.store.waiting.take import take_flow

SETTINGS = machine_settings(usual=200, deep=4000, steps=40)
NAMES = ("a", "b", "cc")
LANES = ("", "x", "y")
QUEUES = ("q", "q", "q", "r")  # most of it happens in one
WAKEUP_LISTS = ("bell1", "bell2", "bell3")
LIMITS = [
    Limit(name="l1", matches=Matcher(queue="q"), running=2),
    Limit(name="l1", matches=Matcher(queue="q"), running=3),
    Limit(name="l1", matches=Matcher(), running=1),
    Limit(name="l2", matches=Matcher(), running=1, key="k"),
    Limit(name="l2", matches=Matcher(name="a"), running=0),
    Limit(name="l3", matches=Matcher(), rate=1, per_ms=1000, burst=2),
    Limit(name="l3", matches=Matcher(name="b"), rate=3, per_ms=1000, key="k"),
    Limit(name="l4", matches=Matcher(lane="x"), running=1),
    Limit(name="l5", matches=Matcher(), running=1, key="k", own_caps=True),
    Limit(name="l5", matches=Matcher(queue="q"), running=2, key="k", own_caps=True),
    Limit(name="l5", matches=Matcher(), running=2, key="k"),
    Limit(name="l4", matches=Matcher(payload={"k": 1}), running=1, key="m"),
]
FILTERS = [
    Filter(), Filter(only=("a",)), Filter(only=("b", "cc")), Filter(all_but=("a",)), Filter(glob="c*"),
    Filter(glob="*[ab]"), Filter(priority=1),
]  # fmt: skip
_namespaces = itertools.count(1)
counts = st.sampled_from((1, 2, 3, 8))
picks = st.integers(0, 20)


def deed(deed_name: str, /, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(deed_name), st.fixed_dictionaries(arguments))


queues = st.sampled_from(QUEUES)
enqueues = deed(
    "enqueue", queue=queues, name=st.sampled_from(NAMES), lane=st.sampled_from(LANES), k=st.integers(1, 3),
    priority=st.integers(0, 2), delay_ms=st.sampled_from((0, 0, 0, 700)), copies=counts, retake=st.booleans(),
    cap=st.sampled_from((0, 0, 1, 3)),
)  # fmt: skip
takes = deed(
    "take",
    queue=queues,
    wanted=st.sampled_from(FILTERS),
    most=counts,
    wakeup_list=st.sampled_from((*WAKEUP_LISTS, "", "")),
)
reports = deed(
    "report", pick=picks, how=st.sampled_from(("finish", "finish", "fail", "retry", "release", "extend", "requeue"))
)
interventions = deed(
    "intervene", pick=picks, how=st.sampled_from(("cancel", "delete", "edit name", "edit payload", "edit time"))
)
pauses = deed(
    "pause",
    queue=queues,
    what=st.sampled_from(({}, {"lane": "x"}, {"name": "a"})),
    off=st.sampled_from((True, True, False)),
)
changes = deed("configure", field=st.sampled_from(("name_lanes", "fair_share", "aging_ms")), on=st.booleans())
limits = deed("limit", limit=st.sampled_from(LIMITS), is_removed=st.sampled_from((False, False, True)))
cap_changes = deed("set_cap", k=st.integers(1, 3), running=st.integers(1, 4))
times = deed("pass_time", step_ms=st.sampled_from((1, 333, 1000, 6000)))
# One rule with all of them: how often each happens is ours to say.
SHARES = {
    enqueues: 9,
    takes: 14,
    reports: 12,
    interventions: 3,
    times: 4,
    pauses: 2,
    limits: 2,
    changes: 1,
    cap_changes: 2,
}
deeds = st.sampled_from([deed for deed, share in SHARES.items() for _ in range(share)]).flatmap(lambda deed: deed)


class LimitMachine(RuleBasedStateMachine):
    def __init__(self, engine: EngineProcess) -> None:
        super().__init__()
        self.store = frozen_store(engine, f"l{os.getpid()}-{next(_namespaces)}")
        self.service = Service(self.store)
        self.store.open_sync()
        self.link = self.store._sync_connection
        self.now_ms = START_MS
        self.waits: dict[str, tuple[str, Filter]] = {}
        self.starts: dict[str, list[int]] = {}  # under each rate
        self.look()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                assert_healthy(self.service)
        finally:
            self.link.call("FLUSHDB")
            self.store.close_sync()

    # Looking

    def look(self) -> None:
        self.seen = invariants.snapshot(self.link, self.store.root(0), self.now_ms)
        invariants.check(self.seen)

    # What happens

    @rule(what=deeds)
    def do(self, what: tuple[str, dict[str, Any]]) -> None:
        name, arguments = what
        getattr(self, name)(**arguments)

    @initialize(
        names=st.booleans(), fair=st.booleans(), aging=st.sampled_from((0, 0, 500)), weights=st.booleans(),
        limits=st.lists(st.sampled_from(LIMITS), max_size=4),
    )  # fmt: skip
    def set_up(self, names: bool, fair: bool, aging: int, weights: bool, limits: list[Limit]) -> None:
        for queue in set(QUEUES):
            self.service.configure(queue, {"name_lanes": names, "fair_share": fair, "aging_ms": aging}).wait()
        if weights:
            self.service.set_weights("q", {"x": 3}).wait()
        for limit in limits:
            self.service.limit(limit).wait()
        self.look()

    def limit(self, limit: Limit, is_removed: bool) -> None:
        if is_removed:
            answer_or_none(self.service.unlimit(limit.name).wait, "unknown_limit")
        else:
            self.service.limit(limit).wait()
        self.starts.clear()
        self.check_matches()
        self.settle()

    def check_matches(self) -> None:
        """Check that every job that has not ended counts against the limits that it matches now."""
        self.look()
        table = self.store.limit_cache.table(0)
        for one in self.seen.jobs.values():
            if one.job.state <= State.RUNNING:
                job = one.job
                assert job.limits == table.match(job.queue, job.name, job.lane, job.payload), job

    def enqueue(
        self,
        queue: str,
        name: str,
        lane: str,
        k: int,
        priority: int,
        delay_ms: int,
        copies: int,
        retake: bool,
        cap: int,
    ) -> None:
        payload = Blob(json.dumps({"k": k, "m": priority}).encode())
        job = NewJob(
            queue=queue, name=name, lane=lane, priority=priority, delay_ms=delay_ms, payload=payload, retake=retake,
            lease_ms=5_000, cap=Cap(limit="l5", running=cap) if cap else None,
        )  # fmt: skip
        before = self.seen
        answers = self.service.enqueue([job] * copies).wait()
        if cap:
            self.check_cap(job, before, answers)
        self.settle()

    def check_cap(self, job: NewJob, before: invariants.Snapshot, answers: list[Any]) -> None:
        """Check that a stored cap wins unless it has expired, and that a cap without its limit is refused."""
        assert job.cap is not None
        table = self.store.limit_cache.table(0)
        matched = table.match(job.queue, job.name, job.lane, job.payload)
        target = table.find_own_cap("l5", matched, job.payload)
        if target is None:
            assert {getattr(answer, "code", "") for answer in answers} == {"unknown_limit"}
            return
        was = own_cap(before, target[0])
        if before.zset("idle_caps").get(target[0].encode(), math.inf) <= self.now_ms:
            was = None
        self.look()
        assert own_cap(self.seen, target[0]) == (was or job.cap.running)

    def set_cap(self, k: int, running: int) -> None:
        """Change a cap, and check that only a key with jobs or a cap has one that can change."""
        self.look()
        table = self.store.limit_cache.table(0)
        number = next((number for number, limit in table.limits.items() if limit.name == "l5"), None)
        limit_key = f"{number}={encode_key(k)}"
        has_jobs = any(limit_key in one.job.limits for one in self.seen.jobs.values() if one.job.state <= State.RUNNING)
        is_over = self.seen.zset("idle_caps").get(limit_key.encode(), math.inf) <= self.now_ms
        is_known = has_jobs or (own_cap(self.seen, limit_key) is not None and not is_over)
        answer = self.store.run_sync(send(caps.set_cap("l5", encode_key(k), running, None, str(k), 0)))
        if number is None or not is_known:
            assert getattr(answer, "code", "") == ("unknown_limit" if number is None else "unknown_limit_key")
        else:
            assert (answer.cap, answer.note) == (running, "")
        self.settle()

    def take(self, queue: str, wanted: Filter, most: int, wakeup_list: str) -> None:
        if wakeup_list in self.waits:
            return
        request = Take(queues=(queue,), most=most, wants=wanted)
        self.look()
        is_exact = is_settled(self.seen, queue) and self.seen.number(queue, b"fair_share") == 0
        wanted_ids = expected(self.seen, request)
        before = Counter(limit for one in self.holders() for limit in one.job.limits)
        registration = WaitRegistration(wakeup_list, 100_000 if wakeup_list else 0)
        flow = take_flow(request, [queue], 0, registration)
        found = answer_or_none(lambda: self.store.run_sync(flow), "names_need_lanes", "no_exact_priority")
        if found is None:
            return
        taken = found.taken.jobs
        if is_exact:
            assert [job.id for job in taken] == wanted_ids
        elif is_settled(self.seen, queue):
            assert bool(taken) == bool(wanted_ids)
        rooms = {limit: room(self.seen, queue, limit) for job in taken for limit in job.limits}
        for limit, count in Counter(limit for job in taken for limit in job.limits).items():
            assert count <= max(rooms[limit], 0) or not is_settled(self.seen, queue), f"{limit} exceeded: {before}"
        self.rates_hold(taken)
        if wakeup_list and not taken:
            self.waits[wakeup_list] = (queue, wanted)
        self.settle()

    def rates_hold(self, taken: list[Job]) -> None:
        note_starts(self.starts, self.store.limit_cache.table(0).limits, taken, self.now_ms)

    def holders(self) -> list[invariants.Stored]:
        return [one for one in self.seen.jobs.values() if one.job.state in LEASED and not one.job.is_overdue]

    def settle(self) -> None:
        """Let woken takers take; then no taker may wait for a job that could run."""
        for _ in range(50):
            self.look()
            woken = [name for name, _ in self.seen.of_kind("bell:")]
            if not woken:
                break
            for wakeup_list in woken:
                self.link.call("DEL", f"{self.store.root(0)}:bell:{wakeup_list}")
                self.answer(wakeup_list)
        self.look()
        self.no_taker_waits_in_vain()

    def answer(self, wakeup_list: str) -> None:
        if wakeup_list not in self.waits:
            return
        queue, wanted = self.waits[wakeup_list]
        request = Take(queues=(queue,), wants=wanted)
        taken = self.store.run_sync(take_flow(request, [queue], 0, WaitRegistration(wakeup_list, 100_000))).taken.jobs
        self.rates_hold(taken)
        if taken:
            del self.waits[wakeup_list]
            self.store.run_sync(pass_wakeup(wakeup_list, queue, wanted))

    def no_taker_waits_in_vain(self) -> None:
        for member in [member for queue in set(QUEUES) for member in self.seen.zset(f"waiters:{queue}")]:
            wakeup_list = member.split(b"\1")[0].decode()
            if wakeup_list not in self.waits:
                continue
            queue, wanted = self.waits[wakeup_list]
            if is_settled(self.seen, queue):
                possible = expected(self.seen, Take(queues=(queue,), wants=wanted))
                assert not possible, f"{wakeup_list} waits, but {[self.seen.jobs[one].job for one in possible]} may run"

    def leased(self, pick: int) -> Job | None:
        held = [one.job for one in self.seen.jobs.values() if one.job.state in LEASED]
        return held[pick % len(held)] if held else None

    def report(self, pick: int, how: str) -> None:
        job = self.leased(pick)
        if job is None:
            return
        if how == "finish":
            self.service.finish([Finish(job.id, job.lease_token)]).wait()
        elif how == "fail":
            self.service.fail([Fail(id=job.id, token=job.lease_token)]).wait()
        elif how == "retry":
            self.service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=pick * 50)]).wait()
        elif how == "release":
            self.service.release([LeaseRef(job.id, job.lease_token)]).wait()
        elif how == "extend":
            self.service.extend([LeaseRef(job.id, job.lease_token)]).wait()
        else:
            self.service.requeue([job.id]).wait()
        self.settle()

    def intervene(self, pick: int, how: str) -> None:
        if not self.seen.jobs:
            return
        job = list(self.seen.jobs.values())[pick % len(self.seen.jobs)].job
        if how == "cancel":
            self.service.cancel([job.id]).wait()
        elif how == "delete":
            self.service.delete([job.id], even_leased=True).wait()
        elif how == "edit name":
            self.service.edit([Edit(id=job.id, name=NAMES[pick % 3])]).wait()
        elif how == "edit payload":
            self.service.edit([Edit(id=job.id, payload=Blob(b'{"k": %d}' % (pick % 3)))]).wait()
        else:
            self.service.edit([Edit(id=job.id, run_at_ms=self.now_ms + pick * 100)]).wait()
        self.settle()

    def pause(self, queue: str, what: dict[str, str], off: bool) -> None:
        if off:
            self.service.resume(queue, **what).wait()
        else:
            answer_or_none(self.service.pause(queue, **what, reason="why").wait, "names_need_lanes")
        self.settle()

    def configure(self, field: str, on: bool) -> None:
        if self.waits:
            return  # a filter that the queue no longer allows would be refused
        value: Any = 500 if field == "aging_ms" and on else 0 if field == "aging_ms" else on
        self.service.configure("q", {field: value}).wait()
        self.settle()

    def pass_time(self, step_ms: int) -> None:
        self.now_ms += step_ms
        self.store.clock_offset_ms = self.now_ms - START_MS
        for _ in range(3):
            self.service.promote().wait()
            self.service.recover().wait()
        if step_ms % 2:
            self.service.clean().wait()
        self.settle()
        late = [self.seen.zset(f"rates:{queue}") for queue in set(QUEUES)]
        assert all(at > self.now_ms for rates in late for at in rates.values()), "a token that nobody looked at"


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    kind: Any = ENGINE
    with EngineProcess(kind, config=("--save", "", "--appendonly", "no")) as process, frozen_time():
        yield process


def test_limits_hold_and_no_taker_waits_in_vain(engine: EngineProcess) -> None:
    run_state_machine_as_test(lambda: LimitMachine(engine), settings=SETTINGS)
