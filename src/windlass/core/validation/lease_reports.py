"""Checks of reports by the holders of leases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import BadInput
from windlass.core.event import Emit
from windlass.core.operations import CompleteWithChildren, Edit, Fail, Finish, LeaseRef, TakenRef, Update

from .bounds import (
    DURATION_MAX,
    EMITTED_MAX,
    ERROR_MAX,
    NOTE_MAX,
    PAYLOAD_MAX,
    REASON_MAX,
    RESULT_MAX,
    TOKEN_MAX,
    UNIQUE_MAX,
)
from .jobs import check_edit
from .values import (
    check_boolean,
    check_duration_or_forever,
    check_free_text,
    check_id,
    check_instance,
    check_integer,
    check_new_blob,
    check_number,
    check_text,
)


def check_lease_ref(request: Any, wanted: type = LeaseRef) -> None:
    check_instance("A request", request, wanted)
    check_id("id", request.id)
    check_integer("token", request.token, 0, TOKEN_MAX)


def check_taken_ref(request: Any) -> None:
    check_lease_ref(request, TakenRef)
    check_duration_or_forever("lease_ms", request.lease_ms)
    if request.parent != b"":
        check_id("parent", request.parent)
    check_boolean("has_members", request.has_members)


def check_finishes(requests: Sequence[Finish]) -> None:
    """Check many finishes. Finishes without a result or option are checked inline, because they are the common case."""
    for request in requests:
        if (
            type(request) is not Finish
            or request.result is not None
            or request.ignore_repeat is not False
            or type(request.id) is not bytes
            or len(request.id) != 16
            or type(request.token) is not int
            or not 0 <= request.token <= TOKEN_MAX
        ):
            check_finish(request)


def check_finish(request: Finish) -> None:
    check_lease_ref(request, Finish)
    if request.result is not None:
        check_new_blob("result", request.result, RESULT_MAX)
    check_boolean("ignore_repeat", request.ignore_repeat)


def check_fail(request: Fail) -> None:
    check_lease_ref(request, Fail)
    if request.then not in ("retry", "final", "cancelled"):
        raise BadInput(f"then must be retry, final or cancelled, not {request.then!r}.")
    check_integer("delay_ms", request.delay_ms, 0, DURATION_MAX)
    check_text("reason", request.reason, REASON_MAX)
    if request.error is not None:
        check_new_blob("error", request.error, ERROR_MAX)


def check_update(request: Update, payload_max: int = PAYLOAD_MAX) -> None:
    check_lease_ref(request, Update)
    if request.progress is not None:
        check_number("progress", request.progress, 0, 1)
    if request.note is not None:
        check_free_text("note", request.note, NOTE_MAX)
    if request.payload is not None:
        check_new_blob("payload", request.payload, payload_max)


def check_emit(request: Emit) -> None:
    check_lease_ref(request, Emit)
    check_new_blob("value", request.value, EMITTED_MAX)


def check_complete_with_children(request: CompleteWithChildren, payload_max: int = PAYLOAD_MAX) -> None:
    check_lease_ref(request, CompleteWithChildren)
    if request.then not in ("finish", "again", "fail"):
        raise BadInput(f"then must be finish, again or fail, not {request.then!r}.")
    if request.run_at_ms is not None and request.delay_ms is not None:
        raise BadInput("Give run_at_ms or delay_ms, not both.")
    if request.then == "again" and request.run_at_ms is None and request.delay_ms is None:
        raise BadInput("then='again' needs run_at_ms or delay_ms.")
    if request.delay_ms is not None:
        check_integer("delay_ms", request.delay_ms, 0, DURATION_MAX)
    check_text("unique", request.unique, UNIQUE_MAX, may_be_empty=True)
    check_text("reason", request.reason, REASON_MAX)
    check_boolean("if_parent_waits", request.if_parent_waits)
    check_boolean("keeps_members", request.keeps_members)
    check_edit(
        Edit(
            id=request.id,
            name=request.name,
            priority=request.priority,
            run_at_ms=request.run_at_ms,
            payload=request.payload,
            repeat=request.repeat,
            attempt=request.attempt,
            if_revision=request.if_revision,
            in_any_state=request.in_any_state,
        ),
        payload_max,
    )
