"""Shapes of operations on existing jobs: one, a batch, or all that match a listing."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.bulk_action import ActionStatus, Verb
from windlass.core.errors import BadInput
from windlass.core.ids import format_id
from windlass.core.operations import Edit, Edited, Listing
from windlass.core.states import State
from windlass.core.text.error_text import SHAPE_MAX
from windlass.core.validation.bounds import NAME_MAX, QUEUE_MAX, REASON_MAX, SOUGHT_MAX, TAG_MAX, UINT32_MAX

from .encoding import Encoding
from .fields import Id, Instant, Name, Priority, StateName
from .jobs import Where
from .shape import RequestShape, ResponseShape, component_name
from .values import CodecName, Value, decode_value


@component_name("Plainly")
class EmptyShape(RequestShape, frozen=True, kw_only=True):
    """An empty object."""


@component_name("PlainItem")
class IdItem(RequestShape, frozen=True, kw_only=True):
    id: Id


class CancelShape(RequestShape, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX)] = "cancelled"
    counts_waiting: Annotated[
        bool, Meta(description="False: waiting children do not keep a waiting parent from being cancelled.")
    ] = True
    even_failed: Annotated[bool, Meta(description="Also cancel a failed job.")] = False
    spares_running: Annotated[bool, Meta(description="Refuse to cancel a running job.")] = False


class CancelItem(CancelShape, frozen=True, kw_only=True):
    id: Id


class CancelledShape(ResponseShape, frozen=True, kw_only=True):
    outcome: Literal["cancelled", "requested"]


class RevivedShape(ResponseShape, frozen=True, kw_only=True):
    outcome: Annotated[
        Literal["queued", "waiting"], Meta(description="`waiting`: until the jobs that it needs have ended.")
    ]


@component_name("RetryJobShape")
class RetryOptionsShape(RequestShape, frozen=True, kw_only=True):
    fresh: Annotated[
        bool,
        Meta(description="Drop all stored steps first, so that the job starts from the beginning."),
    ] = False


@component_name("RetryJobItem")
class RetryItem(RetryOptionsShape, frozen=True, kw_only=True):
    id: Id


class RequeueShape(RequestShape, frozen=True, kw_only=True):
    gives_attempt_back: Annotated[bool, Meta(description="Do not count the attempt that was running.")] = False


class RequeueItem(RequeueShape, frozen=True, kw_only=True):
    id: Id


class WokenShape(ResponseShape, frozen=True, kw_only=True):
    """The state after the wait. `finished`: the job was a group, which ends with its wait."""

    outcome: Literal["queued", "scheduled", "finished"]


class DeleteShape(RequestShape, frozen=True, kw_only=True):
    even_leased: Annotated[bool, Meta(description="Also delete a leased job.")] = False
    even_waiting: Annotated[bool, Meta(description="Also delete a job that waits for other jobs.")] = True


class DeleteItem(DeleteShape, frozen=True, kw_only=True):
    id: Id


class DeletedShape(ResponseShape, frozen=True, kw_only=True):
    outcome: Literal["deleted"]


class EditShape(RequestShape, frozen=True, kw_only=True):
    """The fields to change. Fields that are not given keep their values."""

    name: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    run_at_ms: Instant | UnsetType = UNSET
    payload: Value | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    payload_codec: CodecName | UnsetType = UNSET
    repeat: Annotated[str, Meta(description="Another repeat rule; empty: the job stops repeating.")] | UnsetType = UNSET
    if_revision: Annotated[
        int, Meta(ge=0, le=UINT32_MAX, description="Edit only if the job has this revision; 0: any revision.")
    ] = 0
    in_any_state: Annotated[bool, Meta(description="Also edit a job that is running or has ended.")] = False

    def edit(self, job_id: bytes, encoding: Encoding) -> Edit:
        payload = decode_value("payload", self.payload, self.payload_base64, self.payload_codec, encoding)
        others = (self.name, self.priority, self.run_at_ms, self.repeat)
        if payload is None and all(field is UNSET for field in others):
            raise BadInput("This edit changes nothing; give a name, priority, run_at_ms, payload or repeat.")
        return Edit(
            id=job_id,
            name="" if self.name is UNSET else self.name,
            priority=None if self.priority is UNSET else self.priority,
            run_at_ms=None if self.run_at_ms is UNSET else self.run_at_ms,
            payload=payload,
            repeat=None if self.repeat is UNSET else self.repeat,
            if_revision=self.if_revision,
            in_any_state=self.in_any_state,
        )


class EditItem(EditShape, frozen=True, kw_only=True):
    id: Id


class EditedShape(ResponseShape, frozen=True, kw_only=True):
    revision: int
    state: str


def edited_shape(answer: Edited) -> EditedShape:
    return EditedShape(revision=answer.revision, state=State(answer.state).label)


ErrorText = Annotated[str, Meta(max_length=SOUGHT_MAX, description="Text in the last error; case is ignored.")]


@component_name("SoughtJobsShape")
class JobFilterShape(RequestShape, frozen=True, kw_only=True):
    """The jobs that GET /jobs lists for these conditions."""

    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Empty: all queues.")] = ""
    state: Annotated[str, Meta(description="Required unless a tag or `where` is given.", examples=["queued"])] = ""
    tag: Annotated[str, Meta(max_length=TAG_MAX)] = ""
    where: Where = ()
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern: * and ?.")] = ""
    created_from_ms: Instant = 0
    created_before_ms: Instant = 0
    ended_from_ms: Instant = 0
    ended_before_ms: Instant = 0
    error: ErrorText = ""
    error_shape: Annotated[str, Meta(max_length=SHAPE_MAX)] = ""


class ActionShape(RequestShape, frozen=True, kw_only=True):
    """An action on many jobs. `retry` applies to failed and cancelled jobs, `cancel` to jobs that have not ended,
    `delete` to jobs without a lease, `requeue` to jobs that are not queued."""

    verb: Verb
    matches: JobFilterShape
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX, description="The reason of a cancel.")] = (
        "cancelled"
    )


class ActionStatusShape(ResponseShape, frozen=True, kw_only=True):
    """The current state of an action. `gone`: jobs that changed their state before the action reached them. `skipped`:
    jobs that a retry leaves out, because they ended only because of another job and follow its retry."""

    id: Id
    verb: Verb
    matches: JobFilterShape
    reason: str
    asked_by: str
    asked_at_ms: int
    state: StateName
    is_cancel_requested: bool
    started_at_ms: int | None
    ended_at_ms: int | None
    total: Annotated[int, Meta(description="About how many jobs matched when the action was requested; 0: unknown.")]
    looked_at: int
    done: int
    gone: int
    skipped: int
    refused: int
    refusals: Annotated[dict[str, int], Meta(description="Number of refusals, by code.")]


class ActionsShape(ResponseShape, frozen=True, kw_only=True):
    """Actions, the newest first."""

    actions: list[ActionStatusShape]


def action_status_shape(status: ActionStatus) -> ActionStatusShape:
    fields = msgspec.structs.asdict(status) | {"id": format_id(status.id), "matches": _job_filter_shape(status.listing)}
    return ActionStatusShape(**{name: fields[name] for name in ActionStatusShape.__struct_fields__})


def _job_filter_shape(listing: Listing) -> JobFilterShape:
    return JobFilterShape(**{name: getattr(listing, name) for name in JobFilterShape.__struct_fields__})
