"""Durable state of one run: stored steps, open calls, and the conditions on which it will be suspended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from windlass.core.durable import DEADLINE_STEP, WAITS_MAX, DurableState, Step, StepKind, Wait
from windlass.core.errors import BadInput
from windlass.core.job import Blob, Job
from windlass.core.validation.bounds import DURATION_MAX

from . import effects
from .effects import Effects, current_step
from .failures import Suspended, Waits
from .names import StepNames
from .waits import EngineClock, PendingWait, deadline_at_ms

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.tasks.task import Task

T = TypeVar("T")
PENDING_MAX = WAITS_MAX - 1  # the deadline is one more


class DurableRun:
    """Durable calls of one run of a job. `state`: what earlier runs have stored; None: nothing."""

    def __init__(self, app: Windlass, task: Task[..., Any], job: Job, state: DurableState | None) -> None:
        self.app = app
        self.job = job
        self.is_async = task.is_async
        self._deadline_ms = task.deadline_ms
        self.round = state.round if state is not None else 0
        self.clock = EngineClock(job, state)
        self.names = StepNames()
        self.is_suspended = False
        self.received_payload: Blob | None = None  # payload with results of upstream jobs, which the stored job lacks
        self._stored = {step.name: step for step in state.steps} if state is not None else {}
        self._pending: dict[str, PendingWait] = {}
        self._busy: dict[str, asyncio.Task[Any] | None] = {}  # open calls that do not wait for a condition
        self._changed: asyncio.Event | None = None  # set when a call ends or begins to wait

    def set_inputs(self, job: Job, has_upstream_results: bool) -> None:
        self.job = job
        self.received_payload = job.payload if has_upstream_results else None

    # Calls

    def open(self, name: str, key: str = "", *, waits: bool = False) -> str:
        """Begin a call: return its full name. `waits`: it may suspend the job, which a step must not."""
        self.refuse_if_suspended()
        if waits and (step := current_step.get()):
            raise BadInput(
                f"The step {step!r} cannot wait durably ({name}): a suspended job would run the step again from its "
                "start. Wait between steps, or use a plain sleep."
            )
        return self.names.open(name, key)

    def find(self, name: str, kind: StepKind) -> Step | None:
        """Return what is stored under a name."""
        found = self._stored.get(name)
        if found is not None and found.kind is not kind:
            raise BadInput(
                f"{name!r} is stored as a {found.kind.label}, and this code uses it as a {kind.label}: use another "
                "name."
            )
        return found

    def drive(self, name: str, flow: Effects[T]) -> Any:
        """Run a call that was opened: a coroutine in async tasks, at once in others."""
        return self._drive(name, flow) if self.is_async else self._drive_sync(name, flow)

    def _drive(self, name: str, flow: Effects[T]) -> Coroutine[Any, Any, T]:
        async def drive() -> T:
            self._busy[name] = asyncio.current_task()
            try:
                self.refuse_if_suspended()
                return await effects.run(flow)
            finally:
                self._close(name)

        return drive()

    def _drive_sync(self, name: str, flow: Effects[T]) -> T:
        try:
            return effects.run_sync(flow)
        finally:
            self._close(name)

    def _close(self, name: str) -> None:
        self._busy.pop(name, None)
        self.names.close(name)
        self._notify()

    # Suspension

    def refuse_if_suspended(self) -> None:
        if self.is_suspended:
            self.suspend()

    def suspend(self) -> NoReturn:
        self.is_suspended = True
        raise Suspended(self.collect_waits)

    def collect_waits(self) -> Waits:
        """Return the conditions of the run. A job with a deadline also wakes then, so that a worker can fail it."""
        now_s = time.monotonic()
        waits = tuple(pending.at(now_s) for pending in self._pending.values())
        if not self._deadline_ms:
            return waits
        left_ms = round(self.clock.left_s(deadline_at_ms(self.job, self._deadline_ms)) * 1000)
        return (*waits, Wait(name=DEADLINE_STEP, kind="sleep", for_ms=min(max(0, left_ms), DURATION_MAX)))

    async def close(self) -> None:
        """Cancel calls that are still open when the code has ended, and wait for their end.

        A bare `asyncio.gather` leaves them running when a sibling raises.
        """
        current = asyncio.current_task()
        while tasks := {task for task in self._busy.values() if task is not None and task is not current}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _next_change(self, timeout_s: float | None) -> None:
        if self._changed is None or self._changed.is_set():
            self._changed = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def park(self, pending: PendingWait) -> None:
        """Suspend the run as soon as all its open calls wait, so that no running step is cut off.

        Returns if its time is over before."""
        name = pending.wait.name
        self._begin_wait(name, pending)
        try:
            await asyncio.sleep(0)  # calls of other tasks that were made in the same moment begin to wait, too
            while self._busy and not self.is_suspended and pending.left_s != 0:
                await self._next_change(pending.left_s)
        except asyncio.CancelledError:
            if not self.is_suspended:
                del self._pending[name]
            raise
        if not self.is_suspended and pending.left_s == 0:
            del self._pending[name]
            self._busy[name] = asyncio.current_task()
            return
        self._notify()
        self.suspend()

    def _begin_wait(self, name: str, pending: PendingWait) -> None:
        if len(self._pending) >= PENDING_MAX:
            raise BadInput(f"A job waits for at most {PENDING_MAX} conditions at the same time.")
        self._pending[name] = pending
        self._busy.pop(name, None)
        self._notify()

    def park_sync(self, pending: PendingWait) -> NoReturn:
        self._begin_wait(pending.wait.name, pending)
        self.suspend()


class Park:
    """Effect: wait for a condition, by suspending the run."""

    def __init__(self, run: DurableRun, wait: Wait, left_s: float | None, *, ends_in_place: bool = False) -> None:
        ends_at_s = None if left_s is None else time.monotonic() + left_s
        self._run = run
        self._pending = PendingWait(wait, ends_at_s, ends_in_place)

    def __await__(self) -> Generator[Any, None, None]:
        return self._run.park(self._pending).__await__()

    def wait(self) -> NoReturn:
        self._run.park_sync(self._pending)
