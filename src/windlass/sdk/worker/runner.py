"""Runner: runs the code of jobs in their pools and determines their outcome. `stop.py` decides when code must stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from windlass.background.outcomes import TRANSIENT
from windlass.core.job import Job
from windlass.core.operations import Fail, LeaseRef
from windlass.processes.pool import ChildDied, ChildPool, ChildRun
from windlass.retry_loop import RetryLoop
from windlass.sdk.context import JobReporter, current_job
from windlass.sdk.driver import run_flow
from windlass.sdk.durable.failures import Suspended
from windlass.sdk.durable.run import DurableRun
from windlass.sdk.failures import Stopped
from windlass.sdk.flows.inputs import collect_inputs, needs_inputs
from windlass.sdk.tasks.batch import BatchTask
from windlass.sdk.tasks.codec import decode
from windlass.sdk.tasks.injection import SharedDependencies
from windlass.sdk.tasks.task import Task
from windlass.service import Service

from .batching import BatchRunner
from .job_log import JobLog, RunReport, job_fields, job_label
from .outcome import (
    OVERDUE,
    TIMED_OUT,
    AttemptFailed,
    AttemptFailure,
    AttemptResult,
    AttemptSuspended,
    FailedInChild,
    make_cancelled,
    make_failure,
    make_report,
    make_success,
    refuse_swallowed,
)
from .process_job import decode_reply, encode_request
from .run import Run
from .supervision.crashes import CRASHES, make_crash
from .threads import JobThreadPool, ThreadRun

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass

log = logging.getLogger("windlass.worker")

STATE_RETRIES = RetryLoop(log, "Could not read the stored steps of a job", TRANSIENT)


class JobRunner:
    """Runs jobs in the pools of one worker."""

    def __init__(
        self,
        app: Windlass,
        service: Service,
        reporter: JobReporter,
        *,
        threads: JobThreadPool,
        children: ChildPool,
        job_log: JobLog,
        on_ended: Callable[[Run, RunReport], None],
        on_slot_freed: Callable[[], None],
        on_raised: Callable[[Run, BaseException], None],
    ) -> None:
        self._app = app
        self._service = service
        self._reporter = reporter
        self._threads = threads
        self._children = children
        self._job_log = job_log
        self._on_ended = on_ended
        self._on_slot_freed = on_slot_freed
        self._on_raised = on_raised  # gets the exception itself, in any thread
        self._loop = asyncio.get_running_loop()
        self.shared = SharedDependencies(app)
        self._batches = BatchRunner(app.tasks.values(), threads, self.shared)

    def start(self, job: Job, task: Task[..., Any], has_meta: bool) -> Run:
        """Start a job. `has_meta`: its payload may have metadata of the SDK."""
        middlewares = self._app.middlewares
        needs_context = task.needs_context or job.has_members or middlewares
        context = task.context_class(self._app, task, job, self._reporter) if needs_context else None
        run = Run(job, task, context, self._loop.time())
        if task.deadline_ms:
            run.deadline_s = min(run.deadline_s, self._loop.time() + run.left_s)
            if run.left_s <= 0:
                run.code = self._loop.create_task(self._end_overdue(run))
                return run
        is_general = task.pool == "process" or middlewares or task.batch is not None or job.is_durable
        if is_general or needs_inputs(job, has_meta):
            run.code = self._loop.create_task(self._execute(run))  # more than a call of the function
        elif task.pool == "thread":
            self._start_thread(run)
        elif self._loop.get_task_factory() is None:  # as below, but cheaper: asyncio generates no name per task
            run.code = asyncio.Task(self._run_on_loop(run), loop=self._loop, name=task.name)
        else:
            run.code = self._loop.create_task(self._run_on_loop(run), name=task.name)
        return run

    async def _end_overdue(self, run: Run) -> None:
        """End a job whose deadline has passed, without running its code."""
        self._end(run, AttemptFailed(OVERDUE), None)

    # Threads, fast path

    def _start_thread(self, run: Run) -> None:
        run.code = self._threads.start(lambda: self._run_in_thread(run), None)
        run.code.future.add_done_callback(lambda future: self._thread_ended(run, future))

    def _run_in_thread(self, run: Run) -> AttemptResult:
        current_job.set(run.job)
        try:
            return make_success(run.job, run.task.perform(run.job.payload, run.context, self.shared))
        except Stopped:
            raise
        except BaseException as error:
            self._on_raised(run, error)
            return make_failure(error, run.task)

    def _thread_ended(self, run: Run, future: asyncio.Future[AttemptResult]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        self._end(run, future.result() if error is None else make_failure(error, run.task), error)

    # Event loop, fast path

    async def _run_on_loop(self, run: Run) -> None:
        current_job.set(run.job)
        error: BaseException | None = None
        try:
            ended = make_success(run.job, await run.task.perform(run.job.payload, run.context, self.shared))
        except BaseException as raised:
            self._on_raised(run, raised)
            error, ended = raised, make_failure(raised, run.task)
        if run.context is not None and run.context.durable is not None:
            await self._close_calls(run.context.durable)
        self._end(run, ended, error)

    # General path

    async def _execute(self, run: Run) -> None:
        current_job.set(run.job)
        error: BaseException | None = None
        try:
            has_children = await self._load_durable(run) if run.job.is_durable else True
            if needs_inputs(run.job, True):
                await self._collect_inputs(run, has_children)
            ended = await self._run_middlewares(run)
        except BaseException as raised:
            self._on_raised(run, raised)
            error, ended = raised, make_failure(raised, run.task)
        if run.context is not None and run.context.durable is not None:
            await self._close_calls(run.context.durable)
        self._end(run, ended, error)

    async def _load_durable(self, run: Run) -> bool:
        """Read what earlier runs have stored. Returns whether the job may have spawned children."""
        operation = self._service.durable_states([run.job.id]).one()
        state = await STATE_RETRIES.until_done(lambda: operation)
        if run.context is not None:
            run.context.load_durable(state)
        return state.has_yielded

    async def _close_calls(self, durable: DurableRun) -> None:
        """End calls that the code has left open. A stop of the job during this changes only its report."""
        with contextlib.suppress(asyncio.CancelledError):
            await durable.close()

    async def _run_middlewares(self, run: Run) -> AttemptResult:
        if run.context is None or not self._app.middlewares:
            return (
                await self._run_in_child(run)
                if run.task.pool == "process"
                else make_success(run.job, await self._call_function(run))
            )
        layer: Callable[[], Awaitable[Any]] = lambda: self._call_function(run)  # noqa: E731
        for middleware in reversed(self._app.middlewares):
            layer = partial(middleware, run.context, layer)
        return make_success(run.job, await layer())

    async def _call_function(self, run: Run) -> Any:
        """Call the task's function in its pool and return its result."""
        if isinstance(run.task, BatchTask):
            return await self._batches.value(run.task, run.job.payload)
        if run.task.pool == "async":
            return await run.task.perform(run.job.payload, run.context, self.shared)
        if run.task.pool == "thread":
            return await self._stoppable(
                run,
                self._threads.start(
                    lambda: run.task.perform(run.job.payload, run.context, self.shared), copy_context()
                ),
            )
        ended = await self._run_in_child(run)
        if isinstance(ended, AttemptFailed):
            raise FailedInChild(ended.failure)
        if isinstance(ended, AttemptSuspended):
            raise self._suspend(run, ended)
        return decode(ended.result, run.task.result_type) if ended.result else None

    async def _run_in_child(self, run: Run) -> AttemptResult:
        child = self._children.start(encode_request(run.job), memory_bytes=run.task.memory_bytes)
        try:
            return decode_reply(await self._stoppable(run, child))
        except ChildDied as died:
            return await self._count_crash(run, died)

    def _suspend(self, run: Run, ended: AttemptSuspended) -> Suspended:
        """Return the exception that carries the suspension of a child process through the middlewares."""
        if run.context is not None:
            run.context.note_suspension()
        return Suspended(lambda: ended.waits)

    async def _stoppable(self, run: Run, code: ThreadRun[Any] | ChildRun) -> Any:
        """Make the code that runs in a thread or child the target of a stop while it runs."""
        outer, run.code = run.code, code
        try:
            return await code.future
        finally:
            run.code = outer

    async def _count_crash(self, run: Run, died: ChildDied) -> AttemptResult:
        """Make the result of a crash. After too many crashes the job fails, whatever tries are left."""
        timeline = await self._service.job([run.job.id]).one()
        return make_crash(timeline.attempts, run.task.max_crashes, type(died).__name__, str(died), died.reason)

    async def _collect_inputs(self, run: Run, has_children: bool) -> None:
        """Fetch the results of jobs that this job has waited for."""
        found = await run_flow(collect_inputs(self._service, self._app.tasks, run.job, has_children=has_children))
        if run.context is not None:
            run.context.set_inputs(found.job, found.children)
        run.job = found.job

    # Ends

    def _end(self, run: Run, ended: AttemptResult, error: BaseException | None) -> None:
        """Report the end of the code. The report depends on whether it was stopped."""
        run.has_ended = True
        if not run.is_reported:
            run.is_reported = True
            ended = refuse_swallowed(ended, run.context)
            outcome = self._make_run_report(run, ended, error) if run.stop_reason else make_report(run.job, ended)
            if self._job_log.is_on or type(outcome) is Fail:
                self._job_log.log_end(run, outcome)
            if type(outcome) is Fail:
                self._call_failure_hooks(run, outcome, error)
            self._on_ended(run, outcome)
        self._on_slot_freed()

    def _call_failure_hooks(self, run: Run, outcome: RunReport, error: BaseException | None) -> None:
        """Pass a failed attempt to the hooks of the app. Their errors must not change its report."""
        if type(outcome) is not Fail or outcome.then == "cancelled" or run.context is None:
            return
        for hook in self._app.failure_hooks:
            try:
                hook(run.context, outcome, error)
            except Exception:
                log.exception("A failure hook raised an exception. The report of job %s is sent.", run.job.key)

    def _make_run_report(self, run: Run, ended: AttemptResult, error: BaseException | None) -> RunReport:
        if not run.stop_reason:
            return make_report(run.job, ended)
        if run.stop_reason == "lost":
            return None
        if run.stop_reason == "timeout":
            return make_report(run.job, AttemptFailed(TIMED_OUT))
        if run.stop_reason == "deadline":
            return make_report(run.job, AttemptFailed(OVERDUE))
        was_stopped = isinstance(error, asyncio.CancelledError | Stopped) or is_terminated(ended)
        was_stopped |= run.context is not None and run.context.has_seen_stop
        was_stopped |= run.stop_reason == "cancelled" and isinstance(ended, AttemptSuspended)  # a cancel wins
        if run.stop_reason == "cancelled" and was_stopped:
            return make_cancelled(run.job, None)
        if run.stop_reason == "shutdown" and was_stopped:
            return LeaseRef(run.job.id, run.job.lease_token)
        return make_report(run.job, ended)

    def abandon(self, run: Run) -> None:
        """Report a job whose code does not stop, by the reason of the stop.

        Its slot stays taken while the code runs.
        """
        if run.is_reported:
            return
        run.is_reported = True
        log.error(
            "%s does not stop. Its code still runs and occupies a slot until it returns or the worker is restarted.",
            job_label(run.job),
            extra=job_fields(run.job),
        )
        error = asyncio.CancelledError()
        outcome = self._make_run_report(run, AttemptFailed(AttemptFailure(reason="error")), error)
        self._job_log.log_end(run, outcome)
        self._call_failure_hooks(run, outcome, error)
        self._on_ended(run, outcome)


def is_terminated(ended: AttemptResult) -> bool:
    """Report whether a signal stopped the code of a child process."""
    return isinstance(ended, AttemptFailed) and ended.failure.reason in ("terminated", *CRASHES)
