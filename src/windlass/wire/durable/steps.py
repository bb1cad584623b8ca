"""Shapes of stored steps, and of the reports of lease holders about them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from windlass.core.durable import (
    CHILDREN_MAX,
    SIGNAL_NAME_MAX,
    STEP_NAME_MAX,
    WAITS_MAX,
    DurableState,
    OpenWaits,
    ReceiveSignal,
    Step,
    StepKind,
    StepStatus,
    StoreStep,
    Suspend,
    SuspendOutcome,
    UnreadSignal,
    Wait,
    WaitKind,
)
from windlass.core.ids import format_id, parse_id
from windlass.core.validation.bounds import UINT32_MAX
from windlass.wire.encoding import Encoding
from windlass.wire.fields import Duration, DurationOrForever, Id
from windlass.wire.leases import LeaseRefShape
from windlass.wire.shape import RequestShape, ResponseShape
from windlass.wire.values import CodecName, Value, decode_value, encode_value

StepName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=STEP_NAME_MAX, examples=["charge"])]
SignalName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=SIGNAL_NAME_MAX, examples=["approval"])]
Tries: TypeAlias = Annotated[int, Meta(ge=0, le=UINT32_MAX)]
KindName: TypeAlias = Literal["step", "sleep", "signal", "children", "cursor"]
StatusName: TypeAlias = Literal["waiting", "done", "failed", "timed_out"]


class StepShape(ResponseShape, frozen=True, kw_only=True):
    """A stored step of a job: a piece of work, a sleep, a wait for a signal or for children, or a cursor. While a step
    waits for a signal, its value is the JSON Schema of that signal, if it is known."""

    name: str
    kind: KindName
    status: StatusName
    number: Annotated[int, Meta(description="The order in which the steps of the job were first stored.")]
    tries: int
    begun_at_ms: int
    ended_at_ms: Annotated[int | None, Meta(description="null: it waits.")]
    wake_at_ms: Annotated[
        int | None, Meta(description="The end of a sleep, the timeout of a wait, or the next try of a step.")
    ]
    signal: Annotated[str, Meta(description="The signal that it waits for or has received; else empty.")]
    children: Annotated[list[Id], Meta(description="The jobs that it waits for.")]
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET


def step_shape(step: Step, encoding: Encoding) -> StepShape:
    value = encode_value(step.value, encoding)
    return StepShape(
        name=step.name,
        kind=step.kind.label,  # type: ignore[arg-type]
        status=step.status.label,  # type: ignore[arg-type]
        number=step.number,
        tries=step.tries,
        begun_at_ms=step.begun_at_ms,
        ended_at_ms=step.ended_at_ms,
        wake_at_ms=step.wake_at_ms,
        signal=step.signal,
        children=[format_id(child) for child in step.children],
        value=value.value,
        value_base64=value.base64,
        value_codec=value.codec,
    )


class UnreadSignalShape(ResponseShape, frozen=True, kw_only=True):
    """A signal that no wait has received yet."""

    name: str
    at_ms: int
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET


def unread_signal_shape(signal: UnreadSignal, encoding: Encoding) -> UnreadSignalShape:
    value = encode_value(signal.value, encoding)
    return UnreadSignalShape(
        name=signal.name,
        at_ms=signal.at_ms,
        value=value.value,
        value_base64=value.base64,
        value_codec=value.codec,
    )


class DurableStateShape(ResponseShape, frozen=True, kw_only=True):
    """Everything that is stored for the durable calls of a job, at one instant."""

    now_ms: Annotated[int, Meta(description="The time of the engine.")]
    steps: Annotated[list[StepShape], Meta(description="In the order in which they were first stored.")]
    signals: Annotated[list[UnreadSignalShape], Meta(description="Unread signals, oldest first.")]
    suspensions: Annotated[int, Meta(description="How often the job was suspended.")]
    suspended_at_ms: Annotated[int | None, Meta(description="Since when the job is suspended; null: it is not.")]
    waits: Annotated[list[str], Meta(description="Names of the steps for which the job is suspended.")]
    round: Annotated[int, Meta(description="How often a person has retried or rewound the job.")]
    has_yielded: Annotated[bool, Meta(description="The job has finished a run while children had not ended.")]
    stream_writes: Annotated[int, Meta(description="Values that were written to the stream outside of steps.")]
    stream_length: Annotated[int, Meta(description="Entries of the stream.")]
    bytes: Annotated[int, Meta(description="Size of the durable state.")]


def durable_state_shape(state: DurableState, encoding: Encoding) -> DurableStateShape:
    return DurableStateShape(
        now_ms=state.now_ms,
        steps=[step_shape(step, encoding) for step in state.steps],
        signals=[unread_signal_shape(signal, encoding) for signal in state.signals],
        suspensions=state.suspensions,
        suspended_at_ms=state.suspended_at_ms,
        waits=list(state.waits),
        round=state.round,
        has_yielded=state.has_yielded,
        stream_writes=state.stream_writes,
        stream_length=state.stream_length,
        bytes=state.bytes,
    )


class StoreStepShape(LeaseRefShape, frozen=True, kw_only=True):
    """A step that its holder has run. The first outcome of a name stays. A cursor moves on while its status is
    `waiting`."""

    name: StepName
    kind: Literal["step", "sleep", "children", "cursor"] = "step"
    status: Annotated[Literal["waiting", "done", "failed"], Meta(description="`waiting`: only of a cursor.")] = "done"
    value: Value | UnsetType = UNSET
    value_base64: str | UnsetType = UNSET
    value_codec: CodecName | UnsetType = UNSET
    tries: Tries = 1
    ran_ms: Annotated[Duration, Meta(description="How long the step took, in milliseconds.")] = 0
    lease_ms: Annotated[
        DurationOrForever, Meta(description="The length of the lease from now, in milliseconds; 0: as before.")
    ] = 0

    def store_step(self, job_id: bytes, encoding: Encoding) -> StoreStep:
        return StoreStep(
            id=job_id,
            token=self.token,
            name=self.name,
            kind=StepKind[self.kind.upper()],
            status=StepStatus[self.status.upper()],
            value=decode_value("value", self.value, self.value_base64, self.value_codec, encoding),
            tries=self.tries,
            ran_ms=self.ran_ms,
            lease_ms=self.lease_ms,
        )


class StoreStepItem(StoreStepShape, frozen=True, kw_only=True):
    id: Id


class WaitShape(RequestShape, frozen=True, kw_only=True):
    """A condition on which a job is suspended. It is stored as a step of this name, once: a sleep that is requested
    again keeps its first end. `schema` is a JSON Schema of the signal's value: the dashboard makes a form from it."""

    name: StepName
    kind: WaitKind
    for_ms: Annotated[
        Duration | None,
        Meta(description="The length of a sleep, or the timeout of another wait, in milliseconds; null: no timeout."),
    ] = None
    signal: Annotated[str, Meta(max_length=SIGNAL_NAME_MAX, description="The signal to wait for.")] = ""
    children: Annotated[tuple[Id, ...], Meta(max_length=CHILDREN_MAX, description="The jobs to wait for.")] = ()
    needs_all: Annotated[bool, Meta(description="A failed child does not end the wait for the others.")] = False
    schema: Value | UnsetType = UNSET
    schema_base64: str | UnsetType = UNSET
    schema_codec: CodecName | UnsetType = UNSET
    tries: Annotated[Tries, Meta(description="Tries so far, of a step that is retried.")] = 0
    error: Value | UnsetType = UNSET
    error_base64: str | UnsetType = UNSET
    error_codec: CodecName | UnsetType = UNSET

    def wait(self, encoding: Encoding) -> Wait:
        return Wait(
            name=self.name,
            kind=self.kind,
            for_ms=self.for_ms,
            signal=self.signal,
            children=tuple(map(parse_id, self.children)),
            needs_all=self.needs_all,
            schema=decode_value("schema", self.schema, self.schema_base64, self.schema_codec, encoding),
            tries=self.tries,
            error=decode_value("error", self.error, self.error_base64, self.error_codec, encoding),
        )


