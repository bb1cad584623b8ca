"""Worker for tests: the real worker class, run in this process. It counts attempts and collects exceptions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from windlass.core.durable import Suspend
from windlass.core.operations import Fail, Finish

from .failures import JobFailed, Retry, Stopped, decode_error
from .worker.job_log import RunReport
from .worker.run import Run
from .worker.worker import Worker

if TYPE_CHECKING:
    from .app import Windlass


@dataclass
class Summary:
    """Counts of attempts. A job that waits for its children and runs again counts as finished twice."""

    finished: int = 0
    retried: int = 0  # failed, to be retried
    failed: int = 0  # failed for good
    cancelled: int = 0
    suspended: int = 0  # runs that ended in a durable wait
    errors: list[Exception] = field(default_factory=list)  # in the order in which they were raised

    @property
    def ran(self) -> int:
        return self.finished + self.retried + self.failed + self.cancelled + self.suspended


class TestWorker(Worker):
    """Worker that runs all runnable jobs and then ends. The test itself runs the background loops."""

    __test__ = False  # pytest must not collect it

    def __init__(self, app: Windlass, summary: Summary, queues: Sequence[str], concurrency: int, most: int) -> None:
        super().__init__(app, queues=queues, concurrency=concurrency, burst=True, has_loops=False, name="testing")
        self._summary = summary
        self._most = most
        self._errors: dict[bytes, BaseException] = {}

    def _on_raised(self, run: Run, error: BaseException) -> None:
        self._errors[run.job.id] = error

    def _on_ended(self, run: Run, outcome: RunReport) -> None:
        error = self._errors.pop(run.job.id, None)
        if isinstance(outcome, Finish):
            self._summary.finished += 1
        elif isinstance(outcome, Suspend):
            self._summary.suspended += 1
        elif isinstance(outcome, Fail):
            self._count(run, outcome, error)
        super()._on_ended(run, outcome)
        if self._summary.ran > self._most and not self._is_stopping:
            self.stop()

    def _count(self, run: Run, outcome: Fail, error: BaseException | None) -> None:
        if outcome.then == "cancelled":
            self._summary.cancelled += 1
            return
        if outcome.then == "retry":
            self._summary.retried += 1
        else:
            self._summary.failed += 1
        if not isinstance(error, Retry) or outcome.then == "final":
            self._summary.errors.append(_reported_error(run, outcome, error))


def _reported_error(run: Run, outcome: Fail, error: BaseException | None) -> Exception:
    """Return the exception that the code raised, or a JobFailed if the code raised none, as in a timeout."""
    if isinstance(error, Exception) and not isinstance(error, asyncio.CancelledError | Stopped | Retry):
        return error
    return JobFailed(run.job.key, outcome.reason, decode_error(outcome.error), run.job.attempt)


@contextlib.contextmanager
def process_tasks_run_here(app: Windlass) -> Iterator[None]:
    """Run tasks of the process pool in this process: a child would import another copy of the app, without the test."""
    elsewhere = [task for task in app.tasks.values() if task.pool == "process"]
    for task in elsewhere:
        task.pool = "async" if task.is_async else "thread"
    try:
        yield
    finally:
        for task in elsewhere:
            task.pool = "process"
