"""Figures of tasks: a worker sums up how its attempts ended, and reports the sums every few seconds.

They are statistics: a worker that is killed loses those that it has not reported yet.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading

from windlass.core.errors import EngineFull, Refusal, TooManyRequests, UnknownWorker, WindlassError
from windlass.core.operations import Fail, Finish
from windlass.core.stats.task_figures import TASKS_PER_REPORT, TaskSums, bucket_of
from windlass.service import Service

from .job_log import RunReport

log = logging.getLogger("windlass.worker")

REPORT_EVERY_S = 5.0
LAST_REPORT_S = 2.0  # for the report of a worker that stops
_LATER = (EngineFull, TooManyRequests, UnknownWorker)  # the same report may be accepted later


class _Sums:
    """Counters of one task in one queue."""

    __slots__ = ("cancelled", "failed", "retried", "runs")

    def __init__(self) -> None:
        self.failed = self.retried = self.cancelled = 0
        self.runs: dict[int, int] = {}


class TaskRecorder:
    """Sums up ended attempts. The worker's event loop adds them, and the heartbeat thread takes the sums."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str], _Sums] = {}

    def add(self, queue: str, name: str, outcome: RunReport, run_s: float) -> None:
        """Count the end of an attempt. A suspension, a release and a lost lease end no attempt."""
        kind = type(outcome)
        if kind is not Finish and kind is not Fail:
            return
        with self._lock:
            sums = self._sums.get((queue, name))
            if sums is None:
                if len(self._sums) >= TASKS_PER_REPORT:
                    return
                sums = self._sums[queue, name] = _Sums()
            if kind is Finish:
                bucket = bucket_of(run_s * 1000)
                sums.runs[bucket] = sums.runs.get(bucket, 0) + 1
            else:
                _count_failure(sums, outcome)  # type: ignore[arg-type]

    def take(self) -> list[TaskSums]:
        """Return the sums and start new ones."""
        if not self._sums:
            return []
        with self._lock:
            taken, self._sums = self._sums, {}
        return [
            TaskSums(
                queue=queue,
                name=name,
                failed=sums.failed,
                retried=sums.retried,
                cancelled=sums.cancelled,
                runs=sums.runs,
            )
            for (queue, name), sums in taken.items()
        ]


def _count_failure(sums: _Sums, outcome: Fail) -> None:
    if outcome.then == "retry":
        sums.retried += 1
    elif outcome.then == "cancelled":
        sums.cancelled += 1
    else:
        sums.failed += 1


class TaskReporter:
    """Reports the sums of a worker. Sums that could not be sent are sent again, under the same number."""

    def __init__(self, service: Service, worker: bytes, recorder: TaskRecorder) -> None:
        self._service = service
        self._worker = worker
        self._recorder = recorder
        # A process that takes over the id of another must not begin with the number of its last report.
        self._number = secrets.randbelow(2**40)
        self._unsent: list[TaskSums] = []
        self._is_refused = False
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Report every few seconds until cancelled. Without ended attempts nothing is sent."""
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            await self.report()

    async def report(self) -> None:
        """Send the sums since the last report. If the engine is away, the next report sends them again."""
        async with self._lock:
            if not self._unsent:
                self._unsent = self._recorder.take()
                self._number += 1 if self._unsent else 0
            if self._unsent and (self._is_refused or await self._send()):
                self._unsent = []

    async def _send(self) -> bool:
        """Send the sums. Return False if they must be sent again."""
        try:
            await self._service.report_tasks(self._worker, self._number, self._unsent)
        except _LATER:
            return False
        except Refusal as error:
            log.warning("Could not report how tasks ran: %s. The page of a task will not count this worker.", error)
            self._is_refused = True
        except WindlassError as error:
            log.debug("Could not report how tasks ran: %s. The next report repeats it.", error)
            return False
        return True

    async def close(self) -> None:
        """Send the last sums of a worker that stops."""
        try:
            async with asyncio.timeout(LAST_REPORT_S):
                await self.report()
                if not self._unsent:
                    await self.report()  # those that ended since a report that had to be repeated
        except TimeoutError:
            log.debug("The last figures of tasks could not be sent in time.")
