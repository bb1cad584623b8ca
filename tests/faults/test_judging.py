"""The rules, on histories that a model made: a right one has no finding, however its calls overlap and its answers get
lost; each kind of damage has the finding that is meant for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.history import CallName, Entry, Seen
from faults.judging import Final, Indexed, judge_entries
from faults.judging.final import FinalJob
from faults.judging.indexed import Deed, JobHistory, Lease
from tests.faults.right_history import CAP, CAPPED, LEASE_MS, MS, PROMISES, Model

seeds = st.integers(0, 2**32)
IS_DEEP = bool(os.environ.get("WINDLASS_DEEP"))
TRIES = 30
STEPS = 150


def rules_of(entries: list[Entry], final: Final) -> set[str]:
    return {finding.rule for finding in judge_entries(entries, final, PROMISES)}


@given(seed=seeds, steps=st.integers(1, 250))
@settings(max_examples=2_000 if IS_DEEP else 50)
def test_right_history_has_no_finding(seed: int, steps: int) -> None:
    model = Model(seed, steps)
    assert judge_entries(model.entries, model.final(), PROMISES) == []


# Kinds of damage


class NotFit(Exception):
    """This history has no place for such damage."""


def need(found: object) -> None:
    if not found:
        raise NotFit


class Damage:
    """A right history on its way to be a wrong one."""

    def __init__(self, seed: int) -> None:
        self.model = Model(seed, STEPS)
        self.entries = list(self.model.entries)
        self.final = self.model.final()
        self.index = Indexed(self.entries)

    def some_job(self, is_fit: Callable[[JobHistory], Any]) -> JobHistory:
        fit = [job for job in self.index.jobs.values() if is_fit(job)]
        need(fit)
        return self.model.draw.choice(fit)

    def add(
        self, client: str, call: CallName, from_ns: int, until_ns: int, asked: list[Seen], told: list[Seen]
    ) -> None:
        for phase, at_ns, jobs in (("begun", from_ns, asked), ("ok", until_ns, told)):
            self.entries.append(
                Entry(at_ns=at_ns, client=client, n=1, call=call, phase=phase, jobs=tuple(jobs))  # type: ignore[arg-type]
            )

    def change(self, deed: Deed, **fields: Any) -> None:
        """What the answer says of this job."""
        answer = deed.call.answer
        assert answer is not None
        jobs = list(answer.jobs)
        jobs[deed.place] = msgspec.structs.replace(jobs[deed.place], **fields)
        self.entries[self.entries.index(answer)] = msgspec.structs.replace(answer, jobs=tuple(jobs))

    def take_out(self, deeds: list[Deed]) -> None:
        gone = [entry for deed in deeds for entry in deed.call.entries]
        self.entries = [entry for entry in self.entries if entry not in gone]


def finish_of(job: JobHistory) -> Deed | None:
    return next((one for one in job.of("finish") if one.is_ok), None)


def was_accepted(job: JobHistory) -> bool:
    return any(one.is_ok for one in job.enqueues)


def quiet_lease(job: JobHistory) -> Lease | None:
    """One that nobody ended for a while after it was given, and that was the last."""
    if not job.leases or any(one.phase != "ok" for one in job.deeds):
        return None
    last = job.leases[-1]
    ends = [one.begun_ns for one in job.deeds if one.answered_ns > last.given.begun_ns]
    return last if min(ends, default=0) > last.given.answered_ns + 1_000 else None


def finished_job_unsaid(damage: Damage) -> None:
    job = damage.some_job(lambda one: finish_of(one) and not one.of("cancel") and was_accepted(one))
    damage.take_out([*job.of("finish"), *job.of("callback")])


def failed_job_gone(damage: Damage) -> None:
    failed = [one for one in damage.final.jobs.values() if one.state == "failed"]
    jobs = {job.job for job in damage.index.jobs.values() if not job.of("finish", "cancel", "callback")}
    fit = [one.id for one in failed if one.id in jobs and was_accepted(damage.index.jobs[one.id])]
    need(fit)
    damage.final.jobs = {name: one for name, one in damage.final.jobs.items() if name != fit[0]}


def second_lease(damage: Damage) -> None:
    job = damage.some_job(quiet_lease)
    lease = job.leases[-1]
    at_ns = lease.given.answered_ns
    seen = msgspec.structs.replace(lease.given.seen, token=lease.token + 100_000, attempt=lease.given.seen.attempt + 1)
    damage.add("thief", "take", at_ns + 1, at_ns + 2, [], [seen])


def token_given_twice(damage: Damage) -> None:
    job = damage.some_job(lambda one: one.leases)
    lease = job.leases[-1]
    damage.add("thief", "take", lease.given.begun_ns, lease.given.answered_ns, [], [lease.given.seen])


def run_under_a_token_of_others(damage: Damage) -> None:
    job = damage.some_job(lambda job: [lease for lease in job.leases if lease.token])
    given = next(lease for lease in job.leases if lease.token).given
    seen = Seen(id=given.seen.id, token=given.seen.token)
    damage.add("app", "run", given.answered_ns + MS, given.answered_ns + 2 * MS, [seen], [])


def run_twice_under_one_token(damage: Damage) -> None:
    job = damage.some_job(lambda job: job.leases)
    seen, at_ns = Seen(id=job.leases[-1].given.seen.id, token=10**9), job.leases[-1].given.answered_ns
    damage.add("app", "run", at_ns + MS, at_ns + 2 * MS, [seen], [])
    damage.add("other app", "run", at_ns + 3 * MS, at_ns + 4 * MS, [seen], [])


def stale_report_accepted(damage: Damage) -> None:
    job = damage.some_job(lambda one: len(one.leases) > 1)
    earlier, later = job.leases[-2:]
    seen = Seen(id=job.job, token=earlier.token)
    at_ns = later.given.answered_ns
    damage.add("zombie", "extend", at_ns + 1, at_ns + 2, [seen], [Seen(lease_until_ms=1)])


def finished_again(damage: Damage) -> None:
    job = damage.some_job(finish_of)
    finish = finish_of(job)
    assert finish is not None
    seen = Seen(id=job.job, token=finish.seen.token)
    damage.add("other", "finish", finish.begun_ns, finish.answered_ns, [seen], [Seen(outcome="finished")])


def taken_after_cancel(damage: Damage) -> None:
    job = damage.some_job(lambda one: any(deed.is_ok and deed.seen.outcome == "cancelled" for deed in one.of("cancel")))
    cancel = next(deed for deed in job.of("cancel") if deed.is_ok and deed.seen.outcome == "cancelled")
    at_ns = cancel.answered_ns
    damage.add("other", "take", at_ns + 1, at_ns + 2, [], [Seen(id=job.job, token=10**6)])


def finished_after_cancel(damage: Damage) -> None:
    job = damage.some_job(finish_of)
    finish = finish_of(job)
    assert finish is not None
    at_ns = finish.answered_ns
    damage.add("other", "cancel", at_ns + 1, at_ns + 2, [Seen(id=job.job)], [Seen(outcome="cancelled")])


def too_many_at_once(damage: Damage) -> None:
    at_ns = damage.entries[-1].at_ns
    for number in range(CAP + 1):
        seen = Seen(id=f"{number + 10**6:032x}", token=10**6 + number, lease_ms=LEASE_MS, limit_keys=(CAPPED,))
        damage.add(f"extra-{number}", "take", at_ns + number, at_ns + MS + number, [], [seen])


def fired_twice(damage: Damage) -> None:
    for number in range(2):
        seen = Seen(id=f"{number + 10**6:032x}", schedule="each second", planned_at_ms=1_000)
        damage.add(f"watch-{number}", "fire", number, number + 1, [seen], [seen])


def callback_changed(damage: Damage) -> None:
    job = damage.some_job(lambda one: len(one.of("callback")) > 1)
    deed = job.of("callback")[0]
    at = damage.entries.index(deed.call.begun)
    jobs = tuple(msgspec.structs.replace(one, digest="other") for one in deed.call.begun.jobs)
    damage.entries[at] = msgspec.structs.replace(deed.call.begun, jobs=jobs)


def callback_never_came(damage: Damage) -> None:
    job = damage.some_job(lambda one: finish_of(one) and one.of("callback") and was_accepted(one))
    damage.take_out(job.of("callback"))


def places_exchanged(damage: Damage) -> None:
    """Of two that were enqueued one after the other, and given one after the other, first leases both."""
    line = [
        job
        for job in damage.index.jobs.values()
        if job.leases and was_accepted(job) and job.enqueues[0].seen.queue == "ordered"
        and job.leases[0].given.seen.attempt == 1
    ]  # fmt: skip
    line.sort(key=lambda one: one.enqueues[0].begun_ns)
    need(len(line) > 1)
    first, last = line[0], line[-1]
    need(first.enqueues[0].answered_ns < last.enqueues[0].begun_ns)
    early, late = first.leases[0].given, last.leases[0].given
    need(early.answered_ns < late.begun_ns)
    damage.change(early, id=last.job, key=late.seen.key)
    damage.change(late, id=first.job, key=early.seen.key)


def taken_after_its_end(damage: Damage) -> None:
    job = damage.some_job(finish_of)
    finish = finish_of(job)
    assert finish is not None
    at_ns = finish.answered_ns
    damage.add("other", "take", at_ns + 1, at_ns + 2, [], [Seen(id=job.job, token=10**6)])


def attempt_not_counted(damage: Damage) -> None:
    job = damage.some_job(lambda one: len(one.leases) > 1 and not one.of("release"))
    earlier, later = job.leases[-2:]
    damage.change(later.given, attempt=earlier.given.seen.attempt)


def attempt_too_many(damage: Damage) -> None:
    job = damage.some_job(lambda one: one.leases and one.enqueues and one.enqueues[0].seen.tries)
    damage.change(job.leases[-1].given, attempt=job.enqueues[0].seen.tries + 1)


def keys_disagree(damage: Damage) -> None:
    damage.final.doctor = ("ghost: entries without a job (1)",)


def made_twice(damage: Damage) -> None:
    job = damage.some_job(was_accepted)
    damage.add("other", "take", 1, 2, [], [Seen(id=f"{10**6:032x}", key=job.enqueues[0].seen.key, token=10**6)])


def still_queued(damage: Damage) -> None:
    damage.final.jobs = {**damage.final.jobs, "x": FinalJob(id="x", queue="plain", state="queued")}


def limit_still_held(damage: Damage) -> None:
    damage.final.limits = {"of a group": 1}


Kind: TypeAlias = Callable[[Damage], None]
KINDS: tuple[tuple[Kind, str], ...] = (
    (finished_job_unsaid, "lost"),
    (failed_job_gone, "lost"),
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
    (callback_never_came, "callback missing"),
    (places_exchanged, "out of order"),
    (taken_after_its_end, "ran after its end"),
    (attempt_not_counted, "attempts miscounted"),
    (attempt_too_many, "attempts miscounted"),
    (keys_disagree, "doctor"),
    (made_twice, "made twice"),
    (still_queued, "left behind"),
    (limit_still_held, "left behind"),
)


@pytest.mark.parametrize(("kind", "rule"), KINDS, ids=lambda one: getattr(one, "__name__", one))
@given(seed=seeds)
@settings(max_examples=200 if IS_DEEP else 6)
def test_damage_is_found(kind: Kind, rule: str, seed: int) -> None:
    damage = damaged(kind, seed)
    assert rule in rules_of(damage.entries, damage.final)


def damaged(kind: Kind, seed: int) -> Damage:
    """The first history from this seed on that has a place for it."""
    for one in range(seed, seed + TRIES):
        with contextlib.suppress(NotFit):
            damage = Damage(one)
            kind(damage)
            return damage
    raise AssertionError(f"No history of {TRIES} has a place for {kind.__name__}.")
