"""Checks of steps, waits, signals and streams."""

from __future__ import annotations

from typing import Any

from windlass.core.durable import (
    CHILDREN_MAX,
    SCHEMA_MAX,
    SIGNAL_NAME_MAX,
    SIGNAL_VALUE_MAX,
    STEP_NAME_MAX,
    STEP_VALUE_MAX,
    STREAM_VALUE_MAX,
    STREAM_VALUES_MAX,
    WAITS_MAX,
    ReceiveSignal,
    Rewind,
    Signal,
    StepKind,
    StepStatus,
    StoreStep,
    StreamWrite,
    Suspend,
    Wait,
)
from windlass.core.errors import BadInput
from windlass.core.text.durations import INSTANT_MAX

from .bounds import DURATION_MAX, ERROR_MAX, UINT32_MAX
from .lease_reports import check_lease_ref
from .values import (
    check_boolean,
    check_duration_or_forever,
    check_id,
    check_instance,
    check_integer,
    check_list,
    check_new_blob,
    check_text,
)

_STORED_KINDS = (StepKind.STEP, StepKind.SLEEP, StepKind.CHILDREN, StepKind.CURSOR)
_STORED_STATUSES = (StepStatus.DONE, StepStatus.FAILED)
_WAIT_KINDS = ("sleep", "signal", "children", "retry")


def check_step_name(what: str, name: Any) -> None:
    check_text(what, name, STEP_NAME_MAX)


def check_signal_name(name: Any) -> None:
    check_text("signal", name, SIGNAL_NAME_MAX)


def check_store_step(request: Any) -> None:
    check_lease_ref(request, StoreStep)
    check_step_name("name", request.name)
    check_instance("kind", request.kind, StepKind)
    check_instance("status", request.status, StepStatus)
    if request.kind not in _STORED_KINDS:
        raise BadInput("kind must be step, sleep, children or cursor. A signal is stored by the engine.")
    is_open_cursor = request.kind is StepKind.CURSOR and request.status is StepStatus.WAITING
    if request.status not in _STORED_STATUSES and not is_open_cursor:
        raise BadInput("status must be done or failed. Only a cursor can wait.")
    if request.value is not None:
        check_new_blob("value", request.value, STEP_VALUE_MAX)
    check_integer("tries", request.tries, 0, UINT32_MAX)
    check_integer("ran_ms", request.ran_ms, 0, DURATION_MAX)
    check_duration_or_forever("lease_ms", request.lease_ms)


def check_suspend(request: Any) -> None:
    check_lease_ref(request, Suspend)
    check_list("waits", request.waits)
    if not 0 < len(request.waits) <= WAITS_MAX:
        raise BadInput(f"A job is suspended on 1 to {WAITS_MAX} waits, not {len(request.waits)}.")
    for wait in request.waits:
        _check_wait(wait)
    if len({wait.name for wait in request.waits}) < len(request.waits):
        raise BadInput("Two waits have the same name.")


def _check_wait(wait: Any) -> None:
    check_instance("A wait", wait, Wait)
    check_step_name("name", wait.name)
    if wait.kind not in _WAIT_KINDS:
        raise BadInput(f"kind must be sleep, signal, children or retry, not {wait.kind!r}.")
    if wait.for_ms is not None:
        check_integer("for_ms", wait.for_ms, 0, DURATION_MAX)
    elif wait.kind in ("sleep", "retry"):
        raise BadInput(f"A wait of kind {wait.kind} needs for_ms.")
    if wait.kind == "signal":
        check_signal_name(wait.signal)
    check_list("children", wait.children)
    if (wait.kind == "children") != bool(wait.children) or len(wait.children) > CHILDREN_MAX:
        raise BadInput(f"A wait for children, and no other, names 1 to {CHILDREN_MAX} children.")
    for child in wait.children:
        check_id("children", child)
    check_boolean("needs_all", wait.needs_all)
    check_integer("tries", wait.tries, 0, UINT32_MAX)
    if wait.schema is not None:
        if wait.kind != "signal":
            raise BadInput("Only a wait of kind signal has a schema.")
        check_new_blob("schema", wait.schema, SCHEMA_MAX)
    if wait.error is not None:
        check_new_blob("error", wait.error, ERROR_MAX)


def check_receive_signal(request: Any) -> None:
    check_lease_ref(request, ReceiveSignal)
    check_step_name("name", request.name)
    check_signal_name(request.signal)


def check_signal(request: Any) -> None:
    check_instance("A request", request, Signal)
    check_id("id", request.id)
    check_signal_name(request.name)
    check_new_blob("value", request.value, SIGNAL_VALUE_MAX)
    if request.request_id != b"":
        check_id("request_id", request.request_id)
    if request.occurrence_at_ms is not None:
        check_integer("occurrence_at_ms", request.occurrence_at_ms, 0, INSTANT_MAX)
    check_boolean("is_one_time", request.is_one_time)


def check_rewind(request: Any) -> None:
    check_instance("A request", request, Rewind)
    check_id("id", request.id)
    if request.step != "":
        check_step_name("step", request.step)


def check_stream_write(request: Any) -> None:
    check_lease_ref(request, StreamWrite)
    check_list("values", request.values)
    if not request.values:
        raise BadInput("values must not be empty.")
    for value in request.values:
        check_new_blob("value", value, STREAM_VALUE_MAX)
    check_integer("sequence", request.sequence, 0, UINT32_MAX)
    if request.outside is not None:
        check_integer("outside", request.outside, 0, UINT32_MAX)


def check_stream_position(after: Any, most: Any) -> None:
    check_integer("after", after, 0, 2 * STREAM_VALUES_MAX)
    check_integer("most", most, 1, 1000)
