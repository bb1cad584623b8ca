"""Bulk actions: one verb applied to every job that matches a listing.

A bulk action runs as a job in its own queue. The job's payload holds the action and its progress, so an action can be
inspected, cancelled and recovered like any other job.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from .job import Blob, Job
from .operations import Listing

QUEUE = "windlass.actions"
Verb: TypeAlias = Literal["retry", "cancel", "delete", "requeue"]
VERBS: tuple[Verb, ...] = get_args(Verb)
# Lists that a verb applies to. A verb never puts a job back into the list it scans: it would meet that job again.
STATES: dict[Verb, tuple[str, ...]] = {
    "retry": ("failed", "cancelled"),
    "cancel": ("queued", "scheduled", "waiting", "suspended", "running"),
    "delete": ("queued", "scheduled", "waiting", "suspended", "failed", "cancelled", "finished", "history"),
    "requeue": ("scheduled", "waiting", "suspended", "running", "failed", "cancelled", "finished", "history"),
}


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """A verb, and the listing of the jobs it applies to. The listing is evaluated when the action is requested."""

    verb: Verb
    listing: Listing  # without a cursor; its order and length do not matter
    reason: str = "cancelled"  # only for cancel
    asked_by: str = ""


class ActionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Payload of the job that runs an action: the action, and its progress so far."""

    action: Action  # its listing is bounded by the time of the request
    total: int = 0  # jobs in the list at the time of the request, before the other conditions; 0: unknown
    cursor: str = ""
    is_through: bool = False
    looked_at: int = 0
    done: int = 0
    gone: int = 0  # had left the list before the action reached them
    skipped: int = 0  # of a retry: jobs that ended because of another job, and follow its retry
    refused: int = 0
    refusals: dict[str, int] = {}  # error code -> number of refusals


class ActionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Current state of a bulk action."""

    id: bytes  # of the job that runs it
    verb: Verb
    listing: Listing
    reason: str
    asked_by: str
    asked_at_ms: int
    state: str  # queued (no server has started it), running, finished, cancelled or failed
    is_cancel_requested: bool
    started_at_ms: int | None
    ended_at_ms: int | None
    total: int
    looked_at: int
    done: int
    gone: int
    skipped: int
    refused: int
    refusals: dict[str, int]


_decode = msgspec.json.Decoder(ActionProgress).decode


def encode_progress(progress: ActionProgress) -> Blob:
    return Blob(msgspec.json.encode(progress))


def decode_progress(payload: Blob) -> ActionProgress:
    return _decode(payload.data)


def read_status(job: Job) -> ActionStatus | None:
    """Return the status of the action that a job runs, or None if the job's payload is not a bulk action."""
    try:
        progress = decode_progress(job.payload)
    except msgspec.MsgspecError:
        return None
    return ActionStatus(
        id=job.id,
        verb=progress.action.verb,
        listing=progress.action.listing,
        reason=progress.action.reason,
        asked_by=progress.action.asked_by,
        asked_at_ms=job.created_at_ms,
        state="running" if job.state.is_leased else job.state.label,
        is_cancel_requested=job.is_cancel_requested,
        started_at_ms=job.started_at_ms,
        ended_at_ms=job.ended_at_ms,
        total=progress.total,
        looked_at=progress.looked_at,
        done=progress.done,
        gone=progress.gone,
        skipped=progress.skipped,
        refused=progress.refused,
        refusals=progress.refusals,
    )
