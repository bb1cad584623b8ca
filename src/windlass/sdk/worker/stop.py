"""Stopping of jobs in steps: request, grace period, force.

The last step depends on the pool. A child process is killed. Code on an event loop or in a thread cannot be killed; if
it does not stop, it is abandoned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from windlass.processes.pool import ChildRun
from windlass.sdk.failures import Stopped

from .run import Run, StopReason
from .threads import ThreadRun


class JobStopper:
    """Stops the jobs of one worker."""

    def __init__(self, runs: Callable[[], Iterable[Run]], abandon: Callable[[Run], None]) -> None:
        self._runs = runs
        self._abandon = abandon
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = float("inf")

    # Timeouts: one timer for all jobs

    def watch(self, run: Run) -> None:
        if run.deadline_s < self._timer_at_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at_s = run.deadline_s
            self._timer = self._loop.call_at(run.deadline_s, self._check_deadlines)

    def _check_deadlines(self) -> None:
        now_s = self._loop.time()
        self._timer_at_s = float("inf")
        for run in list(self._runs()):
            if run.deadline_s <= now_s:
                run.deadline_s = float("inf")
                self.stop(run, run.limit)
            else:
                self.watch(run)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Steps of a stop

    def stop(self, run: Run, why: StopReason) -> None:
        """Stop a job. A lost lease or the end of the worker replaces an earlier reason."""
        if run.has_ended or (run.stop_reason and why not in ("lost", "shutdown")):
            return
        is_first = not run.stop_reason
        run.stop_reason = why
        run.request_stop()
        if is_first:
            self._request_stop(run, why)
            self._loop.call_later(run.task.grace_ms / 1000, self._force_stop, run)

    def _request_stop(self, run: Run, why: StopReason) -> None:
        code = run.code
        if isinstance(code, asyncio.Task):
            code.cancel()
        elif isinstance(code, ChildRun):
            code.terminate()
        elif isinstance(code, ThreadRun) and (why != "cancelled" or run.context is None):
            code.interrupt(Stopped)  # code with a context gets time to check `ctx.cancelled` first

    def _force_stop(self, run: Run) -> None:
        if run.has_ended:
            return
        if isinstance(run.code, ChildRun):
            run.code.kill()
            return
        if isinstance(run.code, ThreadRun) and run.stop_reason == "cancelled" and run.context is not None:
            run.code.interrupt(Stopped)
            self._loop.call_later(run.task.grace_ms / 1000, self._give_up, run)
            return
        self._give_up(run)

    def _give_up(self, run: Run) -> None:
        if not run.has_ended:
            self._abandon(run)
