"""Durable state of a job: stored steps, waits, signals and its stream."""

from __future__ import annotations

from .bounds import (
    CHILDREN_MAX,
    DEADLINE_STEP,
    SCHEMA_MAX,
    SIGNAL_NAME_MAX,
    SIGNAL_VALUE_MAX,
    SIGNALS_MAX,
    STEP_NAME_MAX,
    STEP_VALUE_MAX,
    STEPS_BYTES_MAX,
    STEPS_MAX,
    STREAM_BYTES_MAX,
    STREAM_KEPT_MS,
    STREAM_VALUE_MAX,
    STREAM_VALUES_MAX,
    SUSPENSIONS_MAX,
    WAITS_MAX,
)
from .signals import (
    ReceiveSignal,
    Signal,
    SignalOutcome,
    UnreadSignal,
)
from .state import (
    DurableState,
    OpenWaits,
)
from .steps import (
    Rewind,
    Step,
    StepKind,
    StepStatus,
    StoreStep,
)
from .streams import (
    StreamItem,
    StreamPage,
    StreamWrite,
)
from .waits import (
    Suspend,
    SuspendOutcome,
    Wait,
    WaitKind,
)

__all__ = [
    "CHILDREN_MAX",
    "DEADLINE_STEP",
    "SCHEMA_MAX",
    "SIGNALS_MAX",
    "SIGNAL_NAME_MAX",
    "SIGNAL_VALUE_MAX",
    "STEPS_BYTES_MAX",
    "STEPS_MAX",
    "STEP_NAME_MAX",
    "STEP_VALUE_MAX",
    "STREAM_BYTES_MAX",
    "STREAM_KEPT_MS",
    "STREAM_VALUES_MAX",
    "STREAM_VALUE_MAX",
    "SUSPENSIONS_MAX",
    "WAITS_MAX",
    "DurableState",
    "OpenWaits",
    "ReceiveSignal",
    "Rewind",
    "Signal",
    "SignalOutcome",
    "Step",
    "StepKind",
    "StepStatus",
    "StoreStep",
    "StreamItem",
    "StreamPage",
    "StreamWrite",
    "Suspend",
    "SuspendOutcome",
    "UnreadSignal",
    "Wait",
    "WaitKind",
]
