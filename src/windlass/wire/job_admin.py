"""Shapes of operations on existing jobs: one, a batch, or all that match a listing."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from windlass.core.bulk_action import ActionStatus, Verb
from windlass.core.ids import format_id
from windlass.core.operations import Edited, Listing
from windlass.core.states import State
from windlass.core.text.error_text import SHAPE_MAX
from windlass.core.validation.bounds import NAME_MAX, QUEUE_MAX, REASON_MAX, SOUGHT_MAX, TAG_MAX, UINT32_MAX

from .fields import Given, Id, Instant, Name, Priority, Shape, StateName
from .values import CodecName, Value


class Plainly(Shape, frozen=True, kw_only=True):
    """There is nothing more to say."""


class PlainItem(Shape, frozen=True, kw_only=True):
    id: Id


class CancelShape(Shape, frozen=True, kw_only=True):
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX)] = "cancelled"
    counts_waiting: Annotated[
        bool, Meta(description="False: children that wait do not keep a parent that waits for them.")
    ] = True
    even_failed: Annotated[bool, Meta(description="A job that failed becomes cancelled too.")] = False
    spares_running: Annotated[bool, Meta(description="One that runs is left alone: it is refused.")] = False


class CancelItem(CancelShape, frozen=True, kw_only=True):
    id: Id


class CancelledShape(Given, frozen=True, kw_only=True):
    outcome: Literal["cancelled", "requested"]


class RevivedShape(Given, frozen=True, kw_only=True):
    outcome: Literal["queued"]


class RequeueShape(Shape, frozen=True, kw_only=True):
    gives_attempt_back: Annotated[bool, Meta(description="The attempt that it was in does not count.")] = False


class RequeueItem(RequeueShape, frozen=True, kw_only=True):
    id: Id


class WokenShape(Given, frozen=True, kw_only=True):
    """`finished`: of a group, which ends when its wait does."""

    outcome: Literal["queued", "scheduled", "finished"]


class DeleteShape(Shape, frozen=True, kw_only=True):
    even_leased: Annotated[bool, Meta(description="Also when somebody works on it.")] = False
    even_waiting: Annotated[bool, Meta(description="Also when it waits for others.")] = True


class DeleteItem(DeleteShape, frozen=True, kw_only=True):
    id: Id


class DeletedShape(Given, frozen=True, kw_only=True):
    outcome: Literal["deleted"]


class EditShape(Shape, frozen=True, kw_only=True):
    """What is not given stays as it is."""

    name: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    run_at_ms: Instant | UnsetType = UNSET
    payload: Value | UnsetType = UNSET
    payload_base64: str | UnsetType = UNSET
    payload_codec: CodecName | UnsetType = UNSET
    repeat: Annotated[str, Meta(description="Another rule; empty: it repeats no more.")] | UnsetType = UNSET
    if_revision: Annotated[
        int, Meta(ge=0, le=UINT32_MAX, description="Only when the job has this revision; 0: whichever it has.")
    ] = 0
    in_any_state: Annotated[bool, Meta(description="Else only a job that waits can be changed.")] = False


class EditItem(EditShape, frozen=True, kw_only=True):
    id: Id


class EditedShape(Given, frozen=True, kw_only=True):
    revision: int
    state: str


def _edited(answer: Edited) -> EditedShape:
    return EditedShape(revision=answer.revision, state=State(answer.state).label)


Sought = Annotated[str, Meta(max_length=SOUGHT_MAX, description="Text that the last error holds, in any case.")]


class SoughtJobsShape(Shape, frozen=True, kw_only=True):
    """Which jobs: as GET /jobs would list them now."""

    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Empty: all queues.")] = ""
    state: Annotated[str, Meta(description="Needed unless there is a tag.", examples=["queued"])] = ""
    tag: Annotated[str, Meta(max_length=TAG_MAX)] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern: * and ?.")] = ""
    created_from_ms: Instant = 0
    created_before_ms: Instant = 0
    ended_from_ms: Instant = 0
    ended_before_ms: Instant = 0
    error: Sought = ""
    error_shape: Annotated[str, Meta(max_length=SHAPE_MAX)] = ""


class ActionShape(Shape, frozen=True, kw_only=True):
    """`retry` is for failed and cancelled jobs, `cancel` for those that have not ended, `delete` for those that nobody
    works on, `requeue` for those that are not queued."""

    verb: Verb
    matches: SoughtJobsShape
    reason: Annotated[str, Meta(min_length=1, max_length=REASON_MAX, description="Of a cancel.")] = "cancelled"


class ActionStatusShape(Given, frozen=True, kw_only=True):
    """An action as it stands. `gone`: jobs that went their way meanwhile."""

    id: Id
    verb: Verb
    matches: SoughtJobsShape
    reason: str
    asked_by: str
    asked_at_ms: int
    state: StateName
    is_cancel_requested: bool
    started_at_ms: int | None
    ended_at_ms: int | None
    total: Annotated[int, Meta(description="Jobs in the list when it was asked for, about; 0: not known.")]
    looked_at: int
    done: int
    gone: int
    refused: int
    refusals: Annotated[dict[str, int], Meta(description="How many, by code.")]


class ActionsShape(Given, frozen=True, kw_only=True):
    """The newest first."""

    actions: list[ActionStatusShape]


def _shape(status: ActionStatus) -> ActionStatusShape:
    given = msgspec.structs.asdict(status) | {"id": format_id(status.id), "matches": _matches(status.listing)}
    return ActionStatusShape(**{name: given[name] for name in ActionStatusShape.__struct_fields__})


def _matches(listing: Listing) -> SoughtJobsShape:
    return SoughtJobsShape(**{name: getattr(listing, name) for name in SoughtJobsShape.__struct_fields__})
