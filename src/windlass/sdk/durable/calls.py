"""Durable calls of the context: the names that a job's code uses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, overload

from windlass.core.durable import DurableState
from windlass.core.errors import BadInput
from windlass.core.job import Job
from windlass.core.retry import Backoff
from windlass.core.validation.durable import check_signal_name
from windlass.sdk.durations import Duration, duration_ms

from .children import check_calls, run_children
from .effects import Effects, FunctionCall, current_step
from .iteration import Each, Rows
from .run import DurableRun
from .signal import run_wait
from .sleep import run_sleep
from .step import StepCall, make_step_id, refuse_in_transaction, run_step
from .stubs import find_function
from .values import result_type

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.tasks.task import Call, Task

T = TypeVar("T")
C = TypeVar("C")
Ts = TypeVarTuple("Ts")


class DurableCalls:
    """Base class of the context. In sync tasks, the calls return their values without `await`."""

    app: Windlass
    task: Task[..., Any]
    _job: Job | None
    has_upstream_results: bool
    durable: DurableRun | None = None  # made by the first durable call, or from the state that earlier runs have stored

    def load_durable(self, state: DurableState) -> None:
        """Set the stored state of a durable job, before its code starts."""
        if self._job is not None:
            self.durable = DurableRun(self.app, self.task, self._job, state)

    def note_suspension(self) -> None:
        """Note that the code has been suspended in a child process."""
        self._durable_run("suspend").is_suspended = True

    def _durable_run(self, call: str) -> DurableRun:
        if self.durable is None:
            if self._job is None:
                raise BadInput(f"This task was called inline, so it has no job that could wait: {call} needs a worker.")
            self.durable = DurableRun(self.app, self.task, self._job, None)
            self.durable.set_inputs(self._job, self.has_upstream_results)
        return self.durable

    # Steps

    @overload
    def step(
        self,
        name: str,
        fn: Callable[[*Ts], Awaitable[T]],
        *args: *Ts,
        key: str = "",
        retry: Backoff | None = None,
        timeout: Duration | None = None,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def step(
        self,
        name: str,
        fn: Callable[[*Ts], T],
        *args: *Ts,
        key: str = "",
        retry: Backoff | None = None,
        timeout: Duration | None = None,
    ) -> T: ...
    def step(  # type: ignore[misc] # mypy does not compare TypeVarTuples with Any
        self,
        name: str,
        fn: Callable[..., Any],
        *args: Any,
        key: str = "",
        retry: Backoff | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """Call a function and store its result under a name. Later attempts get the stored result.

        A step that runs while its worker dies runs again; `step_id` is the same then. Without `retry`, an exception
        passes and the policy of the task applies. With it, the step is tried again by itself; when its tries are used
        up, StepFailed is raised, in this attempt and in all later ones.
        """
        refuse_in_transaction(name)
        function = find_function(self.app, name, fn, self.task.is_async)
        timeout_ms = 0 if timeout is None else duration_ms("timeout", timeout)
        if self._job is None:
            return self._call_inline(FunctionCall(name, function, args, timeout_ms))
        run = self._durable_run("step")
        full = run.open(name, key)
        call = StepCall(full, function, args, result_type(fn, args), retry, timeout_ms)
        return run.drive(full, run_step(run, call))

    def _call_inline(self, call: FunctionCall) -> Any:
        async def call_function() -> Any:
            return await call

        return call_function() if self.task.is_async else call.wait()

    @property
    def step_id(self) -> str:
        """Idempotency key of the running step: the same in each attempt. For a payment provider and the like."""
        name = current_step.get()
        if not name:
            raise BadInput("ctx.step_id is the key of a running step: read it in the function of a step.")
        return name if self._job is None else make_step_id(self._job, name)

    # Waits

    def sleep(self, duration: Duration, *, name: str = "sleep", key: str = "") -> Coroutine[Any, Any, None]:
        """Sleep. A sleep of more than two seconds ends this run: it frees the slot and survives restarts."""
        length_ms = duration_ms("duration", duration)
        if self._job is None:
            return self._sleep_inline(length_ms / 1000)  # type: ignore[no-any-return]
        run = self._durable_run("sleep")
        full = run.open(name, key, waits=True)
        return self._drive(run, full, run_sleep(run, full, length_ms))

    def _sleep_inline(self, length_s: float) -> Any:
        return asyncio.sleep(length_s) if self.task.is_async else time.sleep(length_s)

    @overload
    def wait_for(
        self, signal: str, type: type[T], *, timeout: Duration | None = None, key: str = ""
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def wait_for(
        self, signal: str, type: Any = Any, *, timeout: Duration | None = None, key: str = ""
    ) -> Coroutine[Any, Any, Any]: ...
    def wait_for(
        self,
        signal: str,
        type: Any = Any,  # noqa: A002
        *,
        timeout: Duration | None = None,
        key: str = "",
    ) -> Any:
        """Wait for a signal and return its value. A signal that came before is taken. Raises SignalTimeout."""
        check_signal_name(signal)
        timeout_ms = None if timeout is None else duration_ms("timeout", timeout)
        run = self._durable_run("wait_for")
        full = run.open(signal, key, waits=True)
        return self._drive(run, full, run_wait(run, full, signal, type, timeout_ms))

    # Children

    def run(self, call: Call[T], *, name: str = "", key: str = "") -> Coroutine[Any, Any, T]:
        """Run a child job and return its result. Raises ChildFailed."""
        check_calls([call])
        run = self._durable_run("run")
        full = run.open(name or call.task.name, key, waits=True)
        return self._drive(run, full, _first(run_children(run, full, [call], needs_all=False)))

    def gather(
        self,
        *calls: Call[T] | Iterable[Call[T]],
        return_exceptions: bool = False,
        name: str = "gather",
        key: str = "",
    ) -> Coroutine[Any, Any, list[T]]:
        """Run child jobs and return their results in order. The first failure raises ChildFailed and cancels the rest.

        With `return_exceptions`, all children run to their end, and failures are returned in their places.
        """
        from windlass.sdk.tasks.task import Call

        parts = [call for part in calls for call in ([part] if isinstance(part, Call) else part)]
        check_calls(parts)
        run = self._durable_run("gather")
        full = run.open(name, key, waits=True)
        return self._drive(run, full, run_children(run, full, parts, return_exceptions) if parts else _empty())

    def _drive(self, run: DurableRun, name: str, flow: Effects[T]) -> Coroutine[Any, Any, T]:
        """Drive a call. In sync tasks this returns the value itself; `SyncContext` has the types for them."""
        return run.drive(name, flow)  # type: ignore[no-any-return]

    # Iterations

    def each(
        self,
        name: str,
        source: Callable[[C], Rows[T]],
        start: C = 0,  # type: ignore[assignment]
        *,
        cursor: Callable[[T], C] | None = None,
        every: int = 1,
    ) -> Each[T]:
        """Iterate over `source(cursor)`, and continue in a later attempt behind the last completed row.

        The cursor counts rows from `start`, or `cursor(row)` computes it. It is stored after every `every` rows.
        """
        run = self._durable_run("each") if self._job is not None else None
        if run is None:
            return Each(None, name, source, start, cursor, every)
        run.refuse_if_suspended()
        return Each(run, run.names.take(name), source, start, cursor, every)


def _first(flow: Effects[list[T]]) -> Effects[T]:
    (value,) = yield from flow
    return value


def _empty() -> Effects[list[Any]]:
    yield from ()
    return []
