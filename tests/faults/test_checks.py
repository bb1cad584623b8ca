"""The rules on histories of a model: a correct history has no finding, and each kind of damage has its finding.

Calls of the model overlap, and some answers get lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.checks import FinalState, HistoryIndex, check_entries
from faults.checks.final_state import FinalJob
from faults.checks.history_index import JobCall, JobHistory, Lease
from faults.history import CallName, Entry, JobFacts
from tests.faults.history_model import CAP, CAPPED, GUARANTEES, LEASE_MS, MS, Model

seeds = st.integers(0, 2**32)
IS_DEEP = bool(os.environ.get("WINDLASS_DEEP"))
TRIES = 30
STEPS = 150


def rules_of(entries: list[Entry], final: FinalState) -> set[str]:
    return {finding.rule for finding in check_entries(entries, final, GUARANTEES)}


@given(seed=seeds, steps=st.integers(1, 250))
@settings(max_examples=2_000 if IS_DEEP else 50)
def test_a_correct_history_has_no_finding(seed: int, steps: int) -> None:
    model = Model(seed, steps)
    assert check_entries(model.entries, model.final(), GUARANTEES) == []


# Kinds of damage


class Unsuitable(Exception):
    """A history that cannot have this damage."""


def require(found: object) -> None:
    if not found:
        raise Unsuitable


class Damage:
    """A correct history that is made wrong."""

    def __init__(self, seed: int) -> None:
        self.model = Model(seed, STEPS)
        self.entries = list(self.model.entries)
        self.final = self.model.final()
        self.index = HistoryIndex(self.entries)

    def some_job(self, is_suitable: Callable[[JobHistory], Any]) -> JobHistory:
        suitable = [job for job in self.index.jobs.values() if is_suitable(job)]
        require(suitable)
        return self.model.rng.choice(suitable)

    def add(
        self,
        client: str,
        call: CallName,
        from_ns: int,
        until_ns: int,
        requested: list[JobFacts],
        answered: list[JobFacts],
    ) -> None:
        for phase, at_ns, jobs in (("begun", from_ns, requested), ("ok", until_ns, answered)):
            self.entries.append(
                Entry(at_ns=at_ns, client=client, n=1, call=call, phase=phase, jobs=tuple(jobs))  # type: ignore[arg-type]
            )

    def change(self, call: JobCall, **fields: Any) -> None:
        """Change the answer for one job of a call."""
        answer = call.call.answer
        assert answer is not None
        jobs = list(answer.jobs)
        jobs[call.position] = msgspec.structs.replace(jobs[call.position], **fields)
        self.entries[self.entries.index(answer)] = msgspec.structs.replace(answer, jobs=tuple(jobs))

    def remove(self, calls: list[JobCall]) -> None:
        removed = [entry for call in calls for entry in call.entries]
        self.entries = [entry for entry in self.entries if entry not in removed]


def finish_of(job: JobHistory) -> JobCall | None:
    return next((call for call in job.calls_named("finish") if call.is_ok), None)


def was_accepted(job: JobHistory) -> bool:
    return any(enqueue.is_ok for enqueue in job.enqueues)


def cancel_of(job: JobHistory) -> JobCall | None:
    cancels = (call for call in job.calls_named("cancel") if call.is_ok and call.facts.outcome == "cancelled")
    return next(cancels, None)


def quiet_lease(job: JobHistory) -> Lease | None:
    """Return the last lease of a job if no call about it began for a while after the grant."""
    if not job.leases or any(call.phase != "ok" for call in job.calls):
        return None
    last = job.leases[-1]
    ends = [call.begun_ns for call in job.calls if call.answered_ns > last.grant.begun_ns]
    return last if min(ends, default=0) > last.grant.answered_ns + 1_000 else None


def finish_removed(damage: Damage) -> None:
    job = damage.some_job(lambda job: finish_of(job) and not job.calls_named("cancel") and was_accepted(job))
    damage.remove([*job.calls_named("finish"), *job.calls_named("callback")])


def failed_job_removed(damage: Damage) -> None:
    failed = [job for job in damage.final.jobs.values() if job.state == "failed"]
    without_end = {
        job.job_id for job in damage.index.jobs.values() if not job.calls_named("finish", "cancel", "callback")
    }
    suitable = [job.id for job in failed if job.id in without_end and was_accepted(damage.index.jobs[job.id])]
    require(suitable)
    damage.final.jobs = {job_id: job for job_id, job in damage.final.jobs.items() if job_id != suitable[0]}


def second_lease(damage: Damage) -> None:
    job = damage.some_job(quiet_lease)
    lease = job.leases[-1]
    at_ns = lease.grant.answered_ns
    facts = msgspec.structs.replace(
        lease.grant.facts, token=lease.token + 100_000, attempt=lease.grant.facts.attempt + 1
    )
    damage.add("thief", "take", at_ns + 1, at_ns + 2, [], [facts])


def token_given_twice(damage: Damage) -> None:
    job = damage.some_job(lambda job: job.leases)
    lease = job.leases[-1]
    damage.add("thief", "take", lease.grant.begun_ns, lease.grant.answered_ns, [], [lease.grant.facts])


def run_under_a_token_of_others(damage: Damage) -> None:
    job = damage.some_job(lambda job: [lease for lease in job.leases if lease.token])
    grant = next(lease for lease in job.leases if lease.token).grant
    facts = JobFacts(id=grant.facts.id, token=grant.facts.token)
    damage.add("app", "run", grant.answered_ns + MS, grant.answered_ns + 2 * MS, [facts], [])


def run_twice_under_one_token(damage: Damage) -> None:
    job = damage.some_job(lambda job: job.leases)
    facts, at_ns = JobFacts(id=job.leases[-1].grant.facts.id, token=10**9), job.leases[-1].grant.answered_ns
    damage.add("app", "run", at_ns + MS, at_ns + 2 * MS, [facts], [])
    damage.add("other app", "run", at_ns + 3 * MS, at_ns + 4 * MS, [facts], [])


def stale_report_accepted(damage: Damage) -> None:
    job = damage.some_job(lambda job: len(job.leases) > 1)
    earlier, later = job.leases[-2:]
    facts = JobFacts(id=job.job_id, token=earlier.token)
    at_ns = later.grant.answered_ns
    damage.add("zombie", "extend", at_ns + 1, at_ns + 2, [facts], [JobFacts(lease_until_ms=1)])


def finished_again(damage: Damage) -> None:
    job = damage.some_job(finish_of)
    finish = finish_of(job)
    assert finish is not None
    facts = JobFacts(id=job.job_id, token=finish.facts.token)
    damage.add("other", "finish", finish.begun_ns, finish.answered_ns, [facts], [JobFacts(outcome="finished")])


def taken_after_cancel(damage: Damage) -> None:
    job = damage.some_job(cancel_of)
    cancel = cancel_of(job)
    assert cancel is not None
    at_ns = cancel.answered_ns
    damage.add("other", "take", at_ns + 1, at_ns + 2, [], [JobFacts(id=job.job_id, token=10**6)])


def finished_after_cancel(damage: Damage) -> None:
    job = damage.some_job(finish_of)
    finish = finish_of(job)
    assert finish is not None
    at_ns = finish.answered_ns
    facts = JobFacts(id=job.job_id)
    damage.add("other", "cancel", at_ns + 1, at_ns + 2, [facts], [JobFacts(outcome="cancelled")])


def too_many_at_once(damage: Damage) -> None:
    at_ns = damage.entries[-1].at_ns
    for number in range(CAP + 1):
        facts = JobFacts(id=f"{number + 10**6:032x}", token=10**6 + number, lease_ms=LEASE_MS, limit_keys=(CAPPED,))
        damage.add(f"extra-{number}", "take", at_ns + number, at_ns + MS + number, [], [facts])


def fired_twice(damage: Damage) -> None:
    for number in range(2):
        facts = JobFacts(id=f"{number + 10**6:032x}", schedule="each second", planned_at_ms=1_000)
        damage.add(f"watch-{number}", "fire", number, number + 1, [facts], [facts])


def callback_changed(damage: Damage) -> None:
    job = damage.some_job(lambda job: len(job.calls_named("callback")) > 1)
    begun = job.calls_named("callback")[0].call.begun
    at = damage.entries.index(begun)
    jobs = tuple(msgspec.structs.replace(facts, digest="other") for facts in begun.jobs)
    damage.entries[at] = msgspec.structs.replace(begun, jobs=jobs)


def callback_removed(damage: Damage) -> None:
    job = damage.some_job(lambda job: finish_of(job) and job.calls_named("callback") and was_accepted(job))
    damage.remove(job.calls_named("callback"))


def positions_exchanged(damage: Damage) -> None:
    """Exchange two jobs that were enqueued, and first given, one after the other."""
    line = [
        job
        for job in damage.index.jobs.values()
        if job.leases and was_accepted(job) and job.enqueues[0].facts.queue == "ordered"
        and job.leases[0].grant.facts.attempt == 1
    ]  # fmt: skip
    line.sort(key=lambda job: job.enqueues[0].begun_ns)
    require(len(line) > 1)
    first, last = line[0], line[-1]
    require(first.enqueues[0].answered_ns < last.enqueues[0].begun_ns)
    early, late = first.leases[0].grant, last.leases[0].grant
    require(early.answered_ns < late.begun_ns)
    damage.change(early, id=last.job_id, key=late.facts.key)
    damage.change(late, id=first.job_id, key=early.facts.key)


def taken_after_its_end(damage: Damage) -> None:
    job = damage.some_job(finish_of)
    finish = finish_of(job)
    assert finish is not None
    at_ns = finish.answered_ns
    damage.add("other", "take", at_ns + 1, at_ns + 2, [], [JobFacts(id=job.job_id, token=10**6)])


def attempt_not_counted(damage: Damage) -> None:
    job = damage.some_job(lambda job: len(job.leases) > 1 and not job.calls_named("release"))
    earlier, later = job.leases[-2:]
    damage.change(later.grant, attempt=earlier.grant.facts.attempt)


def attempt_too_many(damage: Damage) -> None:
    job = damage.some_job(lambda job: job.leases and job.enqueues and job.enqueues[0].facts.tries)
    damage.change(job.leases[-1].grant, attempt=job.enqueues[0].facts.tries + 1)


def keys_disagree(damage: Damage) -> None:
    damage.final.doctor = ("ghost: entries without a job (1)",)


def made_twice(damage: Damage) -> None:
    job = damage.some_job(was_accepted)
    facts = JobFacts(id=f"{10**6:032x}", key=job.enqueues[0].facts.key, token=10**6)
    damage.add("other", "take", 1, 2, [], [facts])


def still_queued(damage: Damage) -> None:
    damage.final.jobs = {**damage.final.jobs, "x": FinalJob(id="x", queue="plain", state="queued")}


def limit_still_held(damage: Damage) -> None:
    damage.final.limits = {"of a group": 1}


Kind: TypeAlias = Callable[[Damage], None]
KINDS: tuple[tuple[Kind, str], ...] = (
    (finish_removed, "lost"),
    (failed_job_removed, "lost"),
    (second_lease, "double lease"),
    (token_given_twice, "double lease"),
    (run_under_a_token_of_others, "double lease"),
    (run_twice_under_one_token, "double lease"),
    (stale_report_accepted, "stale token"),
    (finished_again, "finished twice"),
    (taken_after_cancel, "ran after its cancel"),
    (finished_after_cancel, "ran after its cancel"),
    (too_many_at_once, "limit exceeded"),
    (fired_twice, "fired twice"),
    (callback_changed, "callback changed"),
    (callback_removed, "callback missing"),
    (positions_exchanged, "out of order"),
    (taken_after_its_end, "ran after its end"),
    (attempt_not_counted, "attempts miscounted"),
    (attempt_too_many, "attempts miscounted"),
    (keys_disagree, "doctor"),
    (made_twice, "made twice"),
    (still_queued, "left behind"),
    (limit_still_held, "left behind"),
)


@pytest.mark.parametrize(("kind", "rule"), KINDS, ids=lambda value: getattr(value, "__name__", value))
@given(seed=seeds)
@settings(max_examples=200 if IS_DEEP else 6)
def test_damage_is_found(kind: Kind, rule: str, seed: int) -> None:
    damage = damaged_history(kind, seed)
    assert rule in rules_of(damage.entries, damage.final)


def damaged_history(kind: Kind, first_seed: int) -> Damage:
    """Damage the first suitable history from this seed on."""
    for seed in range(first_seed, first_seed + TRIES):
        with contextlib.suppress(Unsuitable):
            damage = Damage(seed)
            kind(damage)
            return damage
    raise AssertionError(f"None of {TRIES} histories is suitable for {kind.__name__}.")
