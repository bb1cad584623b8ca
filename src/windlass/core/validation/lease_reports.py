"""What those who hold jobs may say of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import BadInput
from windlass.core.event import Emit
from windlass.core.operations import Conclude, Edit, Fail, Finish, Held, Update

from . import jobs as check

_TOKEN_MAX = 2**48 - 1


def held(request: Any, wanted: type = Held) -> None:
    check.instance("A request", request, wanted)
    check.id_bytes("id", request.id)
    check.whole("token", request.token, 0, _TOKEN_MAX)


def finishes(requests: Sequence[Finish]) -> None:
    """Of all that have ended: a glance is enough for those with nothing to say but that."""
    for request in requests:
        if (
            type(request) is not Finish
            or request.result is not None
            or request.ignore_repeat is not False
            or type(request.id) is not bytes
            or len(request.id) != 16
            or type(request.token) is not int
            or not 0 <= request.token <= _TOKEN_MAX
        ):
            finish(request)


def finish(request: Finish) -> None:
    held(request, Finish)
    if request.result is not None:
        check.new_blob("result", request.result, check.RESULT_MAX)
    check.claim("ignore_repeat", request.ignore_repeat)


def fail(request: Fail) -> None:
    held(request, Fail)
    if request.then not in ("retry", "final", "cancelled"):
        raise BadInput(f"then must be retry, final or cancelled, not {request.then!r}.")
    check.whole("delay_ms", request.delay_ms, 0, check.DURATION_MAX)
    check.text("reason", request.reason, check.REASON_MAX)
    if request.error is not None:
        check.new_blob("error", request.error, check.ERROR_MAX)


def update(request: Update, payload_max: int = check.PAYLOAD_MAX) -> None:
    held(request, Update)
    if request.progress is not None:
        check.number("progress", request.progress, 0, 1)
    if request.note is not None:
        check.opaque("note", request.note, check.NOTE_MAX)
    if request.payload is not None:
        check.new_blob("payload", request.payload, payload_max)


def emit(request: Emit) -> None:
    held(request, Emit)
    check.new_blob("value", request.value, check.EMITTED_MAX)


def complete_with_children(request: Conclude, payload_max: int = check.PAYLOAD_MAX) -> None:
    held(request, Conclude)
    if request.then not in ("finish", "again", "fail"):
        raise BadInput(f"then must be finish, again or fail, not {request.then!r}.")
    if request.run_at_ms is not None and request.delay_ms is not None:
        raise BadInput("Give run_at_ms or delay_ms, not both.")
    if request.then == "again" and request.run_at_ms is None and request.delay_ms is None:
        raise BadInput("A job that goes on needs run_at_ms or delay_ms.")
    if request.delay_ms is not None:
        check.whole("delay_ms", request.delay_ms, 0, check.DURATION_MAX)
    check.text("unique", request.unique, check.UNIQUE_MAX, may_be_empty=True)
    check.text("reason", request.reason, check.REASON_MAX)
    check.claim("if_parent_waits", request.if_parent_waits)
    check.claim("keeps_members", request.keeps_members)
    check.edit(
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
