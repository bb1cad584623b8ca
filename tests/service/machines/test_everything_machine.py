"""All features at once: limits, pauses, fair share, families, groups, repeating jobs, schedules, unique keys, retake
leases, callbacks, history. No model: after each call the namespace must agree with itself, every job must have moved
along the table of moves, nobody may run over a limit, and nobody may wait in vain. At the end everything can be worked
off, and nothing is left behind.

Steps on families are made small, so that work is left undone while more happens. `WINDLASS_DEEP=1` runs longer."""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.service.frozen_engine import START_MS, frozen_store, frozen_time
from tests.service.leases.expected_takes import expected, is_settled, note_starts
from tests.service.machines import invariants
from tests.service.machines.dependency_graph import check_no_job_waits_for_nothing
from tests.service.machines.durable_invariants import fresh_starts
from tests.service.machines.everything_choices import LIMITS, QUEUES, Deed, configurations, content, deeds, new_jobs
from tests.service.machines.limit_invariants import is_rate, room
from tests.service.takers import answer_or_none, pass_wakeup
from tests.support.engine_process import EngineProcess
from tests.support.profiles import ENGINE, machine_settings
from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback
from windlass.core.durable import (
    ReceiveSignal,
    Rewind,
    Signal,
    StepKind,
    StepStatus,
    StoreStep,
    StreamWrite,
    Suspend,
    Wait,
)
from windlass.core.ids import make_id
from windlass.core.job import Blob, Job, NewJob
from windlass.core.limits.limit import Limit
from windlass.core.log import Log, LogLine
from windlass.core.operations import Edit, Fail, Filter, Finish, LeaseRef, Take, Update, WorkerInfo, WorkerReport
from windlass.core.queue import DAY_MS
from windlass.core.scheduling.schedule import Schedule
from windlass.core.states import ENDED, LEASED, State
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration
from windlass.store.waiting.take import take_flow

# Found by measuring: some 30 s, and some 10 minutes, on two slow cores.
SETTINGS = machine_settings(usual=90, deep=2_000, steps=40)
LASTING = (
    "q:", "m:", "ended:", "bell:", "waiters:", "throttle:", "full_at:", "queues", "seq", "token", "debts", "events",
    "followed", "idle:", "limits_version", "limit_number", "timers:ring", "turns:", "weights:",
    "indexed_queues",
)  # fmt: skip
LEFT_BEHIND = ("waiters:", "idle:")  # of a removed queue: takers and workers that wait for its next job
AFTER_ALL = ("settle", "clean")  # what follows from an end: members are let go of, histories are trimmed
IN_TIME = ("promote", "recover", "expire")  # what take does first
PACES: dict[str, dict[str, Any]] = {
    "keep": {},
    "replace": {"unique_check": "replace"},
    "none": {"unique_check": "none"},
    "debounce": {"debounce_ms": 1_000, "debounce_max_ms": 3_000},
    "throttle": {"throttle_ms": 2_000},
}
_namespaces = itertools.count(1)


