"""Context of a running job, as its code sees it.

Progress, values and log lines are handed to a reporter that sends them later: no method blocks or needs `await`.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from windlass.core.errors import BadInput
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job

from .driver import run_flow, run_flow_sync
from .durable.calls import DurableCalls
from .durable.stream import StreamWriter
from .durations import Duration, duration_ms
from .failures import Retry
from .flows.inputs import Child
from .flows.spawn import ChildHandle, FlowParts, Spawned, spawn
from .tasks.codec import encode

if TYPE_CHECKING:
    from .app import Windlass
    from .tasks.task import Task

log = logging.getLogger("windlass.job")
current_job: contextvars.ContextVar[Job | None] = contextvars.ContextVar("windlass_job", default=None)


class JobReporter(Protocol):
    """Receiver of the progress, values and log lines of running code."""

    def progress(self, job: Job, fraction: float, note: str) -> None: ...

    def emit(self, job: Job, value: Blob) -> None: ...

    def log(self, job: Job, at_ms: int, level: str, text: str) -> None: ...


class NullReporter:
    """Reporter of a task that is called inline. It drops everything."""

    def progress(self, job: Job, fraction: float, note: str) -> None:
        pass

    def emit(self, job: Job, value: Blob) -> None:
        pass

    def log(self, job: Job, at_ms: int, level: str, text: str) -> None:
        pass


class Context(DurableCalls):
    """Passed to the parameter of a task that is annotated with this class. Sync tasks use `SyncContext`."""

    def __init__(self, app: Windlass, task: Task[..., Any], job: Job | None, reporter: JobReporter) -> None:
        self.app = app
        self.task = task
        self._job = job
        self._reporter = reporter
        self._is_cancelled = False
        self.has_seen_stop = False  # the code has read that it must stop, so its return is a stop
        self.children: list[Child] = []  # children of an earlier run, with their outcomes
        self.has_spawned = False  # in this run, so the job may wait for its children after it
        self.has_upstream_results = False  # the payload has results of other jobs, which the stored job has not
        self._log: JobLog | None = None
        self._stream: StreamWriter | None = None

    @classmethod
    def inline(cls, task: Task[..., Any]) -> Context:
        return task.context_class(task.app, task, None, NullReporter())

    @property
    def job(self) -> Job:
        """The job as the worker took it."""
        if self._job is None:
            raise BadInput("This task was called inline, so it has no job.")
        return self._job

    @property
    def is_inline(self) -> bool:
        """True if the task was called inline, without a job."""
        return self._job is None

    @property
    def id(self) -> str:
        return self._job.key if self._job else ""

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._job.attempt if self._job else 1

    @property
    def flow_id(self) -> str:
        """Id of the flow that the job belongs to. Empty: none."""
        return format_id(self._job.flow.id) if self._job and self._job.flow else ""

    @property
    def flow_name(self) -> str:
        return self._job.flow.name if self._job and self._job.flow else ""

    @property
    def flow_step(self) -> str:
        """Name of the job in its flow. Steps of chains and groups have no name."""
        return self._job.flow.step if self._job and self._job.flow else ""

    @property
    def cancelled(self) -> bool:
        """True if the job must stop: it was cancelled, its time is over, or another worker has its lease."""
        self.has_seen_stop = self._is_cancelled
        return self._is_cancelled

    def request_stop(self) -> None:
        self._is_cancelled = True

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report how far the job is: `progress(0.5)`, or `progress(50, 100, "half of the pages")`."""
        fraction = done / total if total else done
        if self._job is not None:
            self._reporter.progress(self._job, min(max(float(fraction), 0.0), 1.0), note)

    @property
    def stream(self) -> StreamWriter:
        """Stream of the job: its values are kept with the job, and readers start at any position."""
        if self._stream is None:
            self._stream = StreamWriter(self)
        return self._stream

    def emit(self, value: Any) -> None:
        """Send a value to the clients that follow the job's events now. Values for all readers go to `stream`."""
        blob = encode(value)
        if self._job is not None:
            self._reporter.emit(self._job, blob)

    @property
    def log(self) -> JobLog:
        """A logger whose lines are also stored with the attempt."""
        if self._log is None:
            self._log = JobLog(self._job, self._reporter)
        return self._log

    def retry(self, delay: Duration | None = None, reason: str = "") -> NoReturn:
        """End this attempt and retry after the delay, or as the backoff says, while tries are left."""
        raise Retry(None if delay is None else duration_ms("delay", delay), reason)

    # Children

    @property
    def is_resumed(self) -> bool:
        """True if the job has waited for its children and runs again. Their outcomes are in `children`."""
        return bool(self.children)

    def set_inputs(self, job: Job, children: list[Child], *, has_upstream_results: bool | None = None) -> None:
        """Set the job's complete payload and the outcomes of its children, before its code starts."""
        self.has_upstream_results = job is not self._job if has_upstream_results is None else has_upstream_results
        self._job, self.children = job, children
        if self.durable is not None:
            self.durable.set_inputs(job, self.has_upstream_results)

    def spawn(self, part: Spawned, *, key: str = "") -> ChildHandle:
        """Create a child of this job: a call, a chain, a group or a named flow.

        The child starts when this run ends well. The job then waits for its children and runs again. With a key, a
        repeated run does not spawn the child a second time.
        """
        return self.spawn_many({key: part} if key else [part])[0]

    async def aspawn(self, part: Spawned, *, key: str = "") -> ChildHandle:
        return (await self.aspawn_many({key: part} if key else [part]))[0]

    def spawn_many(self, parts: FlowParts) -> list[ChildHandle]:
        """Create many children, all or none: several calls, or a mapping from key to call."""
        return self._note_spawned(run_flow_sync(spawn(self.app.service, self, parts)))

    async def aspawn_many(self, parts: FlowParts) -> list[ChildHandle]:
        return self._note_spawned(await run_flow(spawn(await self.app.aservice(), self, parts)))

    def _note_spawned(self, children: list[ChildHandle]) -> list[ChildHandle]:
        self.has_spawned |= any(child.status != "existing" for child in children)
        return children


def _format_message(msg: object, args: tuple[object, ...]) -> str:
    try:
        return str(msg) % args if args else str(msg)
    except (TypeError, ValueError):  # a wrong format is stored unformatted
        return f"{msg} {args!r}"


class JobLog(logging.LoggerAdapter[logging.Logger]):
    """Standard library logger of a job. Each line goes to the log and to the attempt."""

    def __init__(self, job: Job | None, reporter: JobReporter) -> None:
        super().__init__(log, {})
        self._job = job
        self._reporter = reporter

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self._job is not None:
            at_ms, label = int(time.time() * 1000), logging.getLevelName(level).lower()
            self._reporter.log(self._job, at_ms, label, _format_message(msg, args))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
        super().log(level, msg, *args, **kwargs)
