"""Job log: one line for each run that ends on this worker. Runs that end fast are counted instead.

Both loggers name the job in their message, so formatters do not add it. Integrations that report failures by themselves
ignore `failure_log`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from windlass.core.durable import DEADLINE_STEP, Suspend, Wait
from windlass.core.ids import short_id
from windlass.core.job import Job
from windlass.core.operations import Fail, Finish, LeaseRef
from windlass.core.text.humanize import humanize_duration, list_first, pluralize
from windlass.sdk.failures import decode_error

if TYPE_CHECKING:
    from .run import Run

job_log = logging.getLogger("windlass.worker.jobs")
failure_log = logging.getLogger("windlass.worker.failures")

LINES_PER_S = 100  # more runs that end well within a second are counted by task, in one line
RunReport: TypeAlias = Finish | Fail | Suspend | LeaseRef | None
RunEnd: TypeAlias = Literal["finished", "yielded", "suspended", "cancelled", "released"]
_FURTHER: dict[RunEnd, str] = {
    "finished": "finished",
    "yielded": "wait for their children",
    "suspended": "were suspended",
    "cancelled": "were cancelled",
    "released": "were given back",
}


def job_label(job: Job) -> str:
    """Return the words that name a job in a line: its task, and the end of its id."""
    return f"{job.name} {short_id(job.id)}"


def job_fields(job: Job, **more: object) -> dict[str, Any]:
    """Return the fields of a line in JSON."""
    return {"job_id": job.key, "task_name": job.name, "attempt": job.attempt, "queue_name": job.queue, **more}


class JobLog:
    """Job log of one worker. Lines about ends without a failure can be turned off; failures are always logged."""

    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on and job_log.isEnabledFor(logging.INFO)  # read once: each job would pay for the question
        self._loop = asyncio.get_running_loop()
        self._second_ends_at_s = 0.0
        self._lines = 0  # in this second
        self._further: dict[tuple[str, RunEnd], int] = {}  # runs without a line, by task and end
        self._timer: asyncio.TimerHandle | None = None

    def log_end(self, run: Run, report: RunReport) -> None:
        """Log the end of a run, as it is reported to the engine. If `is_on` is false, only failures need it."""
        if type(report) is Fail and report.then != "cancelled":
            _log_failure(run, report, self._loop.time())
        elif self.is_on and report is not None:
            now_s = self._loop.time()
            if self._has_room(now_s):
                _log_line(run, report, now_s)
            else:
                self._count(run, report)

    def _has_room(self, now_s: float) -> bool:
        if now_s >= self._second_ends_at_s:
            self._second_ends_at_s, self._lines = now_s + 1, 0
        self._lines += 1
        return self._lines <= LINES_PER_S

    def _count(self, run: Run, report: RunReport) -> None:
        key = run.job.name, _end_of(run, report)
        self._further[key] = self._further.get(key, 0) + 1
        if self._timer is None:
            self._timer = self._loop.call_at(self._second_ends_at_s, self.flush)

    def flush(self) -> None:
        """Log the number of runs that got no line of their own."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, self._further = self._further, {}
        for (task, end), count in counts.items():
            job_log.info(
                "%s: %s %s within a second.", task, pluralize(count, "further job"), _FURTHER[end],
                extra={"task_name": task, "outcome": end, "count": count},
            )  # fmt: skip


def _end_of(run: Run, report: RunReport) -> RunEnd:
    if type(report) is Finish:
        return "yielded" if run.context is not None and run.context.has_spawned else "finished"
    if type(report) is Suspend:
        return "suspended"
    return "cancelled" if type(report) is Fail else "released"


def _log_line(run: Run, report: RunReport, now_s: float) -> None:
    end = _end_of(run, report)
    ran_ms = (now_s - run.started_s) * 1000
    took = format_runtime(ran_ms)
    words = {
        "finished": f"finished in {took}",
        "yielded": f"waits for its children after {took}",
        "cancelled": f"was cancelled after {took}",
        "released": f"was given back after {took}: the worker stops",
    }.get(end) or f"suspended after {took}: {_describe_waits(report)}"
    job_log.info("%s %s", job_label(run.job), words, extra=_fields(run, end, ran_ms))


def _fields(run: Run, outcome: str, ran_ms: float) -> dict[str, Any]:
    return job_fields(run.job, outcome=outcome, ran_ms=round(ran_ms, 1))


def _log_failure(run: Run, report: Fail, now_s: float) -> None:
    """Log a failed attempt, with its traceback if it was the last."""
    error = decode_error(report.error)
    kind = "" if str(error.get("type", "")).lower() == report.reason else error.get("type")
    details = [*([report.reason] if report.reason != "error" else []), kind, error.get("message")]
    ran_ms = (now_s - run.started_s) * 1000
    line = "%s failed in %s (%s): %s" + ("\n%s" if report.then != "retry" else "")
    words = [job_label(run.job), format_runtime(ran_ms), _describe_tries(run.job, report)]
    words += [": ".join(str(part) for part in details if part) or "error"]
    words += [str(error.get("traceback", "")).rstrip()] if report.then != "retry" else []
    level = logging.WARNING if report.then == "retry" else logging.ERROR
    outcome = "retried" if report.then == "retry" else "failed"
    failure_log.log(level, line, *words, extra=_fields(run, outcome, ran_ms) | {"reason": report.reason})


def log_late_end(run: Run) -> None:
    """Log that the engine had ended the attempt before the worker reported its end, if the reason is the timeout. That
    happens to code that blocks the event loop."""
    if (ran_s := asyncio.get_running_loop().time() - run.started_s) * 1000 > run.job.timeout_ms > 0:
        failure_log.warning(
            "%s ran into its timeout of %s. The engine had ended its attempt, and has refused its end after %s.",
            job_label(run.job), format_runtime(run.job.timeout_ms), format_runtime(ran_s * 1000),
            extra=_fields(run, "refused", ran_s * 1000),
        )  # fmt: skip


def _describe_tries(job: Job, report: Fail) -> str:
    of = f" of {job.retry.tries}" if job.retry.tries else ""
    if report.then == "retry":
        pause = f"retried in {format_runtime(report.delay_ms)}" if report.delay_ms else "retried at once"
        return f"attempt {job.attempt}{of}, {pause}"
    return f"attempt {job.attempt}{of}{', not retried' if job.retry.wants_retry(job.attempt) else ''}"


def _describe_waits(report: RunReport) -> str:
    waits = report.waits if isinstance(report, Suspend) else ()
    texts = [_describe_wait(wait) for wait in waits if wait.name != DEADLINE_STEP]
    return list_first(texts, len(texts))


def _describe_wait(wait: Wait) -> str:
    if wait.kind == "signal":
        return f"waits for signal {wait.signal}"
    if wait.kind == "children":
        return f"waits for {len(wait.children)} {'child' if len(wait.children) == 1 else 'children'}"
    length = format_runtime(wait.for_ms or 0)
    return f"sleeps for {length}" if wait.kind == "sleep" else f"tries step {wait.name} again in {length}"


def format_runtime(span_ms: float) -> str:
    """Format a duration: 64 ms, 1.5 s, 12 s, 1 h 20 min."""
    if span_ms < 1:
        return "under 1 ms"
    if 1_000 <= span_ms < 10_000:
        return f"{span_ms / 1000:.1f}".removesuffix(".0") + " s"
    return humanize_duration(round(span_ms))
