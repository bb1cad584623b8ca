"""Durable state of a job as its page shows it: steps, waits, unread signals and the end of its stream."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from markupsafe import Markup

from windlass.core.durable import DurableState, Step, StepKind, StepStatus, StreamItem, UnreadSignal
from windlass.core.job import Blob, Job
from windlass.core.states import State
from windlass.core.text.control_characters import escape_control
from windlass.core.text.error_text import blob_line, error_line, error_map
from windlass.dashboard.forms.schema_form import SchemaForm, make_form

from .formats import count
from .gantt import Bar, Gantt, draw_bars
from .values import RenderedValue, render_value, snippet

STEPS_SHOWN = 200  # the last ones; a link shows all
STREAM_SHOWN = 20  # on the page of the job
VALUE_MAX = 16 * 1024  # bytes; a longer value can only be downloaded
VALUES_MAX = 512 * 1024  # bytes of all values that a page decodes
NODES_MAX = 200  # of one value
INLINE_MAX = 60  # characters of a value that is shown without a fold
_STATUSES = {
    StepStatus.DONE: ("done", "good", "finished"),
    StepStatus.FAILED: ("failed", "bad", "failed"),
    StepStatus.TIMED_OUT: ("timed out", "warn", "scheduled"),
}
_WAITING_WORDS = {StepKind.STEP: "tries again", StepKind.SLEEP: "sleeps", StepKind.CURSOR: "goes on"}
_BARS = {StepStatus.FAILED: "bad", StepStatus.TIMED_OUT: "off"}
_WORK = frozenset({StepKind.STEP, StepKind.CURSOR})


class ShownValue(NamedTuple):
    """A value of a step, a signal or a stream. Without `rendered` it can only be downloaded."""

    line: str  # its beginning
    size: int
    rendered: RenderedValue | None
    is_short: bool


class StepRow(NamedTuple):
    """A stored step."""

    step: Step
    kind: str
    status: str
    badge: str  # kind of badge
    icon: str
    duration_ms: int | None  # None: it waits
    value: ShownValue | None
    error: str  # of a step that failed; empty: none
    trace: str
    bars: Markup


class SignalRow(NamedTuple):
    """A signal that no wait has received."""

    signal: UnreadSignal
    value: ShownValue | None


class StreamRow(NamedTuple):
    """An entry of a stream."""

    item: StreamItem
    value: ShownValue | None


class AwaitedSignal(NamedTuple):
    """A wait for a signal, and the form for its value. Without a form, the type is not known."""

    step: Step
    form: SchemaForm | None


class SignalDraft(msgspec.Struct, frozen=True):
    """Typed value of a signal that was refused."""

    signal: str
    value: str
    error: str
    inputs: tuple[str, ...] = ()  # texts of a form with several inputs


class DurableView(msgspec.Struct, frozen=True, kw_only=True):
    state: DurableState
    rows: list[StepRow]
    earlier: int  # steps without a row
    chart: Gantt
    signal_waits: list[AwaitedSignal]  # of a suspended job
    signals: list[SignalRow]  # unread
    stream: list[StreamRow]
    request_id: str  # of the next signal, so that a form that is sent twice has one effect
    draft: SignalDraft | None = None

    @property
    def has_signals(self) -> bool:
        return bool(self.signal_waits or self.signals or self.draft)


class ValueReader:
    """Renders values until VALUES_MAX bytes are decoded. Values are hidden on some servers."""

    def __init__(self, *, is_hidden: bool) -> None:
        self._is_hidden = is_hidden
        self._left = VALUES_MAX

    def show(self, blob: Blob | None) -> ShownValue | None:
        if blob is None or self._is_hidden:
            return None
        length = len(blob.data)
        if length > min(VALUE_MAX, self._left):
            return ShownValue("", length, None, is_short=False)
        self._left -= length
        line = snippet(blob)
        is_short = bool(line) and length <= INLINE_MAX
        return ShownValue(line, length, render_value(blob, nodes_max=NODES_MAX), is_short)


def durable_view(
    found: Job,
    state: DurableState,
    stream: Sequence[StreamItem],
    *,
    is_hidden: bool,
    shows_all: bool = False,
    draft: SignalDraft | None = None,
) -> DurableView:
    """Describe the durable state of a job."""
    values = ValueReader(is_hidden=is_hidden)
    shown = state.steps if shows_all else state.steps[-STEPS_SHOWN:]
    until_ms = found.ended_at_ms or state.now_ms
    chart = _chart(found, shown, until_ms)
    names = set(state.waits) if found.state is State.SUSPENDED else set()
    waits = [step for step in state.steps if step.name in names and step.status is StepStatus.WAITING]
    return DurableView(
        state=state,
        rows=[_row(step, found, until_ms, chart, values) for step in shown],
        earlier=len(state.steps) - len(shown),
        chart=chart,
        signal_waits=[AwaitedSignal(step, make_form(step.schema)) for step in waits if step.kind is StepKind.SIGNAL],
        signals=[SignalRow(signal, values.show(signal.value)) for signal in state.signals],
        stream=stream_rows(stream, values),
        request_id=secrets.token_hex(16),
        draft=draft,
    )


def stream_rows(items: Sequence[StreamItem], values: ValueReader) -> list[StreamRow]:
    return [StreamRow(item, values.show(item.value)) for item in items]


def _chart(found: Job, steps: Sequence[Step], until_ms: int) -> Gantt:
    begun_ms = [step.begun_at_ms for step in steps if step.begun_at_ms]
    from_ms = min(begun_ms, default=found.created_at_ms)
    return Gantt([], 0, from_ms, max(until_ms, from_ms + 1))


def _row(step: Step, found: Job, until_ms: int, chart: Gantt, values: ValueReader) -> StepRow:
    is_open = step.status is StepStatus.WAITING
    status, badge, icon = _STATUSES.get(step.status) or _waiting_status(step, found)
    shown = values.show(step.value) if step.schema is None else None  # the form shows the schema
    error, trace = _error_of(step) if shown else ("", "")
    ended_ms = min(step.ended_at_ms or until_ms, until_ms)
    label = f"{escape_control(step.name)}: {status}"
    bar = Bar(_bar_kind(step), step.begun_at_ms, max(ended_ms, step.begun_at_ms), label)
    return StepRow(
        step=step,
        kind=kind_of(step),
        status=status,
        badge=badge,
        icon=icon,
        duration_ms=None if is_open else max(0, ended_ms - step.begun_at_ms),
        value=None if error else shown,
        error=error,
        trace=trace,
        bars=draw_bars([bar], chart, status),
    )


def _bar_kind(step: Step) -> str:
    is_work = step.kind in _WORK and step.status is StepStatus.DONE
    return "good" if is_work else _BARS.get(step.status, "rest")


def _waiting_status(step: Step, found: Job) -> tuple[str, str, str]:
    if found.state.is_ended:
        return "not over", "neutral", "gone"
    return _WAITING_WORDS.get(step.kind, "waits"), "rest", "suspended"


def kind_of(step: Step) -> str:
    """Return the kind of a step in words."""
    if step.kind is StepKind.SIGNAL:
        return f"signal {step.signal}"
    if step.kind is StepKind.CHILDREN:
        number = len(step.children)
        return f"{count(number)} child job{'' if number == 1 else 's'}" if number else "child jobs"
    return "iteration" if step.kind is StepKind.CURSOR else step.kind.label


def _error_of(step: Step) -> tuple[str, str]:
    """Return the error of a step and its traceback. A piece of work that waits has failed, and will be tried again."""
    is_failed = step.status is StepStatus.FAILED
    is_retried = step.kind is StepKind.STEP and step.status is StepStatus.WAITING
    if step.value is None or not (is_failed or is_retried):
        return "", ""
    line = error_line("error", step.value).strip().partition("\n")[0] or blob_line(step.value)
    return line[:600], str(error_map(step.value).get("traceback") or "").rstrip()