class SuspendShape(LeaseRefShape, frozen=True, kw_only=True):
    """The end of a run that waits. The job runs again as soon as one of its conditions is met."""

    waits: Annotated[tuple[WaitShape, ...], Meta(min_length=1, max_length=WAITS_MAX)]

    def suspend(self, job_id: bytes, encoding: Encoding) -> Suspend:
        return Suspend(id=job_id, token=self.token, waits=tuple(wait.wait(encoding) for wait in self.waits))


class SuspendItem(SuspendShape, frozen=True, kw_only=True):
    id: Id


class SuspendedShape(ResponseShape, frozen=True, kw_only=True):
    """The state after the report. `queued`: a condition is already met. `cancelled`: a cancel was requested."""

    outcome: SuspendOutcome


class ReceiveSignalShape(LeaseRefShape, frozen=True, kw_only=True):
    name: Annotated[StepName, Meta(description="The name of the wait.")]
    signal: SignalName

    def receive_signal(self, job_id: bytes) -> ReceiveSignal:
        return ReceiveSignal(id=job_id, token=self.token, name=self.name, signal=self.signal)


class ReceiveSignalItem(ReceiveSignalShape, frozen=True, kw_only=True):
    id: Id


class ReceivedSignalShape(ResponseShape, frozen=True, kw_only=True):
    """The stored step with the value of the signal. null: there is no unread signal of this name."""

    step: StepShape | None


class OpenWaitsShape(ResponseShape, frozen=True, kw_only=True):
    """The waits of a suspended job, without values. A job that is not suspended has none. The value of a wait for a
    signal is the JSON Schema of that signal, if it is known."""

    now_ms: Annotated[int, Meta(description="The time of the engine.")]
    suspended_at_ms: int | None
    steps: list[StepShape]


def open_waits_shape(waits: OpenWaits, encoding: Encoding) -> OpenWaitsShape:
    return OpenWaitsShape(
        now_ms=waits.now_ms,
        suspended_at_ms=waits.suspended_at_ms,
        steps=[step_shape(step, encoding) for step in waits.steps],
    )
