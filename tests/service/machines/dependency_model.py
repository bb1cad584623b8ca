"""Model of dependencies in plain Python: states and links only, no scores, no steps, no engine. Consequences of a
change come after it, as in the engine: an end is reported after the call that caused it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from windlass.core.job import NewJob
from windlass.core.states import ENDED, LEASED, State

LEASE_MS = 30_000


@dataclass
class DependencyJob:
    id: bytes
    state: State
    run_at: int
    parent: bytes | None = None
    policy: str = "collect"
    tries: int = 0
    is_held: bool = False
    joins: bool = False
    attempt: int = 0
    token: int = 0
    is_asked_to_stop: bool = False
    members: set[bytes] = field(default_factory=set)
    deleted: dict[bytes, State] = field(default_factory=dict)  # awaited and deleted: their end, or as if cancelled
    awaits_only: bool = False  # none of its members is its child
    is_linked: bool = False  # it has members; an ended job that awaits only keeps them
    is_consequence: bool = False
    dependents: set[bytes] = field(default_factory=set)


class DependencyModel:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.jobs: dict[bytes, DependencyJob] = {}
        self.gone: set[bytes] = set()
        self.is_ambiguous = False  # members ended differently in one call: which end decides is not promised
        self._later: deque[Callable[[], None]] = deque()
        self._looks: dict[bytes, bool] = {}

    # Looking

    def alive(self, job_id: bytes | None) -> DependencyJob | None:
        job = self.jobs.get(job_id) if job_id else None
        return job if job and job.state not in ENDED else None

    def is_needed(self, job: DependencyJob) -> bool:
        return bool(job.dependents) or self.alive(job.parent) is not None

    def of(self, owner: DependencyJob, *states: State) -> list[DependencyJob]:
        found = (self.jobs.get(member) for member in sorted(owner.members))
        return [job for job in found if job and job.state in states]

    def pending(self, owner: DependencyJob, *, ignores_waiting: bool = False) -> list[DependencyJob]:
        pending = self.of(owner, *(set(State) - ENDED))
        if not ignores_waiting:
            return pending
        return [job for job in pending if job.state is not State.WAITING or job.parent != owner.id]

    def verdict(self, owner: DependencyJob) -> State | None:
        if owner.policy != "fail":
            return None
        bad = {job.state for job in self.of(owner, State.FAILED, State.CANCELLED)}
        return min(bad | set(owner.deleted.values()), default=None)

    def by_time(self, job: DependencyJob) -> State:
        return State.QUEUED if job.run_at <= self.now_ms else State.SCHEDULED

    def missing(self, job_id: bytes) -> str:
        return "already_ended" if job_id in self.gone else "unknown_job"

    # What follows

    def look(self, job_id: bytes, ignores_waiting: bool = False) -> None:
        self._looks[job_id] = self._looks.get(job_id, True) and ignores_waiting

    def settle(self) -> None:
        for job in self.jobs.values():
            if job.state is State.SCHEDULED:
                job.state = self.by_time(job)
        while self._later or self._looks:
            while self._later:
                self._later.popleft()()
            looks, self._looks = self._looks, {}
            for job_id, ignores_waiting in looks.items():
                self._look(self.jobs.get(job_id), ignores_waiting)

    def _look(self, job: DependencyJob | None, ignores_waiting: bool) -> None:
        if job is None:
            return
        verdict = self.verdict(job)
        if job.is_consequence and not verdict:
            self.reopen(job, State.WAITING)
        if job.state is not State.WAITING:
            return
        if verdict:
            self.is_ambiguous |= len({one.state for one in self.of(job, State.FAILED, State.CANCELLED)}) > 1
            self.end(job, verdict, is_consequence=job.awaits_only)
        elif not job.is_held and not self.pending(job, ignores_waiting=ignores_waiting):
            self.end_wait(job)

    def end_wait(self, job: DependencyJob) -> str:
        if job.joins:
            self.end(job, State.FINISHED)
            return "finished"
        job.state, job.is_held = self.by_time(job), False
        return job.state.label

    def reopen(self, job: DependencyJob, state: State) -> None:
        job.state, job.attempt, job.token, job.is_consequence = state, 0, 0, False
        for waiter in job.dependents:
            self.look(waiter)

    def end(
        self, job: DependencyJob, state: State, *, reaches_all: bool = False, ignores_waiting: bool = False,
        is_consequence: bool = False,
    ) -> None:  # fmt: skip
        job.state, job.is_held, job.is_asked_to_stop = state, False, False
        job.is_consequence = is_consequence
        if not job.awaits_only or state is State.FINISHED or reaches_all:
            job.is_linked = False
            self._later.append(lambda: self._part(job, reaches_all))
        if not self.is_needed(job):
            self.leave_behind(job)
        if self.alive(job.parent):
            self.look(job.parent, ignores_waiting)  # type: ignore[arg-type]
        for waiter in job.dependents:
            self.look(waiter)

    def leave_behind(self, job: DependencyJob, is_spent: bool = False) -> None:
        if job.state is State.FINISHED or (is_spent and job.state is State.CANCELLED):
            self.remove(job)

    def remove(self, job: DependencyJob) -> None:
        del self.jobs[job.id]
        self.gone.add(job.id)
        if job.state in ENDED and job.is_linked:
            self._later.append(lambda: self._orphan(job))

    def drop_culprits(self, job: DependencyJob) -> None:
        """Cut the links to members that would end the job again."""
        job.deleted = {}
        if job.policy != "fail":
            return
        for member in self.of(job, State.FAILED, State.CANCELLED):
            self._later.append(lambda member=member: self._let_go(job, member, False))  # type: ignore[misc]
            job.members.discard(member.id)

    def _part(self, owner: DependencyJob, reaches_all: bool) -> None:
        """Cut the links of an ended job: its children are cancelled unless it finished, and it has no members any
        more."""
        is_spent = owner.state is State.FINISHED
        for member in [self.jobs[one] for one in sorted(owner.members) if one in self.jobs]:
            is_child = member.parent == owner.id
            self.is_ambiguous |= is_child and not is_spent and member.is_consequence
            self._let_go(owner, member, is_spent)
            if member.state not in ENDED and not is_spent and (is_child or reaches_all):
                # By this end, or by that of what it waits for: whichever comes first.
                awaits = any(job.parent != member.id for job in self.of(member, *State))
                self.is_ambiguous |= member.state is State.WAITING and awaits
                self.cancel_job(member)
        owner.members, owner.deleted = set(), {}

    def _let_go(self, owner: DependencyJob, member: DependencyJob, is_spent: bool) -> None:
        owner.members.discard(member.id)
        is_child = member.parent == owner.id
        if is_child:
            member.parent = None
        member.dependents.discard(owner.id)
        if member.state in ENDED and not self.is_needed(member):
            self.leave_behind(member, is_spent and is_child)

    def let_start(self, child: DependencyJob) -> None:
        child.is_held = False
        if child.members or child.deleted or child.joins:
            self.look(child.id)
        else:
            self.end_wait(child)

    def cancel_job(self, job: DependencyJob, *, ignores_waiting: bool = False) -> str:
        if job.state in LEASED:
            job.is_asked_to_stop = True
            return "requested"
        self.end(job, State.CANCELLED, reaches_all=job.joins, ignores_waiting=ignores_waiting)
        return "cancelled"

    # What may be asked

    def enqueue(self, new: NewJob) -> str:
        parent = self.jobs.get(new.parent)
        if new.parent and parent is None:
            return "parent_state" if new.parent in self.gone else "unknown_parent"
        if parent and parent.state is not State.WAITING and parent.state not in LEASED:
            return "parent_state"
        if any(one not in self.jobs and one not in self.gone for one in new.after):
            return "unknown_member"
        job = DependencyJob(new.id, State.WAITING, new.run_at_ms or self.now_ms, new.parent or None)
        job.policy = new.on_failure or ("fail" if new.after or new.joins else "collect")
        job.tries, job.joins = new.retry.tries, new.joins
        job.is_held = new.held and parent is not None and parent.state in LEASED
        self.jobs[job.id] = job
        for member in (one for one in new.after if one in self.jobs):
            job.members.add(member)
            job.is_linked = job.awaits_only = True
            self.jobs[member].dependents.add(job.id)
        if parent:
            parent.members.add(job.id)
            parent.is_linked, parent.awaits_only = True, False
        if not (job.is_held or job.joins or new.after):
            job.state = self.by_time(job)
        self.look(job.id)
        self.settle()
        stored = self.jobs.get(job.id)
        return stored.state.label if stored and stored.state not in ENDED else "ended"

    def take(self, job: DependencyJob, token: int) -> None:
        job.state, job.token, job.attempt = State.RUNNING, token, job.attempt + 1

    def put_back(self, job: DependencyJob) -> None:
        job.state, job.token = self.by_time(job), 0

    def finish(self, job: DependencyJob) -> str | None:
        verdict = self.verdict(job)
        pending = self.pending(job)
        if verdict or (pending and job.is_asked_to_stop):
            self.end(job, verdict or State.CANCELLED, is_consequence=verdict is not None and job.awaits_only)
            return job.state.label
        job.deleted = {}
        if not pending:
            self.end(job, State.FINISHED)
            return None
        job.state, job.token, job.attempt = State.WAITING, 0, 0
        for member in self.of(job, State.FINISHED, State.CANCELLED):
            self._let_go(job, member, True)
        for member in self.of(job, State.WAITING):
            if member.parent == job.id and member.is_held:
                self.let_start(member)
        return "waiting"

    def fail(self, job: DependencyJob, then: str) -> str:
        if then == "cancelled" or (then == "retry" and job.is_asked_to_stop):
            self.end(job, State.CANCELLED)
            return "cancelled"
        if then == "final":
            self.end(job, State.FAILED)
            return "failed"
        job.run_at = self.now_ms
        self.put_back(job)
        return "retried"

    def release(self, job: DependencyJob) -> str:
        if job.is_asked_to_stop:
            self.end(job, State.CANCELLED)
            return "cancelled"
        job.attempt -= 1
        self.put_back(job)
        return job.state.label

    def lose_leases(self) -> None:
        for job in [job for job in self.jobs.values() if job.state in LEASED]:
            if job.is_asked_to_stop:
                self.end(job, State.CANCELLED)
            elif 0 < job.tries <= job.attempt:
                self.end(job, State.FAILED)
            else:
                self.put_back(job)

    def cancel(self, job_id: bytes, counts_waiting: bool) -> str:
        job = self.jobs.get(job_id)
        if job is None or job.state in ENDED:
            return "already_ended" if job else self.missing(job_id)
        return self.cancel_job(job, ignores_waiting=not counts_waiting)

    def requeue(self, job_id: bytes) -> str:
        job = self.jobs.get(job_id)
        if job is None or job.joins:
            return "wrong_state" if job else self.missing(job_id)
        if job.state in ENDED:
            if job.is_linked:
                self.drop_culprits(job)
            job.run_at = self.now_ms
            self.reopen(job, State.QUEUED)
        job.state, job.token, job.is_held, job.is_asked_to_stop = State.QUEUED, 0, False, False
        job.run_at = min(job.run_at, self.now_ms)
        return "queued"

    def retry(self, job_id: bytes) -> str:
        job = self.jobs.get(job_id)
        if job is None:
            return self.missing(job_id)
        if job.state not in (State.FAILED, State.CANCELLED):
            return "wrong_state"
        if job.is_linked:
            if job.policy == "fail" and self.of(job, State.FAILED, State.CANCELLED):
                return "member_failed"
            if job.joins and self.verdict(job):
                return "wrong_state"
            if job.joins or self.pending(job):
                self.drop_culprits(job)
                job.run_at = self.now_ms
                self.reopen(job, State.WAITING)
                self.look(job.id)
                return "waiting"
        return self.requeue(job_id)

    def wake(self, job_id: bytes) -> str:
        job = self.jobs.get(job_id)
        if job is None or job.state is not State.WAITING:
            return "wrong_state" if job else self.missing(job_id)
        return self.end_wait(job)

    def delete(self, job_id: bytes) -> str:
        job = self.jobs.get(job_id)
        if job is None:
            return self.missing(job_id)
        self.remove(job)
        parent = self.alive(job.parent)
        if parent:
            parent.members.discard(job_id)
        for waiter in (self.jobs[one] for one in job.dependents if one in self.jobs):
            waiter.members.discard(job_id)
            if job.state is not State.FINISHED:
                waiter.deleted[job_id] = job.state if job.state in ENDED else State.CANCELLED
                self.look(waiter.id)
        if job.state not in ENDED:
            self._later.append(lambda: self._orphan(job))
        return "deleted"

    def _orphan(self, owner: DependencyJob) -> None:
        for member in [self.jobs[one] for one in sorted(owner.members) if one in self.jobs]:
            is_child = member.parent == owner.id
            self._let_go(owner, member, False)
            if is_child and member.is_held:
                self.let_start(member)

    def everything(self) -> dict[bytes, tuple[Any, ...]]:
        return {
            job.id: (
                job.state,
                self.alive(job.parent) and job.parent,
                job.is_held,
                job.is_asked_to_stop,
                job.attempt,
                job.is_consequence,
            )
            for job in self.jobs.values()
        }
