"""Producers, workers, a person, a configurator and the loops do random things, to the engine and to the model alike:
each answer must be the model's, and after each step the whole namespace must agree with the model and with itself.

`WINDLASS_DEEP=1` runs for about ten minutes, `WINDLASS_TEST_ENGINE=redis` on Redis; a failure prints the steps."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.frozen_engine import START_MS, frozen_store, frozen_time
from tests.service.machines import invariants
from tests.service.machines.choices import (
    LONG,
    PAYLOADS,
    QUEUES,
    REFUSED_MOST,
    SEVERAL_REPEATED_IDS,
    SOLO,
    SPECIAL,
    STILL_THERE,
    WAKEUP_LISTS,
    WORKERS,
    backoff,
    configurations,
    delays,
    edits,
    few_picks,
    habits,
    id_of,
    manners,
    mostly,
    new_jobs,
    picks,
    takes,
    with_payload,
)
from tests.service.machines.ledger import ModelJob, wants
from tests.service.machines.model import Model
from tests.service.model_comparison import as_expected, as_stored
from tests.support.engine_process import EngineProcess
from tests.support.profiles import ENGINE
from windlass.core.callbacks.callback import LeasedCallback
from windlass.core.errors import Refusal
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.log import Log, LogLine
from windlass.core.operations import Edit, Enqueued, Fail, Filter, Finish, LeaseRef, Listing, Take, Update, WorkerInfo
from windlass.core.queue import DAY_MS, FOREVER_MS
from windlass.core.states import ENDED, LEASED, State
from windlass.service import Service
from windlass.store.commands.take import WaitRegistration, filter_text
from windlass.store.waiting.take import take_flow

# Found by measuring: some 25 s, and some 10 minutes, on two slow cores.
EXAMPLES = {"ci": 250, "deep": 6000}
STEPS = {"ci": 50, "deep": 60}
PROFILE = "deep" if os.environ.get("WINDLASS_DEEP") else "ci"
IS_MUTANT = bool(os.environ.get("WINDLASS_MUTANT"))  # tools/mutants.py: a failure is enough, its steps are not read

SETTINGS = settings(
    max_examples=EXAMPLES[PROFILE],
    stateful_step_count=STEPS[PROFILE],
    deadline=None,
    derandomize=False,
    print_blob=True,
    phases=(Phase.generate,) if IS_MUTANT else (Phase.reuse, Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

_namespaces = itertools.count(1)


def said(answer: Any) -> Any:
    """Return an answer in the form of the model."""
    return answer.code if isinstance(answer, Refusal) else answer


def answered(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except Refusal as refusal:
        return refusal.code


def instants_of(job: ModelJob) -> list[int]:
    timeout_at = job.started_at + job.content.timeout_ms if job.content.timeout_ms else 0
    kept_until = job.removed_at if job.removed_at < FOREVER_MS else 0
    return [job.ready_at, job.deadline, job.expires_at, timeout_at, kept_until]


def has_jobs(machine: Any) -> bool:
    return len(machine.ids) > 1


def has_leases(machine: Any) -> bool:
    return len(machine.leases) > 1


class Machine(RuleBasedStateMachine):
    def __init__(self, engine: EngineProcess) -> None:
        super().__init__()
        self.store = frozen_store(engine, f"m{os.getpid()}-{next(_namespaces)}")
        self.service = Service(self.store)
        self.store.open_sync()
        self.link = self.store._sync_connection
        self.model = Model(START_MS)
        self.leases = [LeaseRef(id_of(999), 1)]  # all ever given, stale ones too
        self.ids = [id_of(999)]
        self.fresh = SEVERAL_REPEATED_IDS
        self.waiting_for: dict[bytes, Filter] = {}
        self.habit: dict[str, Any] = {}
        self.manner: dict[str, Any] = {}
        self.position = self.service.events().wait().position
        self.seen = invariants.snapshot(self.link, self.store.root(0), START_MS)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # a failed step has reported it
                assert_healthy(self.service)
                self.everything_goes()
        finally:
            self.link.call("FLUSHDB")
            self.store.close_sync()

    def lease(self, pick: int, is_exact: bool = True) -> LeaseRef:
        held = [job for job in self.model.jobs.values() if job.state in LEASED]
        overdue = [job for job in held if job.is_retakeable]
        among = [LeaseRef(job.id, job.token) for job in (overdue if overdue and pick in SPECIAL else held)]
        among = among if among and pick <= STILL_THERE else self.leases
        found = among[-1 - pick % len(among)]
        return found if is_exact else LeaseRef(found.id, 0)

    def id(self, pick: int) -> bytes:
        held = [job.id for job in self.model.jobs.values() if job.state in LEASED]
        among = held if held and pick in SPECIAL else list(self.model.jobs)
        among = among if among and pick <= STILL_THERE else self.ids
        return among[-1 - pick % len(among)]

    def agree(self, actual: Any, expected: Any, *verbs: str) -> None:
        """After each step: the answer, then everything that is stored."""
        assert actual == expected, f"answered {actual}, not {expected}"
        found = invariants.snapshot(self.link, self.store.root(0), self.model.now_ms)
        invariants.check_moves(self.seen, found, frozenset(verbs))
        page = self.service.events(self.position, most=500).wait()
        self.position = page.position
        invariants.check_delivered_events(self.seen, found, page.events)
        self.seen = found
        self.check_jobs(found)
        invariants.check(found)
        self.check_rings(found)

    def check_jobs(self, found: invariants.Snapshot) -> None:
        assert found.jobs.keys() == self.model.jobs.keys(), "the engine and the model hold other jobs"
        for job_id, stored in found.jobs.items():
            actual, expected = as_stored(found, stored), as_expected(self.model.jobs[job_id])
            differing = {key: (actual[key], expected[key]) for key in actual if actual[key] != expected[key]}
            assert not differing, f"job {job_id.hex()} (engine, model): {differing}"
        assert {name.decode() for name in found.values.get("queues", ())} == self.model.queues
        assert found.zset("tombstones") == self.model.tombstones, "tombstones"
        assert invariants.pending_callbacks_in(found) == self.model.pending_callbacks, (
            "other callbacks are owed than the model says"
        )
        beats = {worker: silent_at for worker, (_, silent_at) in self.model.workers.items()}
        assert found.zset("workers") == beats

    def check_rings(self, found: invariants.Snapshot) -> None:
        """Check that no taker waits for a takeable job, unless a taker was woken for it or the recoverer will wake
        one."""
        for queue, waiters in found.of_kind("waiters:"):
            told = any(f"Q{queue}\1".encode() in b"".join(woken) for _, woken in found.of_kind("bell:"))
            if told or queue.encode() in found.zset("timers:ring"):
                continue
            for member, until_ms in waiters.items():
                wanted = self.waiting_for[member.partition(b"\1")[2]]
                missed = [job.id.hex() for job in self.model.takeable(queue) if wants(wanted, job)]
                assert until_ms < self.model.now_ms or not missed, f"{member!r} waits for {missed}, and was not woken"

    # Time and configuration

    @initialize(
        first=configurations,
        second=configurations,
        habit=habits,
        manner=manners,
        jobs=st.lists(new_jobs, max_size=4),
    )
    def begin(
        self,
        first: dict[str, Any],
        second: dict[str, Any],
        habit: dict[str, Any],
        manner: dict[str, Any],
        jobs: list[Any],
    ) -> None:
        """Jobs and takes of one example have something in common: rare things then meet each other."""
        self.habit, self.manner = habit, manner
        self.configure("q", first)
        self.configure("r", second)
        self.enqueue(jobs)

    @rule(queue=st.sampled_from(QUEUES), changes=configurations)
    def configure(self, queue: str, changes: dict[str, Any]) -> None:
        self.agree(self.service.configure(queue, changes).wait(), self.model.configure(queue, changes))

    @rule(queue=st.sampled_from((*QUEUES, SOLO)))
    def remove_queue(self, queue: str) -> None:
        def ask() -> str:
            self.service.remove_queue(queue).wait()
            return "removed"

        self.agree(answered(ask), self.model.remove_queue(queue))

    def pass_time(self, by_ms: int) -> None:
        self.model.now_ms += by_ms
        self.store.clock_offset_ms = self.model.now_ms - START_MS

    @rule(by_ms=st.sampled_from((1, 500, 1_000, 2_000, 5_000, 30_000, 100_000, 700_000, 1_500_000)))
    def time_passes(self, by_ms: int) -> None:
        self.pass_time(by_ms)

    @rule(nth=st.integers(0, 2), loop=mostly("recover", "promote", "clean", ""))
    def time_comes(self, nth: int, loop: str) -> None:
        """To the very millisecond at which something is due."""
        instants = sorted({at for job in self.model.jobs.values() for at in instants_of(job) if at > self.model.now_ms})
        if instants:
            self.pass_time(instants[nth % len(instants)] - self.model.now_ms)
        if loop:
            getattr(self, loop)()

    # Producers

    @rule(jobs=st.lists(new_jobs, min_size=1, max_size=3))
    def enqueue(self, jobs: list[tuple[str, dict[str, Any], int]]) -> None:
        news = [self.new_job(*job) for job in jobs]
        answers = [said(one) for one in self.service.enqueue(news).wait()]
        self.ids += [one.id for one in answers if isinstance(one, Enqueued)]
        self.agree(answers, self.model.enqueue(news), "enqueue")

    @rule(jobs=st.lists(new_jobs, min_size=1, max_size=3))
    def enqueue_more(self, jobs: list[tuple[str, dict[str, Any], int]]) -> None:
        self.enqueue(jobs)

    def new_job(self, queue: str, fields: dict[str, Any], known: int) -> NewJob:
        fields = with_payload(self.habit | fields)
        if known < 0:
            self.fresh += 1
        if fields.pop("is_late", False) and "delay_ms" not in fields:
            fields["run_at_ms"] = self.model.now_ms - 1_500
        if not fields.get("unique") or fields.get("unique_check") != "replace":
            fields.pop("if_revision", None)
        if "timeout_ms" in fields:
            fields.setdefault("retry", backoff(0))  # the default's pauses are drawn by chance
        return NewJob(**{"queue": queue, "name": "a", "id": id_of(known if known >= 0 else self.fresh)} | fields)

    # Workers

    @rule(request=takes, by_ms=mostly(0, 1_000, 6_000))
    def take_later(self, request: Take, by_ms: int) -> None:
        self.pass_time(by_ms)
        self.take(request, "")

    @rule(request=takes)
    def take_most(self, request: Take) -> None:
        self.take(msgspec.structs.replace(request, most=5), "")

    @rule(request=takes, wakeup_list=mostly("", *WAKEUP_LISTS))
    def take(self, request: Take, wakeup_list: str) -> None:
        request = self.sensible(request)
        registration = WaitRegistration(wakeup_list, 10_000 if wakeup_list else 0)
        flow = take_flow(request, list(request.queues), 0, registration)
        self.waiting_for[filter_text(request.wants).encode()] = request.wants
        if wakeup_list:
            self.link.call("DEL", f"{self.store.root(0)}:bell:{wakeup_list}")
        found = answered(lambda: self.store.run_sync(flow))
        taken = found if isinstance(found, str) else found.taken.jobs
        self.agree_on_taken(taken, self.model.take(request))
        if not isinstance(found, str):
            self.check_next_due(request, bool(taken), found.taken.next_due_at_ms)

    def sensible(self, request: Take) -> Take:
        """Mostly by name only where that is possible."""
        plain = Take(queues=request.queues)
        manner = {name: value for name, value in self.manner.items() if getattr(request, name) == getattr(plain, name)}
        request = msgspec.structs.replace(request, **manner)
        if self.model_refuses(request) and request.most != REFUSED_MOST:
            return msgspec.structs.replace(request, wants=Filter(priority=request.wants.priority))
        return request

    def agree_on_taken(self, taken: Any, expected: list[ModelJob] | str) -> None:
        if isinstance(taken, str) or isinstance(expected, str):
            self.agree(taken, expected)
            return
        self.leases += [LeaseRef(job.id, job.lease_token) for job in taken]
        actual = [(job.id, job.lease_token, job.payload, job.attempt) for job in taken]
        wanted = [(job.id, job.token, job.content.payload, job.attempt) for job in expected]
        self.agree(actual, wanted, "take", "promote", "recover", "expire", "clean")

    def check_next_due(self, request: Take, has_taken: bool, next_at_ms: int | None) -> None:
        """A taker without a job sleeps until this time, never past the due time of a job."""
        if has_taken:
            return
        at_ms = next_at_ms or FOREVER_MS
        for queue in request.queues:
            left = self.model.takeable(queue, request.wants)
            assert not left or at_ms <= self.model.now_ms, f"sleeps until {next_at_ms} before {left}"
            dues = [job.ready_at for job in self.model.of(queue, State.SCHEDULED)]
            dues += [job.deadline for job in self.model.of(queue, *LEASED) if job.deadline and not job.is_retakeable]
            assert at_ms <= max(min(dues, default=FOREVER_MS), self.model.now_ms + 1_000), f"sleeps until {next_at_ms}"

    @rule(finished=st.lists(picks, max_size=2), failed=st.lists(picks, max_size=1), request=takes)
    def finish_and_take(self, finished: list[int], failed: list[int], request: Take) -> None:
        request = self.sensible(request)
        finishes = [Finish(*self.fields(pick), Blob(b"7")) for pick in finished]
        failures = [Fail(id=one.id, token=one.token, then="retry") for one in map(self.lease, failed)]
        found = answered(lambda: self.service.finish_and_take(finishes, failures, request).wait())
        if self.model_refuses(request):
            self.agree(found, "names_need_lanes")
            return
        assert not isinstance(found, str), found
        expected = [self.model.each(finishes, self.model.finish, trims=False)]
        expected.append(self.model.each(failures, self.model.fail, trims=False))
        reported = [[said(one) for one in found.finished], [said(one) for one in found.failed]]
        assert reported == expected, f"answered {reported}, not {expected}"
        verbs = ("finish", "fail", "take", "promote", "recover", "expire", "clean")
        taken, wanted = found.taken.jobs, self.model.take(request)
        self.leases += [LeaseRef(job.id, job.lease_token) for job in taken]
        self.agree([job.id for job in taken], [job.id for job in wanted], *verbs)  # type: ignore[union-attr]

    def model_refuses(self, request: Take) -> bool:
        by_name = request.wants.only or request.wants.all_but or request.wants.glob
        return bool(by_name) and not all(self.model.config(queue).name_lanes for queue in request.queues)

    def fields(self, pick: int, is_exact: bool = True) -> tuple[bytes, int]:
        found = self.lease(pick, is_exact)
        return found.id, found.token

    def report(self, ask: Callable[..., Any], requests: Sequence[Any], tell: Callable[..., Any], *verbs: str) -> None:
        answers = [said(one) for one in ask(requests).wait()]
        self.agree(answers, self.model.each(requests, tell), *verbs)

    @precondition(has_leases)
    @rule(
        which=few_picks,
        is_exact=mostly(True, False),
        result=st.sampled_from((None, Blob(b"5"), Blob(LONG, Codec.RAW))),
        for_good=mostly(False, True),
    )
    def finish(self, which: list[int], is_exact: bool, result: Blob | None, for_good: bool) -> None:
        requests = [Finish(*self.fields(pick, is_exact), result, for_good) for pick in which]
        self.report(self.service.finish, requests, self.model.finish, "finish", "clean")

    @precondition(has_leases)
    @rule(
        which=few_picks,
        is_exact=mostly(True, False),
        then=st.sampled_from(("retry", "final", "cancelled")),
        delay_ms=delays,
    )
    def fail(self, which: list[int], is_exact: bool, then: Any, delay_ms: int) -> None:
        held = [self.lease(pick, is_exact) for pick in which]
        requests = [Fail(id=one.id, token=one.token, then=then, delay_ms=delay_ms, error=Blob(b"1")) for one in held]
        self.report(self.service.fail, requests, self.model.fail, "fail", "clean")

    @precondition(has_leases)
    @rule(which=few_picks, is_exact=mostly(True, False))
    def release(self, which: list[int], is_exact: bool) -> None:
        requests = [self.lease(pick, is_exact) for pick in which]
        self.report(self.service.release, requests, self.model.release, "release", "clean")

    @precondition(has_leases)
    @rule(which=few_picks, is_exact=mostly(True, False), lease_ms=mostly(0, 3_000, 60_000, FOREVER_MS))
    def extend(self, which: list[int], is_exact: bool, lease_ms: int) -> None:
        def ask(requests: Sequence[LeaseRef]) -> Any:
            return self.service.extend(requests, lease_ms=lease_ms)

        requests = [self.lease(pick, is_exact) for pick in which]
        self.report(ask, requests, lambda job, _: self.model.extend(job, lease_ms))

    @precondition(has_leases)
    @rule(which=few_picks, lease_ms=mostly(0, 3_000, FOREVER_MS))
    def accept(self, which: list[int], lease_ms: int) -> None:
        def ask(requests: Sequence[LeaseRef]) -> Any:
            return self.service.accept(requests, lease_ms=lease_ms)

        requests = [self.lease(pick) for pick in which]
        self.report(ask, requests, lambda job, _: self.model.accept(job, lease_ms), "accept")

    @precondition(has_leases)
    @rule(
        which=few_picks,
        progress=st.sampled_from((None, 0.25, 1)),
        payload=st.sampled_from((None, *PAYLOADS)),
        note=st.sampled_from((None, None, "", "half way", "n" * 60)),
    )
    def update(self, which: list[int], progress: float | None, payload: str | None, note: str | None) -> None:
        blob = PAYLOADS[payload] if payload else None
        held = [self.lease(pick) for pick in which]
        requests = [Update(id=one.id, token=one.token, progress=progress, note=note, payload=blob) for one in held]
        self.report(self.service.update, requests, self.model.update)

    @precondition(has_leases)
    @rule(which=few_picks, texts=st.sampled_from((("a",), ("", "b\n"))), is_exact=mostly(True, False))
    def log(self, which: list[int], texts: tuple[str, ...], is_exact: bool) -> None:
        lines = [LogLine(self.model.now_ms, "info", text) for text in texts]
        requests = [Log(one.id, one.token, lines) for one in (self.lease(pick, is_exact) for pick in which)]
        self.report(self.service.log, requests, self.model.say)

    # A person

    @precondition(has_jobs)
    @rule(which=few_picks, does=mostly("cancel", "requeue", "requeue", "retry", "delete"), fully=st.booleans())
    def intervene(self, which: list[int], does: str, fully: bool) -> None:
        service, model, ids = self.service, self.model, [self.id(pick) for pick in which]
        asked: Any
        if does == "requeue":
            asked, tell = service.requeue(ids, gives_attempt_back=fully), lambda one: model.requeue(one, fully)
        elif does == "delete":
            asked, tell = service.delete(ids, even_leased=fully), lambda one: model.delete(one, fully)
        else:
            asked, tell = getattr(service, does)(ids), getattr(model, does)
        answers = [said(one) for one in asked.wait()]
        expected = [tell(job_id) for job_id in ids]
        model.trim()
        self.agree(answers, expected, does, "clean")

    @precondition(has_jobs)
    @rule(pick=picks, is_awaited=st.booleans())
    def revive(self, pick: int, is_awaited: bool) -> None:
        """A person reads ended jobs while takers may wait."""
        ended = [job.id for job in self.model.jobs.values() if job.state in ENDED] or self.ids
        job_id = ended[pick % len(ended)]
        if is_awaited and job_id in self.model.jobs:
            self.take(Take(queues=(self.model.jobs[job_id].content.queue,), most=5), WAKEUP_LISTS[0])
        self.agree(said(self.service.retry([job_id]).wait()[0]), self.model.retry(job_id), "retry")

    @rule()
    def sweep_beside_a_lane(self) -> None:
        """A queue that was never configured, with one job in a separate lane."""
        self.enqueue([(SOLO, {"lane": "x", "unique": ""}, -1)])
        self.sweep()

    @rule(queue=st.sampled_from(QUEUES))
    def outgrow_the_history(self, queue: str) -> None:
        """Two jobs end one after the other where the history keeps one."""
        self.configure(queue, {"history_length": 1})
        for _ in range(2):
            self.enqueue([(queue, {"priority": -1000}, -1)])
            self.take(Take(queues=(queue,)), "")
            held = [LeaseRef(job.id, job.token) for job in self.model.jobs.values() if job.state in LEASED][-1:]
            self.report(
                self.service.finish,
                [Finish(*one) for one in map(msgspec.structs.astuple, held)],
                self.model.finish,
                "finish",
                "clean",
            )
            self.pass_time(1)

    @precondition(has_leases)
    @rule(pick=picks, fully=st.booleans())
    def stop_and_requeue(self, pick: int, fully: bool) -> None:
        """A person cancels a running job, and then requeues it."""
        job_id = self.lease(pick).id
        answer, expected = said(self.service.cancel([job_id]).wait()[0]), self.model.cancel(job_id)
        self.model.trim()
        self.agree(answer, expected, "cancel", "clean")
        answer = said(self.service.requeue([job_id], gives_attempt_back=fully).wait()[0])
        self.agree(answer, self.model.requeue(job_id, fully), "requeue")

    @precondition(lambda self: any(job.is_retakeable for job in self.model.jobs.values()))
    @rule(pick=picks, delay_ms=delays)
    def report_late(self, pick: int, delay_ms: int) -> None:
        """The holder of an overdue retake job has failed and wants it retried."""
        overdue = [job for job in self.model.jobs.values() if job.is_retakeable]
        job = overdue[pick % len(overdue)]
        request = Fail(id=job.id, token=job.token, then="retry", delay_ms=delay_ms)
        self.report(self.service.fail, [request], self.model.fail, "fail", "clean")

    @precondition(has_jobs)
    @rule(which=few_picks, changes=edits)
    def edit(self, which: list[int], changes: dict[str, Any]) -> None:
        changes = with_payload(dict(changes))
        if "run_in_ms" in changes:
            changes["run_at_ms"] = self.model.now_ms + changes.pop("run_in_ms")
        requests = [Edit(id=self.id(pick), **changes) for pick in which]
        answers = [said(one) for one in self.service.edit(requests).wait()]
        self.agree(answers, [self.model.edit(one) for one in requests], "edit")

    # Workers as such, and the loops

    @rule(
        worker=st.sampled_from(WORKERS),
        says=st.sampled_from(("register", "beat", "beat_holding", "forget")),
        beat_ms=mostly(1_000, 60_000),
    )
    def worker(self, worker: bytes, says: str, beat_ms: int) -> None:
        if says == "register":
            self.model.workers[worker] = (beat_ms, self.model.now_ms + beat_ms)
            self.agree(self.service.register(worker, WorkerInfo(), beat_ms=beat_ms).wait(), self.model.now_ms)
        elif says == "beat":
            self.beat(worker)
        elif says == "beat_holding":
            self.beat_holding(worker)
        else:
            answer = answered(lambda: self.service.forget(worker).wait())
            self.agree(answer, self.model.forget(worker), "release", "clean")

    def note_beat(self, worker: bytes) -> bool:
        is_known = worker in self.model.workers
        if is_known:
            beat_ms = self.model.workers[worker][0]
            self.model.workers[worker] = (beat_ms, self.model.now_ms + beat_ms)
        return is_known

    def beat_holding(self, worker: bytes) -> None:
        """The heartbeat names every second held job, and the worker gives back the others."""
        held = sorted(self.model.held_by(worker), key=lambda job: job.token)
        named = [job.id for job in held[1::2]]
        is_known, expected = self.note_beat(worker), self.model.unclaimed(worker, named)
        answer = answered(lambda: self.service.beat_holding(worker, named).wait())
        if not is_known:
            self.agree(answer, "unknown_worker")
            return
        leases = sorted(answer.unclaimed, key=lambda lease: lease.token)
        self.agree([lease.token for lease in leases], sorted(job.token for job in expected))
        if leases:
            self.report(self.service.release, leases, self.model.release, "release", "clean")

    def beat(self, worker: bytes) -> None:
        is_known = self.note_beat(worker)
        self.agree([said(one) for one in self.service.beat([worker]).wait()], [False if is_known else "unknown_worker"])

    def promote(self) -> None:
        step = self.service.promote().wait()
        self.agree(step.done, sum(self.model.promote(queue) for queue in (*QUEUES, SOLO)), "promote")
        dues = [job.ready_at for queue in (*QUEUES, SOLO) for job in self.model.of(queue, State.SCHEDULED)]
        assert (step.next_at_ms or FOREVER_MS) <= min(dues, default=FOREVER_MS)

    def recover(self) -> None:
        self.agree(self.service.recover().wait().done, self.model.recover(), "recover", "clean")

    def clean(self) -> None:
        self.agree(self.service.clean().wait().done, self.model.clean(), "clean", "expire")

    def sweep(self) -> None:
        self.agree(self.service.sweep().wait().forgotten, self.model.sweep(), "clean")

    @rule(loop=mostly("recover", "promote", "clean", "sweep"), by_ms=st.sampled_from((0, 0, 1_000, 5_000, 40_000)))
    def tick_more(self, loop: str, by_ms: int) -> None:
        self.tick(loop, by_ms)

    @rule(loop=mostly("recover", "promote", "clean", "sweep"), by_ms=st.sampled_from((0, 0, 1_000, 5_000, 40_000)))
    def tick(self, loop: str, by_ms: int) -> None:
        self.pass_time(by_ms)
        getattr(self, loop)()

    # Reading

    @precondition(has_jobs)
    @rule(pick=picks, consume=st.booleans())
    def result(self, pick: int, consume: bool) -> None:
        job_id = self.id(pick)
        ending = answered(lambda: self.service.result(job_id, consume=consume).wait())
        job = self.model.jobs.get(job_id)
        if job is None:
            self.agree(ending, self.model.missing(job_id))
        elif job.ended_at == 0:
            self.agree(ending, None)
        else:
            last = job.attempts[-1] if job.attempts and job.state is not State.FINISHED else None
            found = ending.last_attempt and (ending.last_attempt.attempt, ending.last_attempt.reason)
            expected = (job.state, job.result, last and last[:2])
            job.result = None if consume else job.result
            self.agree((ending.state, ending.result, found), expected)

    @rule(
        queue=st.sampled_from(QUEUES),
        state=st.sampled_from(("queued", "scheduled", "failed", "history")),
        down=st.booleans(),
    )
    def read(self, queue: str, state: str, down: bool) -> None:
        (stats,) = self.service.stats([queue]).wait()
        takeable = self.model.takeable(queue)
        actual = (stats.queued, stats.scheduled, stats.running, stats.history, stats.bytes)
        counted = [len(self.model.of(queue, *states)) for states in ((State.SCHEDULED,), (*LEASED,))]
        history = self.model.history(queue)
        self.agree(actual, (len(takeable), *counted, len(history), self.model.bytes_of(queue)))
        listed = self.model.of(queue, *(one for one in State if one.label == state))
        if state in ("queued", "history"):
            listed = takeable if state == "queued" else history
        elif state == "failed":
            listed = [job for job in listed if not job.is_history]
        assert sorted(self.pages(queue, state, down)) == sorted(job.id for job in listed)

    def pages(self, queue: str, state: str, down: bool) -> list[bytes]:
        found: list[bytes] = []
        cursor = ""
        while True:
            page = self.service.jobs(Listing(queue=queue, state=state, newest_first=down, most=2, cursor=cursor)).wait()
            found += [job.id for job in page.jobs]
            cursor = page.cursor
            if not cursor:
                return found

    # The end

    def everything_goes(self) -> None:
        """When all jobs are deleted and time has passed, nothing is left but names, counters and what expires."""
        note("everything goes")
        self.pass_time(15 * DAY_MS)
        for loop in (self.recover, self.promote, self.clean, self.sweep):
            loop()
        for job_id in list(self.model.jobs):
            self.agree(
                self.service.delete([job_id], even_leased=True).wait(), [self.model.delete(job_id, True)], "delete"
            )
        self.pass_time(10_000_000)
        for _ in range(2):
            self.recover()
            self.promote()
            self.clean()
        while callbacks := self.service.take_callbacks(most=100).wait().callbacks:
            self.service.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in callbacks]).wait()
        self.model.pending_callbacks.clear()
        self.recover()
        lasting = (
            "q:", "m:", "ended:", "bell:", "waiters:", "queues", "seq", "token", "debts", "events", "followed"
        )  # fmt: skip
        left = [key for key in self.seen.values if not key.startswith(lasting)]
        assert not left, f"left behind: {left}"


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    kind: Any = ENGINE
    with EngineProcess(kind, config=("--save", "", "--appendonly", "no")) as process, frozen_time():
        yield process


def test_the_engine_does_what_the_model_says(engine: EngineProcess) -> None:
    run_state_machine_as_test(lambda: Machine(engine), settings=SETTINGS)
