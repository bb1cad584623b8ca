"""The life of a job: its states, and the one table of allowed moves. docs/lifecycle.md is made from it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class State(IntEnum):
    """Codes are stored in records; they never change their meaning."""

    SCHEDULED = 1  # waits for its time
    QUEUED = 2  # may be taken now
    WAITING = 3  # waits for other jobs
    DISPATCHED = 4  # handed to a worker that has not accepted it yet
    RUNNING = 5  # a worker holds it
    FINISHED = 6  # ended well; kept while its result or the queue's history is
    FAILED = 7  # ended badly; kept for its retention
    CANCELLED = 8  # ended by request; kept for its retention

    @property
    def label(self) -> str:
        return self.name.lower()

    @property
    def is_leased(self) -> bool:
        return self in LEASED

    @property
    def is_ended(self) -> bool:
        return self in ENDED


PENDING = frozenset({State.SCHEDULED, State.QUEUED, State.WAITING})
LEASED = frozenset({State.DISPATCHED, State.RUNNING})
ENDED = frozenset({State.FINISHED, State.FAILED, State.CANCELLED})


class Move(NamedTuple):
    """One allowed move: `None` as source is "not there yet", as target "gone"."""

    source: State | None
    verb: str
    target: State | None
    note: str = ""


_S = State
IN_ANY_STATE = "when asked: in any state"
MOVES: tuple[Move, ...] = (
    Move(None, "enqueue", _S.QUEUED),
    Move(None, "enqueue", _S.SCHEDULED, "run_at lies ahead"),
    Move(None, "enqueue", _S.WAITING, "for other jobs, or until its parent hands over"),
    Move(None, "enqueue", _S.DISPATCHED, "a worker waited for it in an idle queue"),
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
            "its policy, or a cancel request, instead of waiting; or its rule leads out of range",
        )
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target in (_S.FAILED, _S.CANCELLED)
    ),
    Move(_S.WAITING, "settle", _S.QUEUED, "its members have ended, or its parent handed over"),
    Move(_S.WAITING, "settle", _S.SCHEDULED, "the same, and run_at lies ahead"),
    Move(_S.WAITING, "settle", _S.FINISHED, "a group: its members have ended"),
    Move(_S.WAITING, "settle", None, "a group: its members have ended"),
    Move(_S.WAITING, "settle", _S.FAILED, "a member failed, and its policy is `fail`"),
    Move(_S.WAITING, "settle", _S.CANCELLED, "a member was cancelled, and its policy is `fail`"),
    *(Move(state, "settle", _S.CANCELLED, "its parent failed or was cancelled") for state in (_S.SCHEDULED, _S.QUEUED)),
    *(Move(state, "settle", None, "seen by its parent") for state in (_S.FINISHED, _S.CANCELLED)),
    Move(_S.WAITING, "wake", _S.QUEUED, "by a person"),
    Move(_S.WAITING, "wake", _S.SCHEDULED, "by a person; run_at lies ahead"),
    Move(_S.WAITING, "wake", _S.FINISHED, "a group, by a person"),
    Move(_S.WAITING, "expire", _S.FAILED, "expired: not started in time"),
    Move(_S.SCHEDULED, "promote", _S.QUEUED, "its time has come"),
    Move(_S.QUEUED, "take", _S.RUNNING),
    Move(_S.QUEUED, "take", _S.DISPATCHED, "to be accepted"),
    Move(_S.QUEUED, "expire", _S.FAILED, "expired: not started in time"),
    Move(_S.SCHEDULED, "expire", _S.FAILED, "expired: not started in time"),
    Move(_S.DISPATCHED, "accept", _S.RUNNING),
    Move(_S.RUNNING, "take", _S.RUNNING, "overdue lease of a retake job, taken by the next"),
    Move(_S.RUNNING, "take", _S.DISPATCHED, "overdue lease of a retake job, to be accepted by the next"),
    Move(_S.RUNNING, "take", _S.FAILED, "overdue retake job with no attempt left"),
    Move(_S.RUNNING, "finish", _S.FINISHED, "result or history kept"),
    Move(_S.RUNNING, "finish", None, "nothing kept"),
    Move(_S.DISPATCHED, "finish", _S.FINISHED, "result before its acceptance"),
    Move(_S.DISPATCHED, "finish", None, "result before its acceptance"),
    *(
        Move(state, "finish", target, note)
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target, note in (
            (_S.SCHEDULED, "it repeats, later"),
            (_S.QUEUED, "it repeats, at once"),
        )
    ),
    Move(_S.RUNNING, "fail", _S.SCHEDULED, "to be retried later"),
    Move(_S.RUNNING, "fail", _S.QUEUED, "to be retried at once"),
    Move(_S.RUNNING, "fail", _S.FAILED, "for good"),
    Move(_S.RUNNING, "fail", _S.CANCELLED, "a requested cancel, acknowledged"),
    Move(_S.DISPATCHED, "fail", _S.SCHEDULED, "to be retried later"),
    Move(_S.DISPATCHED, "fail", _S.QUEUED, "to be retried at once"),
    Move(_S.DISPATCHED, "fail", _S.FAILED, "for good"),
    Move(_S.DISPATCHED, "fail", _S.CANCELLED, "a requested cancel, acknowledged"),
    *(
        Move(state, "conclude", target, note)
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target, note in (
            (_S.WAITING, "hands over to its members"),
            (_S.FINISHED, "kept, or needed by others"),
            (None, "nothing kept"),
            (_S.FAILED, "for good"),
            (_S.SCHEDULED, "goes on later"),
            (_S.QUEUED, "goes on at once"),
            (_S.CANCELLED, "a requested cancel, instead of going on"),
        )
    ),
    *(
        Move(state, "conclude", target, IN_ANY_STATE)
        for state in (_S.SCHEDULED, _S.QUEUED, _S.WAITING, _S.FINISHED, _S.FAILED, _S.CANCELLED)
        for target in (_S.SCHEDULED, _S.QUEUED, _S.FINISHED, None)
    ),
    Move(_S.RUNNING, "release", _S.QUEUED, "attempt given back"),
    Move(_S.RUNNING, "release", _S.SCHEDULED, "attempt given back; run_at was moved ahead meanwhile"),
    Move(_S.RUNNING, "release", _S.CANCELLED, "a requested cancel"),
    Move(_S.DISPATCHED, "release", _S.QUEUED, "attempt given back"),
    Move(_S.DISPATCHED, "release", _S.SCHEDULED, "attempt given back; run_at was moved ahead meanwhile"),
    Move(_S.DISPATCHED, "release", _S.CANCELLED, "a requested cancel"),
    *(
        Move(state, "forget", target, "its worker leaves: as release")
        for state in (_S.RUNNING, _S.DISPATCHED)
        for target in (_S.QUEUED, _S.SCHEDULED, _S.CANCELLED)
    ),
    Move(_S.RUNNING, "recover", _S.QUEUED, "lease ran out"),
    Move(_S.RUNNING, "recover", _S.SCHEDULED, "execution timeout, to be retried later; or run_at was moved ahead"),
    Move(_S.RUNNING, "recover", _S.FAILED, "lease ran out or timeout, no attempt left"),
    Move(_S.RUNNING, "recover", _S.CANCELLED, "lease ran out after a cancel request"),
    Move(_S.DISPATCHED, "recover", _S.QUEUED, "not accepted in time, attempt given back"),
    Move(_S.DISPATCHED, "recover", _S.SCHEDULED, "not accepted in time, run_at was moved ahead meanwhile"),
    Move(_S.DISPATCHED, "recover", _S.CANCELLED, "not accepted in time, after a cancel request"),
    Move(_S.SCHEDULED, "cancel", _S.CANCELLED),
    Move(_S.QUEUED, "cancel", _S.CANCELLED),
    Move(_S.WAITING, "cancel", _S.CANCELLED),
    Move(_S.RUNNING, "cancel", _S.CANCELLED, "overdue retake job"),
    Move(_S.FAILED, "cancel", _S.CANCELLED, "when asked: called off after all"),
    Move(_S.FAILED, "retry", _S.QUEUED, "by a person"),
    Move(_S.CANCELLED, "retry", _S.QUEUED, "by a person"),
    *(Move(state, "requeue", _S.QUEUED, "by a person") for state in _S),
    *(Move(state, "delete", None) for state in _S),
    *(Move(state, "clean", None, "retention over") for state in (_S.FINISHED, _S.FAILED, _S.CANCELLED)),
    Move(_S.SCHEDULED, "edit", _S.QUEUED, "run_at moved to the past"),
    Move(_S.QUEUED, "edit", _S.SCHEDULED, "run_at moved ahead"),
    Move(_S.SCHEDULED, "enqueue", _S.QUEUED, "its unique key came again, with another run_at"),
    Move(_S.QUEUED, "enqueue", _S.SCHEDULED, "its unique key came again, with another run_at"),
)
