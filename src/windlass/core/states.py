"""States of a job and the table of allowed moves between them. docs/lifecycle.md is generated from this table."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class State(IntEnum):
    """State of a job. The codes are stored in records, so their meaning never changes."""

    SCHEDULED = 1  # waits for its start time
    QUEUED = 2  # may be taken now
    WAITING = 3  # waits for other jobs
    DISPATCHED = 4  # handed to a worker that has not accepted it yet
    RUNNING = 5  # a worker holds a lease on it
    FINISHED = 6  # succeeded; kept as long as its result or the history of the queue
    FAILED = 7  # failed permanently; kept for the retention time
    CANCELLED = 8  # ended by request; kept for the retention time
    SUSPENDED = 9  # its code waits for a time, a signal or child jobs; no worker holds it

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def is_leased(self) -> bool:
        return self in LEASED

    @property
    def is_ended(self) -> bool:
        return self in ENDED


PENDING = frozenset({State.SCHEDULED, State.QUEUED, State.WAITING, State.SUSPENDED})
LEASED = frozenset({State.DISPATCHED, State.RUNNING})
ENDED = frozenset({State.FINISHED, State.FAILED, State.CANCELLED})


class Move(NamedTuple):
    """An allowed move between two states. A source of `None` means "new", a target of `None` means "removed"."""

    source: State | None
    verb: str
    target: State | None
    note: str = ""


_S = State
IN_ANY_STATE = "on request, in any state"
MOVES: tuple[Move, ...] = (
    Move(None, "enqueue", _S.QUEUED),
    Move(None, "enqueue", _S.SCHEDULED, "run_at is in the future"),
    Move(None, "enqueue", _S.WAITING, "it waits for other jobs, or until its parent hands over"),
    Move(None, "enqueue", _S.DISPATCHED, "a worker was waiting at the idle queue"),
    *(
        Move(None, "restore", state, "from an export")
        for state in (_S.SCHEDULED, _S.QUEUED, _S.WAITING, _S.FINISHED, _S.FAILED, _S.CANCELLED)
    ),
    *(Move(state, "finish", _S.WAITING, "hands over to its members") for state in (_S.RUNNING, _S.DISPATCHED)),
    *(
        Move(
            state,
            "finish",
            target,
            "by its policy or a cancel request, instead of waiting; or its repeat rule is out of range",
        )
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target in (_S.FAILED, _S.CANCELLED)
    ),
    Move(_S.WAITING, "settle", _S.QUEUED, "its members have ended, or its parent handed over"),
    Move(_S.WAITING, "settle", _S.SCHEDULED, "its members ended or its parent handed over; run_at is in the future"),
    Move(_S.WAITING, "settle", _S.FINISHED, "a group: its members have ended"),
    Move(_S.WAITING, "settle", None, "a group: its members have ended"),
    Move(_S.WAITING, "settle", _S.FAILED, "a member failed, and its policy is `fail`"),
    Move(_S.WAITING, "settle", _S.CANCELLED, "a member was cancelled, and its policy is `fail`"),
    *(Move(state, "settle", _S.CANCELLED, "its parent failed or was cancelled") for state in (_S.SCHEDULED, _S.QUEUED)),
    Move(_S.RUNNING, "settle", _S.CANCELLED, "overdue retake job; its parent failed or was cancelled"),
    *(
        Move(state, "settle", _S.WAITING, "it ended because of a job that it waited for, and that job was retried")
        for state in (_S.FAILED, _S.CANCELLED)
    ),
    *(Move(state, "settle", None, "its parent has read the outcome") for state in (_S.FINISHED, _S.CANCELLED)),
    Move(_S.WAITING, "wake", _S.QUEUED, "by a person"),
    Move(_S.WAITING, "wake", _S.SCHEDULED, "by a person; run_at is in the future"),
    Move(_S.WAITING, "wake", _S.FINISHED, "a group, by a person"),
    Move(_S.WAITING, "expire", _S.FAILED, "not started before its expiry"),
    Move(_S.SCHEDULED, "promote", _S.QUEUED, "run_at has come"),
    Move(_S.QUEUED, "take", _S.RUNNING),
    Move(_S.QUEUED, "take", _S.DISPATCHED, "the worker must accept it"),
    Move(_S.QUEUED, "expire", _S.FAILED, "not started before its expiry"),
    Move(_S.SCHEDULED, "expire", _S.FAILED, "not started before its expiry"),
    Move(_S.DISPATCHED, "accept", _S.RUNNING),
    Move(_S.RUNNING, "take", _S.RUNNING, "retake job with an overdue lease, taken by another worker"),
    Move(_S.RUNNING, "take", _S.DISPATCHED, "retake job with an overdue lease; the other worker must accept it"),
    Move(_S.RUNNING, "take", _S.FAILED, "overdue retake job with no attempt left"),
    Move(_S.RUNNING, "finish", _S.FINISHED, "result or history kept"),
    Move(_S.RUNNING, "finish", None, "nothing kept"),
    Move(_S.DISPATCHED, "finish", _S.FINISHED, "result reported before it was accepted"),
    Move(_S.DISPATCHED, "finish", None, "result reported before it was accepted"),
    *(
        Move(state, "finish", target, note)
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target, note in (
            (_S.SCHEDULED, "the job repeats, later"),
            (_S.QUEUED, "the job repeats, at once"),
        )
    ),
    Move(_S.RUNNING, "fail", _S.SCHEDULED, "to be retried later"),
    Move(_S.RUNNING, "fail", _S.QUEUED, "to be retried at once"),
    Move(_S.RUNNING, "fail", _S.FAILED, "permanently"),
    Move(_S.RUNNING, "fail", _S.CANCELLED, "a requested cancel, acknowledged"),
    Move(_S.DISPATCHED, "fail", _S.SCHEDULED, "to be retried later"),
    Move(_S.DISPATCHED, "fail", _S.QUEUED, "to be retried at once"),
    Move(_S.DISPATCHED, "fail", _S.FAILED, "permanently"),
    Move(_S.DISPATCHED, "fail", _S.CANCELLED, "a requested cancel, acknowledged"),
    *(
        Move(state, "complete_with_children", target, note)
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target, note in (
            (_S.WAITING, "hands over to its members"),
            (_S.FINISHED, "kept, or needed by other jobs"),
            (None, "nothing kept"),
            (_S.FAILED, "permanently"),
            (_S.SCHEDULED, "continues later"),
            (_S.QUEUED, "continues at once"),
            (_S.CANCELLED, "a requested cancel, instead of continuing"),
        )
    ),
    *(
        Move(state, "complete_with_children", target, IN_ANY_STATE)
        for state in (_S.SCHEDULED, _S.QUEUED, _S.WAITING, _S.FINISHED, _S.FAILED, _S.CANCELLED)
        for target in (_S.SCHEDULED, _S.QUEUED, _S.FINISHED, None)
    ),
    Move(_S.RUNNING, "release", _S.QUEUED, "attempt given back"),
    Move(_S.RUNNING, "release", _S.SCHEDULED, "attempt given back; run_at moved to the future"),
    Move(_S.RUNNING, "release", _S.CANCELLED, "a requested cancel"),
    Move(_S.DISPATCHED, "release", _S.QUEUED, "attempt given back"),
    Move(_S.DISPATCHED, "release", _S.SCHEDULED, "attempt given back; run_at moved to the future"),
    Move(_S.DISPATCHED, "release", _S.CANCELLED, "a requested cancel"),
    *(
        Move(state, "forget", target, "its worker deregisters; same as release")
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target in (_S.QUEUED, _S.SCHEDULED, _S.CANCELLED)
    ),
    Move(_S.RUNNING, "recover", _S.QUEUED, "lease expired"),
    Move(_S.RUNNING, "recover", _S.SCHEDULED, "execution timeout, to be retried later; or run_at moved to the future"),
    Move(_S.RUNNING, "recover", _S.FAILED, "lease expired or timeout, no attempt left"),
    Move(_S.RUNNING, "recover", _S.CANCELLED, "lease expired after a cancel request"),
    Move(_S.DISPATCHED, "recover", _S.QUEUED, "not accepted in time, attempt given back"),
    Move(_S.DISPATCHED, "recover", _S.SCHEDULED, "not accepted in time; run_at moved to the future"),
    Move(_S.DISPATCHED, "recover", _S.CANCELLED, "not accepted in time, after a cancel request"),
    *(
        Move(state, "suspend", target, note)
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target, note in (
            (_S.SUSPENDED, "its code waits; attempt given back"),
            (_S.QUEUED, "its condition is already met; attempt given back"),
            (_S.CANCELLED, "a requested cancel"),
        )
    ),
    Move(_S.SUSPENDED, "promote", _S.QUEUED, "its sleep, or the time of its wait, is over"),
    Move(_S.SUSPENDED, "signal", _S.QUEUED, "the signal that it waits for has come"),
    Move(_S.SUSPENDED, "settle", _S.QUEUED, "the child jobs that it waits for have ended"),
    Move(_S.SUSPENDED, "settle", _S.CANCELLED, "its parent failed or was cancelled"),
    Move(_S.SUSPENDED, "cancel", _S.CANCELLED),
    Move(_S.SCHEDULED, "cancel", _S.CANCELLED),
    Move(_S.QUEUED, "cancel", _S.CANCELLED),
    Move(_S.WAITING, "cancel", _S.CANCELLED),
    Move(_S.RUNNING, "cancel", _S.CANCELLED, "overdue retake job"),
    Move(_S.FAILED, "cancel", _S.CANCELLED, "on request, after it failed"),
    Move(_S.FAILED, "retry", _S.QUEUED, "by a person"),
    Move(_S.CANCELLED, "retry", _S.QUEUED, "by a person"),
    *(
        Move(state, "retry", _S.WAITING, "by a person; it needs jobs that have not ended")
        for state in (_S.FAILED, _S.CANCELLED)
    ),
    *(Move(state, "requeue", _S.QUEUED, "by a person") for state in _S),
    *(Move(state, "delete", None) for state in _S),
    *(Move(state, "clean", None, "retention time over") for state in (_S.FINISHED, _S.FAILED, _S.CANCELLED)),
    Move(_S.SCHEDULED, "edit", _S.QUEUED, "run_at moved to the past"),
    Move(_S.QUEUED, "edit", _S.SCHEDULED, "run_at moved to the future"),
    Move(_S.SCHEDULED, "enqueue", _S.QUEUED, "enqueued again with its unique key and another run_at"),
    Move(_S.QUEUED, "enqueue", _S.SCHEDULED, "enqueued again with its unique key and another run_at"),
)
