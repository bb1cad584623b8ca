"""Sleeps. A short sleep stays in place, a long one suspends the job. A sleep that has ended does not start over."""

from __future__ import annotations

from windlass.core.durable import StepKind, StepStatus, Wait

from .effects import Effects, Pause
from .run import DurableRun
from .storage import store, wait
from .waits import IN_PLACE_MS


def run_sleep(run: DurableRun, name: str, length_ms: int) -> Effects[None]:
    stored = run.find(name, StepKind.SLEEP)
    if stored is not None and stored.status is StepStatus.DONE:
        return
    is_new = stored is None or stored.wake_at_ms is None
    left_s = length_ms / 1000 if is_new else run.clock.left_s(stored.wake_at_ms)  # type: ignore[union-attr, arg-type]
    if left_s * 1000 <= IN_PLACE_MS:
        yield Pause(left_s)
    else:
        yield from wait(run, Wait(name=name, kind="sleep"), left_s, ends_in_place=True)
    if is_new:
        yield from store(run, name, kind=StepKind.SLEEP, ran_ms=length_ms)
