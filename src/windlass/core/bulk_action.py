"""An action on all jobs that match a list's conditions. It is carried by a job of a queue of its own, whose payload
says how far it has come: so it is seen, called off and recovered like any job."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from .job import Blob, Job
from .operations import Listing

QUEUE = "windlass.actions"
Verb: TypeAlias = Literal["retry", "cancel", "delete", "requeue"]
VERBS: tuple[Verb, ...] = get_args(Verb)
# Where a verb has something to do. A job that is put back into the list that is walked over would be met again.
STATES: dict[Verb, tuple[str, ...]] = {
    "retry": ("failed", "cancelled"),
    "cancel": ("queued", "scheduled", "waiting", "running"),
    "delete": ("queued", "scheduled", "waiting", "failed", "cancelled", "finished", "history"),
    "requeue": ("scheduled", "waiting", "running", "failed", "cancelled", "finished", "history"),
}


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted, of which jobs: those of the list as it is when this is asked for."""

    verb: Verb
    listing: Listing  # without a cursor; its order and length do not matter
    reason: str = "cancelled"  # of a cancel
    asked_by: str = ""


class ActionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of the job that carries an action: what is wanted, and how far it has come."""

    action: Action  # its listing with the time up to which jobs count
    total: int = 0  # jobs in the list when it was asked for, whatever the other conditions; 0: not known
    cursor: str = ""
    is_through: bool = False
    looked_at: int = 0
    done: int = 0
    gone: int = 0  # went their way meanwhile
    refused: int = 0
    refusals: dict[str, int] = {}  # code -> how many


class ActionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An action as it stands."""

    id: bytes  # of the job that carries it
    verb: Verb
    listing: Listing
    reason: str
    asked_by: str
    asked_at_ms: int
    state: str  # queued: no server has begun yet; running; finished, cancelled, failed
    is_cancel_requested: bool
    started_at_ms: int | None
    ended_at_ms: int | None
    total: int
    looked_at: int
    done: int
    gone: int
    refused: int
    refusals: dict[str, int]


_decode = msgspec.json.Decoder(ActionProgress).decode


def encode_progress(carried: ActionProgress) -> Blob:
    return Blob(msgspec.json.encode(carried))


def decode_progress(payload: Blob) -> ActionProgress:
    return _decode(payload.data)


def read_status(job: Job) -> ActionStatus | None:
    """None when the job carries no action, whoever has put it there."""
    try:
        carried = decode_progress(job.payload)
    except msgspec.MsgspecError:
        return None
    return ActionStatus(
        id=job.id,
        verb=carried.action.verb,
        listing=carried.action.listing,
        reason=carried.action.reason,
        asked_by=carried.action.asked_by,
        asked_at_ms=job.created_at_ms,
        state="running" if job.state.is_leased else job.state.label,
        is_cancel_requested=job.is_cancel_requested,
        started_at_ms=job.started_at_ms,
        ended_at_ms=job.ended_at_ms,
        total=carried.total,
        looked_at=carried.looked_at,
        done=carried.done,
        gone=carried.gone,
        refused=carried.refused,
        refusals=carried.refusals,
    )
