"""Monitor of a worker's event loop: reports code that blocks it, with its stack.

It runs in the heartbeat thread. While jobs run, it checks four times a second whether the loop handles a callback. An
idle worker is checked with each heartbeat only.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import runner
from .job_log import format_runtime, job_fields, job_label, job_log

if TYPE_CHECKING:
    from windlass.core.job import Job

    from .run import Run

CHECK_EVERY_S = 0.25
CHECKS_MISSED = 3  # then it counts as blocked: a loop that is blocked for a second is reported within this second
ADVICE = "Use a sync task (`def`), or `await asyncio.to_thread(…)` for the call that blocks."


class EventLoopMonitor:
    """Monitor of the event loop in which it is made. `runs` are the running jobs of the worker."""

    def __init__(self, runs: Mapping[bytes, Run]) -> None:
        self._runs = runs
        self._watched = asyncio.get_running_loop()
        self._watched_thread = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None  # of the heartbeat thread
        self._timer: asyncio.TimerHandle | None = None
        self._is_watching = False
        self._asked_at_s = 0.0
        self._answered_at_s = 0.0  # at or after the question: it is answered
        self._missed = 0  # checks without an answer

    # Called in the watched loop

    def begin(self) -> None:
        """Watch the loop, because jobs start. Call it after they are in `runs`."""
        if not self._is_watching and (loop := self._loop) is not None:
            self._is_watching = True
            loop.call_soon_threadsafe(self.check)

    def _answer(self) -> None:
        self._answered_at_s = time.monotonic()

    # Called in the heartbeat thread

    def attach(self) -> None:
        self._loop = asyncio.get_running_loop()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop = None

    def check(self) -> None:
        """Begin to watch the loop, at least until it has answered once."""
        if self._timer is None and self._loop is not None:
            self._is_watching = True
            self._ask()
            self._schedule(self._loop)

    def _ask(self) -> None:
        self._asked_at_s, self._missed = time.monotonic(), 0
        self._watched.call_soon_threadsafe(self._answer)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(CHECK_EVERY_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        # Checks are counted, not the time: a process that was stopped as a whole has missed one.
        self._timer = None
        if self._answered_at_s < self._asked_at_s:
            self._missed += 1
            if self._missed == CHECKS_MISSED:
                self._warn()
        else:
            if self._missed >= CHECKS_MISSED:
                blocked_ms = (self._answered_at_s - self._asked_at_s) * 1000
                job_log.warning("The event loop runs again. It was blocked for %s.", format_runtime(blocked_ms))
            if not self._has_jobs():
                return
            self._ask()
        self._schedule(loop)

    def _has_jobs(self) -> bool:
        """Report whether jobs run; else `begin` wakes the monitor. It may have seen the old flag, so look twice."""
        self._is_watching = bool(self._runs)
        self._is_watching = self._is_watching or bool(self._runs)
        return self._is_watching

    def _warn(self) -> None:
        frame = sys._current_frames().get(self._watched_thread)
        if frame is None:
            return
        what, job = self._find_blocker()
        blocked_ms = (time.monotonic() - self._asked_at_s) * 1000
        job_log.warning(
            "The event loop is blocked: %s has not returned to it for %s, so no other async job of this worker "
            "continues. %s It is here:\n%s", what, format_runtime(blocked_ms), ADVICE, _format_stack(frame),
            extra=job_fields(job) if job else None,
        )  # fmt: skip

    def _find_blocker(self) -> tuple[str, Job | None]:
        """Return the words for what runs in the watched loop, and its job if it is known."""
        task = asyncio.current_task(self._watched)
        job = next((run.job for run in list(self._runs.values()) if task is not None and run.code is task), None)
        if job is not None:
            return job_label(job), job
        return f"the asyncio task {task.get_name()}" if task is not None else "a callback", None


def _format_stack(frame: Any) -> str:
    """Format the stack from the code of the job on; without a job, the whole stack."""
    frames = traceback.extract_stack(frame)
    ours = [at for at, entry in enumerate(frames) if entry.filename == runner.__file__]
    shown = frames[ours[-1] + 1 :] if ours and ours[-1] + 1 < len(frames) else frames
    return "".join(traceback.format_list(shown)).rstrip()
