"""Waits for signals."""

from __future__ import annotations

from typing import Any

from windlass.core.durable import ReceiveSignal, Step, StepKind, StepStatus, Wait

from .effects import Effects
from .failures import SignalTimeout
from .run import DurableRun
from .schemas import signal_schema
from .storage import ask, get_service, wait
from .values import decode_value


def run_wait(run: DurableRun, name: str, signal: str, kind: Any, timeout_ms: int | None) -> Effects[Any]:
    """Return the value of a signal that has come, or suspend the job until one comes."""
    found = run.find(name, StepKind.SIGNAL)
    left_s = None if timeout_ms is None else timeout_ms / 1000
    if found is None:
        found = yield from _receive(run, name, signal)
    elif found.wake_at_ms is not None:
        left_s = run.clock.left_s(found.wake_at_ms)
    if found is not None and found.status is StepStatus.DONE:
        return decode_value(name, found.value, kind)
    if found is not None and found.status is StepStatus.TIMED_OUT:
        raise SignalTimeout(signal)
    schema = signal_schema(kind) if found is None else None  # the first wait has stored it
    yield from wait(run, Wait(name=name, kind="signal", signal=signal, schema=schema), left_s)


def _receive(run: DurableRun, name: str, signal: str) -> Effects[Step | None]:
    """Take a signal that came before this wait."""
    service = yield from get_service(run)
    request = ReceiveSignal(id=run.job.id, token=run.job.lease_token, name=name, signal=signal)
    found: Step | None = yield from ask(service.receive_signals([request]).one())
    return found
