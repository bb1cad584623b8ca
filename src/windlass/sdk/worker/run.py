"""Run of one job by a worker, from its start until its end is reported."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from windlass.background.lease_holder import HeldLease, lease_length_ms
from windlass.core.job import Job
from windlass.core.operations import LeaseRef
from windlass.processes.pool import ChildRun
from windlass.sdk.context import Context
from windlass.sdk.durable.waits import deadline_at_ms
from windlass.sdk.tasks.options import NO_TIMEOUT_MS
from windlass.sdk.tasks.task import Task

from .threads import ThreadRun

# timeout: the time of the run is over. deadline: the time of the whole job. cancelled: by request. lost: another worker
# has its lease. shutdown: the worker ends.
StopReason: TypeAlias = Literal["", "timeout", "deadline", "cancelled", "lost", "shutdown"]


@lru_cache(256)
def _seconds_allowed(timeout_ms: int) -> float:
    """Return a little less than the engine allows, so that the worker, which can stop the code, acts first."""
    is_limited = 0 < timeout_ms < NO_TIMEOUT_MS
    return timeout_ms / 1000 - min(0.5, timeout_ms / 20_000) if is_limited else float("inf")


class Run:
    """Run of one job: its task, context, code and stop reason."""

    __slots__ = (
        "code", "context", "deadline_s", "has_ended", "is_reported", "job", "lease_ms", "started_s", "stop_reason",
        "task",
    )  # fmt: skip

    def __init__(self, job: Job, task: Task[..., Any], context: Context | None, now_s: float) -> None:
        self.job = job
        self.task = task
        self.context = context
        self.code: asyncio.Task[Any] | ThreadRun[Any] | ChildRun | None = None
        self.started_s = now_s
        self.deadline_s = now_s + _seconds_allowed(job.timeout_ms)
        self.lease_ms = lease_length_ms(job)
        self.stop_reason: StopReason = ""
        self.has_ended = False  # its code has returned
        self.is_reported = False  # its outcome is decided; later outcomes are dropped

    @property
    def lease(self) -> HeldLease:
        return HeldLease(LeaseRef(self.job.id, self.job.lease_token), self.lease_ms)

    @property
    def left_s(self) -> float:
        """Time that the whole job had left when it was taken."""
        if not self.task.deadline_ms:
            return float("inf")
        return (deadline_at_ms(self.job, self.task.deadline_ms) - (self.job.started_at_ms or 0)) / 1000

    @property
    def limit(self) -> StopReason:
        """Reason for which the run is stopped first."""
        return "deadline" if self.left_s < _seconds_allowed(self.job.timeout_ms) else "timeout"

    def request_stop(self) -> None:
        if self.context is not None:
            self.context.request_stop()
