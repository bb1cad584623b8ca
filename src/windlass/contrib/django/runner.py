"""Runner of Django's tasks as jobs, in a thread or on the event loop.

Database connections are handled as around a request, Django's signals are sent, and a failure is stored with the path
of its class.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections

from windlass.core.job import Job, Timeline
from windlass.sdk.context import Context
from windlass.sdk.durable.failures import Suspended
from windlass.sdk.failures import GiveUp, Retry, Stopped, decode_error, encode_exception
from windlass.sdk.tasks.codec import encode
from windlass.sdk.worker.outcome import AttemptFailure, FailedInChild

from . import results
from .interface import TaskContext, normalize_json, signals, task_backends

if TYPE_CHECKING:
    from .application import DjangoApplication

CLASS_PATH_MAX = 500


def in_thread(app: DjangoApplication, task: Any) -> Callable[..., Any]:
    def run_in_thread(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
        close_old_connections()
        try:
            earlier = app.service.job([ctx.job.id]).one().wait() if ctx.attempt > 1 else None
            attempt = _Attempt(app, task, ctx.job, earlier)
            signals.task_started.send_robust(attempt.sender, task_result=attempt.result)
            try:
                value = normalize_json(task.func(*attempt.arguments(args), **kwargs))
            except (Retry, GiveUp, Stopped, Suspended):
                raise
            except BaseException as error:  # SystemExit and KeyboardInterrupt fail the task, too
                failure = attempt.failed(error)
                if attempt.is_over:
                    signals.task_finished.send_robust(attempt.sender, task_result=attempt.result)
                raise FailedInChild(failure) from error
            attempt.succeeded(value)
            signals.task_finished.send_robust(attempt.sender, task_result=attempt.result)
            return value
        finally:
            close_old_connections()

    return run_in_thread


def in_event_loop(app: DjangoApplication, task: Any) -> Callable[..., Awaitable[Any]]:
    async def run_in_event_loop(ctx: Context, args: list[Any], kwargs: dict[str, Any]) -> Any:
        # Sync code in the task gets its own thread, as in a request, so that a slow query blocks no other job.
        async with ThreadSensitiveContext():
            try:
                service = await app.aservice()
                earlier = await service.job([ctx.job.id]).one() if ctx.attempt > 1 else None
                attempt = _Attempt(app, task, ctx.job, earlier)
                await signals.task_started.asend_robust(attempt.sender, task_result=attempt.result)
                try:
                    value = normalize_json(await task.func(*attempt.arguments(args), **kwargs))
                except (Retry, GiveUp, Suspended):
                    raise
                except BaseException as error:  # SystemExit and KeyboardInterrupt fail the task, too
                    if _is_cancelled(error):
                        raise
                    failure = attempt.failed(error)
                    if attempt.is_over:
                        await signals.task_finished.asend_robust(attempt.sender, task_result=attempt.result)
                    raise FailedInChild(failure) from error
                attempt.succeeded(value)
                await signals.task_finished.asend_robust(attempt.sender, task_result=attempt.result)
                return value
            finally:
                await sync_to_async(connections.close_all)()

    return run_in_event_loop


def _is_cancelled(error: BaseException) -> bool:
    """Report whether the worker has cancelled this asyncio task. A task can also raise CancelledError itself."""
    current = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and current is not None and current.cancelling() > 0


class _Attempt:
    """Shared part of both runners: Django's result of the run, and the failure for the engine."""

    def __init__(self, app: DjangoApplication, task: Any, job: Job, earlier: Timeline | None) -> None:
        self._app = app
        self._task = task
        self._job = job
        self.is_over = False  # no attempt follows
        self.result = results.make_result(task, app.alias, earlier or Timeline(job, []))
        self.sender = type(task_backends[app.alias])

    def arguments(self, args: list[Any]) -> list[Any]:
        return [TaskContext(task_result=self.result), *args] if self._task.takes_context else args

    def succeeded(self, value: Any) -> None:
        results.end(self.result)
        results.succeed(self.result, value)

    def failed(self, error: BaseException) -> AttemptFailure:
        """Make the failure of an attempt that raised.

        A task that raises has failed, as Django's interface defines, unless the backend's options ask for retries.
        Other ends of an attempt, such as a lost worker, are retried in any case.
        """
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # starts at the task's own frame
        is_final = not self._app.retries_errors
        self.is_over = is_final or not self._job.retry.wants_retry(self._job.attempt)
        if self.is_over:
            results.end(self.result)
            results.fail(self.result, error, "".join(traceback.format_exception(error)))
        content = decode_error(encode_exception(error)) | {"class": results.class_path(error)[:CLASS_PATH_MAX]}
        reason = "out_of_memory" if isinstance(error, MemoryError) else "error"
        return AttemptFailure(reason=reason, error=encode(content), is_final=is_final)
