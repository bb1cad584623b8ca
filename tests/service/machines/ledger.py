"""Jobs of the model and their moves: every move is checked against the table of moves. Operations are in model.py."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from windlass.core.job import Blob, NewJob
from windlass.core.operations import Filter
from windlass.core.queue import FOREVER_MS, Configuration
from windlass.core.states import LEASED, MOVES, PENDING, State
from windlass.store.records.record import pack

REMEMBERED_MS = 600_000  # an ended id is known through its own bucket of this length and the next
TRIMMED = 17  # of a history, in one call, beyond what the call added
SWEPT = 50  # of a history, in one sweep
ATTEMPTS_KEPT = 20
ALLOWED = {(move.source, move.verb, move.target) for move in MOVES}


@dataclass
class ModelJob:
    id: bytes
    content: NewJob  # as edited and replaced since
    identity: tuple[Any, ...]  # what a repeated enqueue must match
    sequence: int
    created_at: int
    ready_at: int
    expires_at: int
    state: State | None = None
    started_at: int = 0
    ended_at: int = 0
    removed_at: int = FOREVER_MS  # end of its retention
    token: int = 0
    deadline: int = 0  # 0: none
    worker: bytes = b""
    is_orphan: bool = False  # retakeable, and its worker went silent
    attempt: int = 0
    revision: int = 1
    progress: float = 0.0
    note: str = ""
    note_room: int = 0  # in the record; 0: there is no place for one
    logs: list[tuple[int, str]] = field(default_factory=list)  # attempt, text
    is_cancel_requested: bool = False
    is_retakeable: bool = False
    is_history: bool = False
    is_awaited: bool = False
    holds_unique: bool = False
    had_expiry: bool = False  # its field stays in the record
    planned_at: int = 0  # of a repeating job
    result: Blob | None = None
    attempts: list[tuple[int, str, int]] = field(default_factory=list)  # number, reason, end

    @property
    def size(self) -> int:
        size = len(pack(self.content, self.id, 0, self.expires_at or self.had_expiry)) - 16
        return size + self.note_room + 4 * (self.note_room > 0)

    @property
    def order(self) -> tuple[int, int, int]:
        return self.content.priority, self.ready_at, self.sequence

    @property
    def is_takeable(self) -> bool:
        return self.state is State.QUEUED or self.is_retakeable


def identity_of(new: NewJob) -> tuple[Any, ...]:
    return new.queue, new.name, new.lane, new.unique, new.priority, new.payload


def wants(wanted: Filter, job: ModelJob) -> bool:
    name = job.content.name
    if wanted.priority is not None and wanted.priority != job.content.priority:
        return False
    if wanted.only:
        return name in wanted.only
    return name not in wanted.all_but and (not wanted.glob or fnmatchcase(name, wanted.glob))


class Ledger:
    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.jobs: dict[bytes, ModelJob] = {}
        self.ended: dict[bytes, int] = {}  # id -> bucket
        self.tombstones: dict[bytes, int] = {}  # id -> when it is forgotten
        self.configured: dict[str, dict[str, int | bool]] = {}
        self.queues: set[str] = set()
        self.workers: dict[bytes, tuple[int, int]] = {}  # worker -> beat_ms, silent at
        self.sequence = self.token = 0
        self.pending_callbacks: Counter[tuple[bytes, State]] = Counter()  # callbacks, by job and end
        self._added_to_history: Counter[str] = Counter()

    # Looking

    def config(self, queue: str) -> Configuration:
        return Configuration(**self.configured.get(queue, {}))  # type: ignore[arg-type]

    def of(self, queue: str, *states: State) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.content.queue == queue and job.state in states]

    def takeable(self, queue: str, wanted: Filter = Filter()) -> list[ModelJob]:  # noqa: B008
        mine = [job for job in self.jobs.values() if job.content.queue == queue and job.is_takeable]
        return sorted((job for job in mine if wants(wanted, job)), key=lambda job: job.order)

    def history(self, queue: str) -> list[ModelJob]:
        kept = [job for job in self.jobs.values() if job.content.queue == queue and job.is_history]
        return sorted(kept, key=lambda job: (job.ended_at, job.id))

    def bytes_of(self, queue: str) -> int:
        return sum(job.size for job in self.of(queue, *PENDING, *LEASED))

    def missing(self, job_id: bytes) -> str:
        bucket = self.ended.get(job_id, -2)
        return "already_ended" if self.now_ms // REMEMBERED_MS - bucket in (0, 1) else "unknown_job"

    def holders(self, queue: str, unique: str) -> list[ModelJob]:
        mine = [job for job in self.jobs.values() if (job.content.queue, job.content.unique) == (queue, unique)]
        return sorted((job for job in mine if job.holds_unique), key=lambda job: (job.sequence, job.id))

    def timeout_at(self, job: ModelJob) -> int:
        return job.started_at + job.content.timeout_ms if job.content.timeout_ms and job.state is State.RUNNING else 0

    def is_timed_out(self, job: ModelJob) -> bool:
        return 0 < self.timeout_at(job) <= self.now_ms

    def is_overdue(self, job: ModelJob) -> bool:
        has_run_out = job.state in LEASED and not job.is_retakeable and 0 < job.deadline <= self.now_ms
        return has_run_out and not self.is_timed_out(job)

    # Moving

    def move(self, job: ModelJob, verb: str, state: State | None) -> None:
        if state is not job.state:
            assert (job.state, verb, state) in ALLOWED, f"{job.state!r} {verb} {state!r} is not in the table of moves"
        job.state = state
        job.is_retakeable = job.is_orphan = False

    def by_time(self, job: ModelJob) -> State:
        return State.QUEUED if job.ready_at <= self.now_ms else State.SCHEDULED

    def log(self, job: ModelJob, reason: str) -> None:
        job.attempts = [*job.attempts, (job.attempt, reason, self.now_ms)][-ATTEMPTS_KEPT:]

    def remove(self, job: ModelJob, ended_as: State | None = None) -> None:
        """Remove a job. `ended_as`: how it ended; None if it was deleted."""
        if job.content.tombstone_ms and ended_as in (State.FINISHED, State.FAILED):
            self.tombstones[job.id] = self.now_ms + job.content.tombstone_ms
        del self.jobs[job.id]
        self.ended[job.id] = self.now_ms // REMEMBERED_MS

    def kept_ms(self, job: ModelJob) -> int:
        """Return how long a job is kept after it has finished."""
        return job.content.result_ttl_ms

    def end(self, job: ModelJob, verb: str, state: State) -> None:
        if job.content.callback is not None and state.label in job.content.callback.events:
            self.pending_callbacks[job.id, state] += 1
        config = self.config(job.content.queue)
        kept_ms = self.kept_ms(job) if state is State.FINISHED else config.retention_ms
        is_kept = kept_ms > 0 or config.history_length > 0
        if not is_kept and state is State.FINISHED:
            self.move(job, verb, None)
            return self.remove(job, state)
        self.move(job, verb, state)
        if not is_kept:
            return self.remove(job, state)
        job.ended_at, job.deadline, job.is_cancel_requested, job.is_awaited = self.now_ms, 0, False, False
        job.is_history = kept_ms == 0
        job.holds_unique &= job.content.unique_while_kept and not job.is_history
        job.removed_at = FOREVER_MS if job.is_history or kept_ms == FOREVER_MS else self.now_ms + kept_ms
        self._added_to_history[job.content.queue] += job.is_history
        return None

    def trim(self) -> None:
        """Trim histories: bounded in number and bytes; the oldest jobs go, a bounded number per call."""
        for queue, added in self._added_to_history.items():
            config, kept = self.config(queue), self.history(queue)
            size = sum(job.size for job in kept)
            for at, job in enumerate(kept[: added + TRIMMED] if added else ()):
                if len(kept) - at <= config.history_length and size <= config.history_bytes:
                    break
                size -= job.size
                self.remove(job, job.state)
        self._added_to_history.clear()

    def put_back(self, job: ModelJob, verb: str) -> str:
        job.token, job.deadline, job.worker = 0, 0, b""
        self.move(job, verb, self.by_time(job))
        return job.state.label if job.state else ""

    def give_back(self, job: ModelJob, verb: str) -> str:
        if job.is_cancel_requested:
            self.end(job, verb, State.CANCELLED)
            return "cancelled"
        job.attempt -= 1
        return self.put_back(job, verb)
