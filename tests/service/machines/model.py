"""Model of the queue in plain Python over one dictionary: no indexes, no lanes, no engine. It follows the design and
the table of moves. The caller sets `now_ms`; answers are the service's, refusals are their codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tests.service.machines.ledger import SWEPT, Ledger, ModelJob, identity_of
from windlass.core.job import NewJob
from windlass.core.log import Log
from windlass.core.operations import Edit, Edited, Enqueued, Extended, Fail, Finish, LeaseRef, Take, Update, Updated
from windlass.core.queue import FOREVER_MS, Configuration
from windlass.core.states import ENDED, LEASED, PENDING, State
from windlass.core.text.durations import INSTANT_MAX
from windlass.store.records.record import pack

SETTLED_MS = 2_000  # as in lua/lib/leases/reports.lua


class Model(Ledger):
    # Producers

    def enqueue(self, news: Sequence[NewJob]) -> list[Enqueued | str]:
        first = self.sequence + 1
        self.sequence += len(news)
        had_ended = [self.missing(new.id) == "already_ended" for new in news]
        return [self._enqueue(new, first + at, had_ended[at]) for at, new in enumerate(news)]

    def _enqueue(self, new: NewJob, sequence: int, has_ended: bool) -> Enqueued | str:
        known = self.jobs.get(new.id)
        if known:
            is_same = known.identity == identity_of(new)
            return Enqueued(new.id, "existing", known.revision) if is_same else "id_conflict"
        if has_ended:
            return Enqueued(new.id, "ended", 0)
        holders = self.holders(new.queue, new.unique) if new.unique and new.unique_check != "none" else []
        if holders and new.unique_check == "keep":
            return Enqueued(holders[0].id, "existing", holders[0].revision)
        return self._replace(holders[0], new) if holders else self._add(new, sequence)

    def _add(self, new: NewJob, sequence: int) -> Enqueued | str:
        ready_at = self.now_ms + new.delay_ms if new.delay_ms else new.run_at_ms or self.now_ms
        expires_at = self.now_ms + new.expires_in_ms if new.expires_in_ms else new.expires_at_ms
        job = ModelJob(new.id, new, identity_of(new), sequence, self.now_ms, ready_at, expires_at)
        config = self.config(new.queue)
        waiting = len(self.takeable(new.queue)) + len(self.of(new.queue, State.SCHEDULED, State.WAITING))
        if 0 < config.max_length <= waiting or 0 < config.max_bytes < self.bytes_of(new.queue) + job.size:
            return "queue_full"
        job.holds_unique = bool(new.unique)
        job.planned_at = ready_at if new.delay_ms or new.run_at_ms else self.now_ms
        self.move(job, "enqueue", self.by_time(job))
        self.jobs[job.id] = job
        self.queues.add(new.queue)
        return Enqueued(job.id, "queued" if job.state is State.QUEUED else "scheduled", 1)

    def _replace(self, job: ModelJob, new: NewJob) -> Enqueued | str:
        if new.if_revision not in (0, job.revision):
            return "revision_conflict"
        max_bytes = self.config(new.queue).max_bytes
        grown = len(pack(new, new.id, 0, new.expires_at_ms or new.expires_in_ms)) - 16 - job.size
        if grown > 0 and job.state not in ENDED and 0 < max_bytes < self.bytes_of(new.queue) + grown:
            return "queue_full"
        planned_at = job.planned_at if job.content.repeat else job.ready_at
        job.planned_at = self.now_ms + new.delay_ms if new.delay_ms else new.run_at_ms or planned_at
        kept = {name: getattr(job.content, name) for name in ("retake", "unique_while_kept")}
        job.content, job.had_expiry = msgspec.structs.replace(new, **kept), False
        if job.state is State.FINISHED and not job.is_history:
            ends_at = job.ended_at + new.result_ttl_ms
            job.removed_at = ends_at if new.result_ttl_ms < FOREVER_MS else FOREVER_MS
        job.expires_at = self.now_ms + new.expires_in_ms if new.expires_in_ms else new.expires_at_ms
        self._reschedule(job, "enqueue", self.now_ms + new.delay_ms if new.delay_ms else new.run_at_ms or None)
        return Enqueued(job.id, "replaced", job.revision)

    def _reschedule(self, job: ModelJob, verb: str, ready_at: int | None) -> None:
        job.revision += 1
        job.ready_at = job.ready_at if ready_at is None else ready_at
        if job.state in (State.QUEUED, State.SCHEDULED):
            self.move(job, verb, self.by_time(job))

    # Workers

    def promote(self, queue: str) -> int:
        due = [job for job in self.of(queue, State.SCHEDULED) if job.ready_at <= self.now_ms]
        for job in due:
            self.move(job, "promote", State.QUEUED)
        return len(due)

    def lose_lease(self, job: ModelJob) -> None:
        tries = job.content.retry.tries
        if job.is_cancel_requested:
            self.log(job, "lease_expired")
            self.end(job, "recover", State.CANCELLED)
        elif job.state is State.DISPATCHED:
            self.give_back(job, "recover")
        elif job.content.retake:
            job.is_retakeable, job.ready_at = True, job.deadline
        else:
            self.log(job, "lease_expired")
            if tries and job.attempt >= tries:
                self.end(job, "recover", State.FAILED)
            else:
                self.put_back(job, "recover")

    def lose_overdue(self, queue: str) -> int:
        overdue = [job for job in self.of(queue, *LEASED) if self.is_overdue(job)]
        for job in overdue:
            self.lose_lease(job)
        return len(overdue)

    def may_start(self, job: ModelJob) -> bool:
        if job.state is State.QUEUED and job.attempt == 0 and 0 < job.expires_at <= self.now_ms:
            self.log(job, "expired")
            self.end(job, "expire", State.FAILED)
        elif job.state is State.RUNNING and 0 < job.content.retry.tries <= job.attempt:
            self.log(job, "lease_expired")
            self.end(job, "take", State.FAILED)
        return job.is_takeable

    def lease_ms(self, job: ModelJob, asked_ms: int) -> int:
        return asked_ms or job.content.lease_ms or self.config(job.content.queue).lease_ms

    def deadline(self, job: ModelJob, asked_ms: int) -> int:
        lease_ms = self.lease_ms(job, asked_ms)
        return self.now_ms + lease_ms if lease_ms < FOREVER_MS else 0

    def lease(self, job: ModelJob, request: Take) -> None:
        self.token += 1
        job.token, job.worker, job.started_at = self.token, request.worker, self.now_ms
        job.attempt, job.progress = job.attempt + 1, 0.0
        job.note, job.note_room = "", 0
        self.move(job, "take", State.DISPATCHED if request.accept_ms else State.RUNNING)
        job.deadline = self.now_ms + request.accept_ms if request.accept_ms else self.deadline(job, request.lease_ms)

    def take(self, request: Take) -> list[ModelJob] | str:
        wanted, taken = request.wants, list[ModelJob]()
        by_name = wanted.only or wanted.all_but or wanted.glob
        if by_name and not all(self.config(queue).name_lanes for queue in request.queues):
            return "names_need_lanes"
        for queue in request.queues:
            if len(taken) < request.most:
                self.promote(queue)
                self.lose_overdue(queue)
            for job in self.takeable(queue, wanted):
                if len(taken) < request.most and self.may_start(job):
                    self.lease(job, request)
                    taken.append(job)
        self.trim()
        return taken

    # Reports

    def held(self, job_id: bytes, token: int) -> ModelJob | str:
        job = self.jobs.get(job_id)
        if job is None:
            return self.missing(job_id)
        if job.state in LEASED and token in (0, job.token):
            return job
        if token == 0:
            return "wrong_state"
        return "already_ended" if job.state in ENDED and token == job.token else "stale_lease"

    def each(self, requests: Iterable[Any], report: Callable[..., Any], *, trims: bool = True) -> list[Any]:
        """Apply reports by held job; refusals stay. A history is trimmed once, at the end of the call."""
        answers = []
        for one in requests:
            job = self.held(one.id, one.token)
            answers.append(job if isinstance(job, str) else report(job, one))
        if trims:
            self.trim()
        return answers

    def accept(self, job: ModelJob, lease_ms: int) -> int | None:
        if job.state is State.DISPATCHED:
            self.move(job, "accept", State.RUNNING)
            job.started_at, job.deadline = self.now_ms, self.deadline(job, lease_ms)
        return job.deadline or None

    def extend(self, job: ModelJob, lease_ms: int) -> Extended:
        is_extensible = job.state is State.RUNNING and job.deadline > 0
        if is_extensible and not self.config(job.content.queue).lease_renewal:
            return Extended(job.deadline, job.is_cancel_requested, max(0, job.deadline - self.now_ms))
        if is_extensible:
            job.is_retakeable = job.is_orphan = False
            longer = self.deadline(job, lease_ms)
            job.deadline = longer and max(job.deadline, longer)
        return Extended(job.deadline or None, job.is_cancel_requested)

    def update(self, job: ModelJob, request: Update) -> Updated:
        job.progress = job.progress if request.progress is None else request.progress
        if request.note is not None:
            if len(request.note) > job.note_room:  # a long record is not rewritten for every note
                job.note_room = 256 if job.size > 1024 else len(request.note)
            job.note = request.note
        if request.payload is not None:
            job.content = msgspec.structs.replace(job.content, payload=request.payload)
            job.revision += 1
        return Updated(job.revision, job.is_cancel_requested)

    def say(self, job: ModelJob, request: Log) -> None:
        job.logs += [(job.attempt, line.text) for line in request.lines]

    def finish(self, job: ModelJob, request: Finish) -> None:
        if job.content.repeat and not request.ignore_repeat and not job.is_cancel_requested:
            self._run_again(job)
            return
        job.progress = 1.0
        if job.content.result_ttl_ms:
            job.result = request.result
        self.end(job, "finish", State.FINISHED)

    def _run_again(self, job: ModelJob) -> None:
        rule, offset_s = job.content.repeat.split(", ")[0], int(job.content.repeat.split(" ")[1])
        base = {"SCHEDULED": job.planned_at, "STARTED": job.started_at, "FINISHED": self.now_ms}[rule]
        next_at = base // 1000 * 1000 + offset_s * 1000
        if next_at > INSTANT_MAX:
            self.log(job, "repeat_out_of_range")
            self.end(job, "finish", State.FAILED)
            return
        job.ready_at = job.planned_at = next_at
        job.attempt, job.progress = 0, 0.0
        job.note, job.note_room = "", 0
        if job.expires_at:
            job.expires_at, job.had_expiry = 0, True
        self.put_back(job, "finish")

    def fail(self, job: ModelJob, request: Fail, verb: str = "fail") -> str:
        self.log(job, request.reason)
        if request.then == "cancelled" or (request.then == "retry" and job.is_cancel_requested):
            self.end(job, verb, State.CANCELLED)
            return "cancelled"
        if request.then == "final":
            self.end(job, verb, State.FAILED)
            return "failed"
        job.ready_at = self.now_ms + request.delay_ms
        self.put_back(job, verb)
        return "retried"

    def release(self, job: ModelJob, _request: LeaseRef) -> str:
        return self.give_back(job, "release")

    # People

    def cancel(self, job_id: bytes) -> str:
        job = self.jobs.get(job_id)
        if job is None or job.state in ENDED:
            return "already_ended" if job else self.missing(job_id)
        if job.state in LEASED and not job.is_retakeable:
            job.is_cancel_requested = True
            return "requested"
        self.log(job, "cancelled")
        self.end(job, "cancel", State.CANCELLED)
        return "cancelled"

    def retry(self, job_id: bytes) -> str:
        job = self.jobs.get(job_id)
        if job is None:
            return self.missing(job_id)
        return self._revive(job, "retry") if job.state in (State.FAILED, State.CANCELLED) else "wrong_state"

    def _revive(self, job: ModelJob, verb: str) -> str:
        holders = self.holders(job.content.queue, job.content.unique) if job.content.unique else []
        if holders and not job.holds_unique:
            return "unique_conflict"
        self.move(job, verb, State.QUEUED)
        job.attempt, job.progress, job.ended_at, job.token, job.worker = 0, 0.0, 0, 0, b""
        job.note, job.note_room = "", 0
        job.ready_at, job.removed_at, job.is_history, job.result = self.now_ms, FOREVER_MS, False, None
        job.holds_unique = bool(job.content.unique)
        if 0 < job.expires_at <= self.now_ms:
            job.expires_at, job.had_expiry = 0, True
        return "queued"

    def requeue(self, job_id: bytes, gives_attempt_back: bool) -> str:
        job = self.jobs.get(job_id)
        if job is None:
            return self.missing(job_id)
        if job.state in ENDED:
            return self._revive(job, "requeue")
        job.attempt -= job.state in LEASED and gives_attempt_back
        job.ready_at, job.is_cancel_requested = job.created_at, False
        job.token, job.deadline, job.worker = 0, 0, b""
        self.move(job, "requeue", State.QUEUED)
        return "queued"

    def edit(self, request: Edit) -> Edited | str:
        job = self.jobs.get(request.id)
        if job is None:
            return self.missing(request.id)
        if job.state not in PENDING and not request.in_any_state:
            return "wrong_state"
        if request.if_revision not in (0, job.revision):
            return "revision_conflict"
        if request.run_at_ms is not None:
            job.planned_at = request.run_at_ms
        elif request.repeat and not job.content.repeat:
            job.planned_at = job.ready_at
        fields = ("priority", "payload", "repeat")
        changes = {"name": request.name or None} | {name: getattr(request, name) for name in fields}
        given = {name: value for name, value in changes.items() if value is not None}
        job.content = msgspec.structs.replace(job.content, **given)
        self._reschedule(job, "edit", request.run_at_ms)
        if job.state is State.RUNNING and job.content.retake and request.run_at_ms is not None and job.deadline:
            job.deadline = request.run_at_ms  # its time is when others may take it over
            job.is_retakeable = job.is_retakeable and request.run_at_ms <= self.now_ms
        return Edited(job.revision, int(job.state or 0))

    def delete(self, job_id: bytes, even_leased: bool) -> str:
        job = self.jobs.get(job_id)
        if job is None:
            return self.missing(job_id)
        if job.state in LEASED and not even_leased:
            return "wrong_state"
        self.move(job, "delete", None)
        self.remove(job)
        return "deleted"

    def configure(self, queue: str, changes: dict[str, int | bool | None]) -> Configuration:
        mine = self.configured.setdefault(queue, {})
        mine.update({name: value for name, value in changes.items() if value is not None})
        for name in [name for name, value in changes.items() if value is None]:
            mine.pop(name, None)
        if changes:
            self.queues.add(queue)
        return self.config(queue)

    def remove_queue(self, queue: str) -> str:
        if any(job.content.queue == queue for job in self.jobs.values()):
            return "queue_in_use"
        self.configured.pop(queue, None)
        self.queues.discard(queue)
        return "removed"

    # Workers as such, and the loops

    def held_by(self, worker: bytes) -> list[ModelJob]:
        mine = [job for job in self.jobs.values() if job.state in LEASED and job.worker == worker]
        return [job for job in mine if not job.is_orphan]

    def unclaimed(self, worker: bytes, named: Sequence[bytes]) -> list[ModelJob]:
        """Return leases of a worker that its heartbeat does not name, once their answers cannot be in transit any
        more."""
        found = [job for job in self.held_by(worker) if job.state is State.RUNNING and not job.is_retakeable]
        return [job for job in found if job.id not in named and job.started_at <= self.now_ms - SETTLED_MS]

    def forget(self, worker: bytes) -> int | str:
        held = self.held_by(worker)
        if not held and worker not in self.workers:
            return "unknown_worker"
        for job in held:
            self.give_back(job, "release")
        self.workers.pop(worker, None)
        self.trim()
        return len(held)

    def recover(self) -> int:
        done = sum(self.lose_overdue(queue) for queue in sorted(self.queues))
        timed_out = [job for job in self.jobs.values() if self.is_timed_out(job)]
        for worker in [worker for worker, (_, silent_at) in self.workers.items() if silent_at <= self.now_ms]:
            held = self.held_by(worker)
            for job in [job for job in held if not job.is_retakeable]:
                done += 1
                if job.state is State.RUNNING:
                    job.deadline = min(job.deadline or self.now_ms, self.now_ms)
                self.lose_lease(job)
            for job in held:
                job.is_orphan = job.is_retakeable
            del self.workers[worker]
        self.trim()
        for job in [job for job in timed_out if job.id in self.jobs and self.is_timed_out(job)]:
            self._time_out(job)
        self.trim()
        return done + len(timed_out)

    def _time_out(self, job: ModelJob) -> None:
        retry = job.content.retry
        then, delay_ms = ("retry", retry.delay_ms(job.attempt)) if retry.wants_retry(job.attempt) else ("final", 0)
        then = "cancelled" if job.is_cancel_requested else then
        request = Fail(id=job.id, token=job.token, then=then, delay_ms=delay_ms, reason="timeout")  # type: ignore[arg-type]
        self.fail(job, request, "recover")

    def clean(self) -> int:
        over = [job for job in self.jobs.values() if job.removed_at <= self.now_ms]
        for job in over:
            ended_as = job.state
            self.move(job, "clean", None)
            self.remove(job, ended_as)
        unstarted = [job for job in self.jobs.values() if job.state in PENDING and job.attempt == 0]
        expired = [job for job in unstarted if 0 < job.expires_at <= self.now_ms]
        for job in expired:
            self.log(job, "expired")
            self.end(job, "expire", State.FAILED)
        forgotten = [job_id for job_id, until in self.tombstones.items() if until <= self.now_ms]
        for job_id in forgotten:
            del self.tombstones[job_id]
        self.trim()
        return len(over) + len(expired) + len(forgotten)

    def sweep(self) -> int:
        self._added_to_history.update(dict.fromkeys(self.queues, SWEPT))
        used = {job.content.queue for job in self.jobs.values()} | {
            name for name, mine in self.configured.items() if mine
        }
        forgotten = self.queues - used
        self.queues -= forgotten
        self.trim()
        return len(forgotten)