class EverythingMachine(RuleBasedStateMachine):
    def __init__(self, engine: EngineProcess) -> None:
        super().__init__()
        self.store = frozen_store(engine, f"e{os.getpid()}-{next(_namespaces)}")
        self.service = Service(self.store)
        self.store.open_sync()
        self.link = self.store._sync_connection
        self.now_ms = START_MS
        self.made = itertools.count(1)
        self.waits: dict[str, tuple[tuple[str, ...], Filter]] = {}
        self.starts: dict[str, list[int]] = {}  # under each rate
        self.lost: set[bytes] = set()  # a job they belong to was deleted
        self.position = self.service.events().wait().position
        self.seen = invariants.snapshot(self.link, self.store.root(0), START_MS)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.everything_goes()
        finally:
            self.link.call("FLUSHDB")
            self.store.close_sync()

    # Looking

    def look(self, *verbs: str) -> None:
        """Check the invariants after each call."""
        found = invariants.snapshot(self.link, self.store.root(0), self.now_ms)
        page = self.service.events(self.position, most=500).wait()
        self.position = page.position
        invariants.check(found)
        invariants.check_moves(self.seen, found, frozenset((*verbs, *AFTER_ALL)))
        invariants.check_fixed_leases(self.seen, found, frozenset(verbs))
        invariants.check_delivered_events(self.seen, found, page.events)
        if verbs != ("cancel",):  # a failed job that is called off has ended before
            self.check_pending_callbacks(found, Counter((event.job, event.kind.state) for event in page.events))
        self.seen = found

    def check_pending_callbacks(self, found: invariants.Snapshot, told: Counter[tuple[bytes, State | None]]) -> None:
        """Check that every reported end has exactly one pending callback, if its job requested it."""
        before, after = invariants.pending_callbacks_in(self.seen), invariants.pending_callbacks_in(found)
        for (job_id, state), ends in told.items():
            one = found.jobs.get(job_id) or self.seen.jobs.get(job_id)  # it may have been replaced in this call
            if one is None or state not in ENDED:
                continue
            callback = one.job.callback
            pending = ends if callback is not None and state.label in callback.events else 0
            assert after[job_id, state] == before[job_id, state] + pending, f"owed {after}, before {before}: {one.job}"

    def jobs(self, *states: State) -> list[Job]:
        found = [one.job for one in self.seen.jobs.values() if not states or one.job.state in states]
        return sorted(found, key=lambda job: job.sequence)

    def some(self, which: Sequence[int], *states: State) -> list[Job]:
        among = self.jobs(*states)
        return list({job.id: job for pick in which if among for job in (among[pick % len(among)],)}.values())

    # The frame of each step

    @initialize(
        configured=st.tuples(configurations, configurations),
        limits=st.lists(st.sampled_from(LIMITS), min_size=1, max_size=3),
        jobs=st.lists(new_jobs, min_size=3, max_size=6),
    )
    def set_up(self, configured: tuple[dict[str, Any], ...], limits: list[Limit], jobs: list[Any]) -> None:
        for queue, change in zip(QUEUES, configured, strict=True):
            self.service.configure(queue, change).wait()
        for limit in limits:
            self.service.limit(limit).wait()
        self.enqueue(jobs)
        self.take(("q", "r"), Filter(), 2, "", {})

    @rule(what=deeds)
    def do(self, what: Deed) -> None:
        name, arguments = what
        getattr(self, name)(**arguments)
        self.settle()

    def settle(self) -> None:
        """Let woken takers take and the loops run; then no taker may wait in vain."""
        for _ in range(200):
            woken = [name for name, _ in self.seen.of_kind("bell:")]
            if not woken and "work" not in self.seen.values:
                break
            for wakeup_list in woken:
                self.link.call("DEL", f"{self.store.root(0)}:bell:{wakeup_list}")
                self.answer(wakeup_list)
            if "work" in self.seen.values:
                self.loop("promote")
            else:
                self.look("take", *IN_TIME)
        assert "work" not in self.seen.values, "the work on families never ends"
        check_no_job_waits_for_nothing(self.seen, self.lost)
        self.check_matches()
        self.no_taker_waits_in_vain()

    def answer(self, wakeup_list: str) -> None:
        if wakeup_list not in self.waits:
            return
        queues, wanted = self.waits[wakeup_list]
        request = Take(queues=queues, wants=wanted)
        taken = self.store.run_sync(
            take_flow(request, list(queues), 0, WaitRegistration(wakeup_list, 100_000))
        ).taken.jobs
        self.note_starts(taken)
        self.look("take", *IN_TIME)
        if taken:
            del self.waits[wakeup_list]
            for queue in queues:
                self.store.run_sync(pass_wakeup(wakeup_list, queue, wanted))

    def no_taker_waits_in_vain(self) -> None:
        for queue in QUEUES:
            for member, until_ms in self.seen.zset(f"waiters:{queue}").items():
                wakeup_list = member.split(b"\1")[0].decode()
                if wakeup_list in self.waits and until_ms >= self.now_ms and is_settled(self.seen, queue):
                    possible = expected(self.seen, Take(queues=(queue,), wants=self.waits[wakeup_list][1]))
                    assert not possible, (
                        f"{wakeup_list} waits, but {[self.seen.jobs[one].job for one in possible]} may run"
                    )

    # Producers

    def new_job(self, queue: str, oddities: dict[str, Any], pick: int, parent: bytes = b"", **kw: Any) -> NewJob:
        fields = {"name": "a", "lease_ms": 5_000, **oddities, **kw}
        if fields.pop("is_child", False) and not parent:
            parents = self.some([pick], *LEASED, State.WAITING)
            parent = parents[0].id if parents else b""
        if "unique" in fields:
            fields["unique"], how = fields["unique"]
            fields |= PACES[how]
        if "debounce_ms" in fields:
            fields.pop("delay_ms", None)
        after = {job.id for job in self.some([pick + at for at in range(fields.pop("waits_for", 0))])} - {parent}
        fields["held"] = bool(parent) and fields.get("held", False)
        payload = content(fields.pop("k", 1), fields.get("priority", 0))
        job_id = make_id(START_MS, 0, next(self.made))
        return NewJob(
            queue=queue, payload=payload, id=job_id, parent=parent, after=tuple(sorted(after)), **fields
        )  # fmt: skip

    def enqueue(self, jobs: list[tuple[str, dict[str, Any], int]], **kw: Any) -> None:
        self.put([self.new_job(*one, **kw) for one in jobs])

    def put(self, jobs: list[NewJob]) -> None:
        usual = ("queue_full", "parent_state", "unknown_parent", "unknown_member")
        for answer in self.service.enqueue(jobs).wait():
            assert not isinstance(answer, Exception) or getattr(answer, "code", "") in usual, answer
        self.look("enqueue")

    def raise_children(self, pick: int, jobs: list[Any], held: bool) -> None:
        for parent in self.some([pick], *LEASED, State.WAITING):
            self.enqueue(jobs, parent=parent.id, held=held)

    def hand_over(self, pick: int, jobs: list[Any], held: bool, more: int) -> None:
        """A parent creates children and finishes."""
        for parent in self.some([pick], *LEASED):
            self.enqueue(jobs, parent=parent.id, held=held)
            self.put([self.new_job("q", {}, 0, parent.id, held=held) for _ in range(more)])
            self.finish_these([Finish(parent.id, parent.lease_token)])

    # Workers

    def take(self, queues: tuple[str, ...], wants: Filter, most: int, wakeup_list: str, manner: dict[str, Any]) -> None:
        if wakeup_list in self.waits:
            return
        request = Take(queues=queues, most=most, wants=wants, **manner)
        flow = take_flow(request, list(queues), 0, WaitRegistration(wakeup_list, 100_000 if wakeup_list else 0))
        before, due = self.seen, any(not is_settled(self.seen, queue) for queue in queues)
        found = answer_or_none(lambda: self.store.run_sync(flow), "names_need_lanes", "no_exact_priority")
        if found is None:
            return
        taken = found.taken.jobs
        if wakeup_list and not taken:
            self.waits[wakeup_list] = (queues, wants)
        self.check_taken(before, request, taken, due)
        self.look("take", *IN_TIME)

    def check_taken(self, before: invariants.Snapshot, request: Take, taken: list[Job], due: bool) -> None:
        self.note_starts(taken)
        if due or "work" in before.values:
            return
        is_fair = any(before.number(queue, b"fair_share") for queue in request.queues)
        is_used_up = any(one.job.is_overdue or one.job.expires_at_ms for one in before.jobs.values())
        if not is_used_up:
            wanted = expected(before, request)
            if is_fair:
                assert bool(taken) == bool(wanted), f"took {taken}, not {wanted}"
            else:
                assert [job.id for job in taken] == wanted
        fresh = fresh_starts(before, taken)
        counted = [limit for job in taken for limit in job.limits if job in fresh or not is_rate(before, limit)]
        for limit, count in Counter(counted).items():
            assert count <= room(before, request.queues[0], limit), f"{limit} is exceeded by {count}"

    def held(self, which: Sequence[int]) -> list[LeaseRef]:
        return [LeaseRef(job.id, job.lease_token) for job in self.some(which, *LEASED)]

    def finish(self, which: list[int], for_good: bool, result: bool) -> None:
        blob = Blob(b"7") if result else None
        self.finish_these([Finish(one.id, one.token, blob, for_good) for one in self.held(which)])

    def finish_these(self, requests: list[Finish]) -> None:
        if requests:
            self.service.finish(requests).wait()
            self.look("finish")

    def fail(self, which: list[int], then: Any, delay_ms: int) -> None:
        requests = [Fail(id=one.id, token=one.token, then=then, delay_ms=delay_ms) for one in self.held(which)]
        if requests:
            self.service.fail(requests).wait()
            self.look("fail")

    def finish_and_take(self, finished: list[int], failed: list[int], most: int) -> None:
        finishes = [Finish(one.id, one.token) for one in self.held(finished)]
        done = {one.id for one in finishes}
        failures = [Fail(id=one.id, token=one.token) for one in self.held(failed) if one.id not in done]
        found = self.service.finish_and_take(finishes, failures, Take(queues=("q", "r"), most=most)).wait()
        self.note_starts(found.taken.jobs)
        self.look("finish", "fail", "take", *IN_TIME)

    def hold(self, which: list[int], how: str) -> None:
        held = self.held(which)
        if not held:
            return
        if how == "update":
            # Its limits stay those it was taken under, so its content must match the same.
            jobs = [self.seen.jobs[one.id].job for one in held]
            updates = [
                Update(id=job.id, token=job.lease_token, payload=job.payload, progress=0.5, note=job.name)
                for job in jobs
            ]
            self.service.update(updates).wait()
        elif how == "log":
            self.service.log([Log(one.id, one.token, [LogLine(self.now_ms, "info", "x")]) for one in held]).wait()
        else:
            getattr(self.service, how)(held).wait()
        self.look(how)

    def note_starts(self, jobs: list[Job]) -> None:
        """Check the rates of runs that have begun since the last look."""
        fresh = fresh_starts(self.seen, jobs)
        note_starts(self.starts, self.store.limit_cache.table(0).limits, fresh, self.now_ms)

    # Code that waits

    def durable_call(self, which: list[int], how: str, name: str) -> None:
        for one in self.held(which):
            lease = {"id": one.id, "token": one.token}
            if how == "receive":
                self.service.receive_signals([ReceiveSignal(**lease, name="signal", signal="go")]).wait()
            elif how == "stream":
                self.service.write_stream([StreamWrite(**lease, values=(Blob(b"1"),), sequence=0, outside=0)]).wait()
            elif how == "cursor":
                status = StepStatus.WAITING
                self.service.store_steps([StoreStep(**lease, name=name, kind=StepKind.CURSOR, status=status)]).wait()
            else:
                self.service.store_steps([StoreStep(**lease, name=name, value=Blob(b"1"))]).wait()
        self.look()

    def suspend(self, which: list[int], kinds: list[Any], for_ms: int | None) -> None:
        for one in self.held(which):
            children = tuple(job.id for job in self.jobs() if job.parent == one.id)[:3]
            waits = [self.wait_of(kind, for_ms, children) for kind in kinds if kind != "children" or children]
            if waits:
                self.service.suspend([Suspend(id=one.id, token=one.token, waits=tuple(waits))]).wait()
        self.look("suspend")

    def wait_of(self, kind: Any, for_ms: int | None, children: tuple[bytes, ...]) -> Wait:
        name = "s" if kind == "retry" else kind
        if kind in ("sleep", "retry"):
            return Wait(name=name, kind=kind, for_ms=for_ms or 0)
        if kind == "signal":
            return Wait(name=name, kind=kind, for_ms=for_ms, signal="go")
        return Wait(name=name, kind=kind, for_ms=for_ms, children=children)

    def signal(self, which: list[int], name: str) -> None:
        for job_id in self.ids(which):
            self.service.signal([Signal(id=job_id, name=name, value=Blob(b"1"))]).wait()
        self.look("signal")

    def rewind(self, which: list[int], step: str) -> None:
        for job_id in self.ids(which):
            self.service.rewind([Rewind(id=job_id, step=step)]).wait()
        self.look()

    # Workers that speak by messages

    def speak(self, pick: int, worker: bytes, idle_ms: int, says: list[Any]) -> None:
        (job,) = self.some([pick]) or [None]
        queue, job_id = (job.queue, job.id) if job else ("q", b"")
        info = WorkerInfo(name="w", queues=(queue,))
        before = self.seen
        answer_or_none = [
            WorkerReport(queue=queue, worker=worker, info=info, kind=one, id=job_id, idle_ms=idle_ms) for one in says
        ]
        self.service.report_worker(answer_or_none, silent_ms=4_000).wait()
        self.look("take", "accept", "extend", "update", "finish", "fail", *IN_TIME)
        self.check_worker_report(before, job_id, worker)

    def check_worker_report(self, before: invariants.Snapshot, job_id: bytes, worker: bytes) -> None:
        """Check a worker report: jobs of other workers are unchanged; a job without a holder may become the reporter's
        if its limits allow it."""
        was, now = before.jobs.get(job_id), self.seen.jobs.get(job_id)
        if was is None:
            return
        if was.job.state in LEASED and was.job.worker != worker:
            assert now is not None
            assert (now.job.state, now.token) == (was.job.state, was.token)
        if was.job.needs_steps and was.job.state not in LEASED:
            assert now is not None
            assert now.job.state not in LEASED, f"given to a worker that does not know steps: {now.job}"
        if was.job.state is State.QUEUED and (now is None or now.token > was.token):
            self.note_starts([was.job])

    def assign(self, queues: tuple[str, ...], most: int, spends_attempt: bool) -> None:
        idle = {(queue, worker) for queue in queues for worker in self.seen.zset(f"idle:{queue}")}
        given = self.service.assign(queues, most=most, accept_ms=1_000, spends_attempt=spends_attempt).wait().jobs
        assert len(given) <= most
        assert len({(job.queue, job.worker) for job in given} & idle) == len(given), "each idle worker gets one job"
        self.note_starts(given)
        self.look("take", *IN_TIME)

    # People

    def ids(self, which: Sequence[int], *states: State) -> list[bytes]:
        return [job.id for job in self.some(which, *states)]

    def cancel(self, which: list[int], counts_waiting: bool, even_failed: bool) -> None:
        if ids := self.ids(which):
            if not counts_waiting:
                self.lost |= {job.parent for job in self.jobs() if job.parent and job.id in ids}
            self.service.cancel(ids, counts_waiting=counts_waiting, even_failed=even_failed).wait()
            self.look("cancel")

    def intervene(self, which: list[int], how: str, fully: bool) -> None:
        states = {"retry": (State.FAILED, State.CANCELLED), "wake": (State.WAITING,), "requeue": ()}[how]
        if ids := self.ids(which, *states):
            options = {"gives_attempt_back": fully} if how == "requeue" else {}
            getattr(self.service, how)(ids, **options).wait()
            self.look(how)

    def delete(self, which: list[int]) -> None:
        if ids := self.ids(which):
            self.note_losses(ids)
            self.service.delete(ids, even_leased=True).wait()
            self.look("delete")

    def note_losses(self, ids: list[bytes]) -> None:
        for job_id in ids:
            parent = self.seen.jobs[job_id].job.parent
            self.lost |= {parent} if parent else set()
            self.lost |= set(self.seen.zset(f"d:{job_id.decode('latin-1')}"))

    def edit(self, which: list[int], change: dict[str, Any]) -> None:
        changes = dict(change)
        if "run_in_ms" in changes:
            changes["run_at_ms"] = self.now_ms + changes.pop("run_in_ms")
        if ids := self.ids(which):
            self.service.edit([Edit(id=job_id, **changes) for job_id in ids]).wait()
            self.look("edit")

    def limit(self, limit: Limit, is_removed: bool) -> None:
        if is_removed:
            answer_or_none(self.service.unlimit(limit.name).wait, "unknown_limit")
        else:
            self.service.limit(limit).wait()
        self.starts.clear()
        self.look()

    def check_matches(self) -> None:
        """Check that every job that has not ended counts against the limits that it matches now."""
        table = self.store.limit_cache.table(0)
        for job in self.jobs():
            if job.state not in ENDED:
                wanted = table.match(job.queue, job.name, job.lane, job.payload)
                assert job.limits == wanted, f"counts against {job.limits}, not {wanted}: {job}"

    def pause(self, queue: str, what: dict[str, str], is_over: bool) -> None:
        if is_over:
            self.service.resume(queue, **what).wait()
        else:
            answer_or_none(self.service.pause(queue, **what, reason="why").wait, "names_need_lanes")
        self.look()

    def configure(self, queue: str, change: dict[str, Any]) -> None:
        if self.waits:
            return  # a filter that the queue no longer allows would be refused
        self.service.configure(queue, change).wait()
        self.look()

    def remove_queue(self, queue: str) -> None:
        if self.waits:
            return  # as in `configure`
        holds_jobs = any(job.queue == queue for job in self.jobs())
        answer = answer_or_none(self.service.remove_queue(queue).wait, "queue_in_use")
        assert (answer is None) == holds_jobs, f"removed {queue} with jobs: {self.jobs()}"
        self.look()
        gone = [key for key in self.seen.values if key.endswith(f":{queue}") and not key.startswith(LEFT_BEHIND)]
        assert holds_jobs or gone == [], f"left behind: {gone}"

    def set_weights(self, queue: str, weight: int) -> None:
        self.service.set_weights(queue, {"x": weight}).wait()
        self.look()

    def schedule(self, name: str, queue: str, template: dict[str, Any], overlap: Any, how: str) -> None:
        if how == "make":
            fields = {**template, "payload": content(template.get("k", 1))}
            fields.pop("k", None)
            job = NewJob(queue=queue, name="b", lease_ms=5_000, **fields)
            self.service.schedule(Schedule(name=name, job=job, every_ms=2_000, overlap=overlap, misfire="all")).wait()
        else:
            verb = {"remove": "unschedule", "run": "run_schedule"}.get(how, f"{how}_schedule")
            answer_or_none(getattr(self.service, verb)(name).wait, "unknown_schedule", "queue_full")
        self.look("enqueue")

    def callbacks(self, how: str) -> None:
        callbacks = self.service.take_callbacks(most=5).wait().callbacks
        if how == "redeliver":
            callbacks += self.service.callbacks(given_up=True, most=5).wait().callbacks
            self.service.redeliver([pending.job.id for pending in callbacks] or [bytes(16)]).wait()
        elif how == "settle" and callbacks:
            self.service.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in callbacks]).wait()
        elif callbacks:
            outcome = {"give_up": how == "give up", "is_unspent": how == "put back"}
            again = [FailedDelivery(id=pending.id, token=pending.token, **outcome) for pending in callbacks]
            self.service.retry_callbacks(again).wait()
        self.look()

    # Time

    def loop(self, name: str) -> None:
        verbs = {"fire": ("enqueue", "cancel"), "clean": ("clean", "expire")}.get(name, (name,))
        getattr(self.service, name)().wait()
        self.look(*verbs)

    def pass_time(self, by_ms: int, loops: bool) -> None:
        self.now_ms += by_ms
        self.store.clock_offset_ms = self.now_ms - START_MS
        self.look()
        if loops:
            for name in ("fire", "promote", "recover", "clean"):
                getattr(self.service, name)().wait()
            self.look("enqueue", "cancel", *IN_TIME)

    # The end

    def everything_goes(self) -> None:
        """Without pauses, limits and schedules all jobs can be completed; then nothing is left."""
        note("everything goes")
        self.waits.clear()
        self.lift_everything()
        for _ in range(60):
            self.pass_time(6_000, True)
            self.settle()
            self.work()
            open_jobs = [job for job in self.jobs() if job.state not in ENDED]
            if not open_jobs:
                break
            if all(job.state in (State.WAITING, State.SUSPENDED) for job in open_jobs):
                # They wait for each other, for deleted jobs or for signals: a person has to decide.
                self.service.cancel([open_jobs[0].id]).wait()
                self.look("cancel")
        assert not open_jobs, f"cannot be worked off: {open_jobs}"
        self.clear_up()

    def lift_everything(self) -> None:
        for queue in QUEUES:
            for pause in self.service.pauses(queue).wait():
                self.service.resume(queue, lane=pause.lane, name=pause.name).wait()
            self.service.configure(queue, {"history_length": 0, "max_length": 0}).wait()
        for state in self.service.limits().wait():
            self.service.unlimit(state.limit.name).wait()
        for status in self.service.schedules().wait():
            self.service.unschedule(status.schedule.name).wait()
        self.look()

    def work(self) -> None:
        for _ in range(20):
            self.take(("q", "r"), Filter(steps=True), 100, "", {})
            held = self.held(range(len(self.jobs(*LEASED))))
            if not held:
                break
            self.finish_these([Finish(one.id, one.token, ignore_repeat=True) for one in held])
            self.settle()

    def clear_up(self) -> None:
        for at, job in enumerate(self.jobs()):
            if at % 2 or job.result_ttl_ms:
                answer_or_none(self.service.delete([job.id]).one().wait, "unknown_job", "already_ended")
        self.look("delete")
        while callbacks := self.service.take_callbacks(most=100).wait().callbacks:
            self.service.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in callbacks]).wait()
        self.pass_time(15 * DAY_MS, True)
        for _ in self.jobs():  # the removal of a job releases the jobs that it has waited for
            self.pass_time(1, True)
            self.settle()
        self.service.sweep().wait()
        self.pass_time(DAY_MS, True)
        self.settle()
        while callbacks := self.service.take_callbacks(most=100).wait().callbacks:
            self.service.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in callbacks]).wait()
        self.look()
        assert not self.seen.jobs, f"still there: {self.jobs()}"
        left = [key for key in self.seen.values if not key.startswith(LASTING)]
        assert not left, f"left behind: {left}"


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    kind: Any = ENGINE
    with (
        EngineProcess(kind, config=("--save", "", "--appendonly", "no")) as process,
        frozen_time(in_small_steps=True),
    ):
        yield process


def test_all_features_hold_together(engine: EngineProcess) -> None:
    run_state_machine_as_test(lambda: EverythingMachine(engine), settings=SETTINGS)
