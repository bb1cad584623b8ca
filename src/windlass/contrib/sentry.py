"""Sentry: failures of jobs as events, and attempts as transactions in the trace that enqueued the job.

The program calls `sentry_sdk.init`. Until then, nothing here does anything.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

import sentry_sdk
from sentry_sdk.integrations.logging import ignore_logger
from sentry_sdk.scope import Scope, use_isolation_scope
from sentry_sdk.types import Event, Hint
from sentry_sdk.utils import event_from_exception

from windlass.core.ids import format_id
from windlass.core.job import Job
from windlass.core.operations import Fail
from windlass.sdk.app import Windlass
from windlass.sdk.context import Context
from windlass.sdk.failures import Stopped, decode_error
from windlass.sdk.tasks.codec import Unreadable, decode
from windlass.sdk.tasks.task import Call
from windlass.sdk.worker.job_log import failure_log
from windlass.sdk.worker.outcome import FailedInChild

from .attempt_end import attempt_end, seconds_waited

_ORIGIN = "auto.queue.windlass"
_MECHANISM = {"type": "windlass", "handled": False}
_STATUSES = {"failed": "internal_error", "retried": "internal_error", "stopped": "cancelled"}
_SENTRY_TRACE = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})(-1)?")
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def instrument(app: Windlass, *, every_attempt: bool = False, with_payload: bool = False) -> None:
    """Send the failures of the jobs that this app's workers run to Sentry.

    There is one event per job, when it has failed for good; with `every_attempt`, one per failed attempt.
    `with_payload` adds the arguments of the job, which may be personal data.
    """
    if any(isinstance(getattr(hook, "__self__", None), _SentryHooks) for hook in app.failure_hooks):
        return
    hooks = _SentryHooks(every_attempt, with_payload)
    app.failure_hooks.append(hooks.capture)
    app.middlewares.insert(0, hooks.run)
    if app.trace_source is None:
        app.trace_source = hooks.start_trace
    ignore_logger(failure_log.name)  # the events have more than these lines


class _SentryHooks:
    def __init__(self, every_attempt: bool, with_payload: bool) -> None:
        self._every_attempt = every_attempt
        self._with_payload = with_payload
        # The worker decides on the report after the run: the scope of the run must live until then.
        self._scopes: WeakKeyDictionary[Context, Scope] = WeakKeyDictionary()

    def start_trace(self, call: Call[Any], job_id: bytes) -> str:
        """Return the W3C traceparent of a new job, with a span of the enqueue if a transaction is open."""
        if not sentry_sdk.is_initialized():
            return ""
        if _streams_spans():
            return _traceparent(sentry_sdk.get_traceparent())
        with sentry_sdk.start_span(op="queue.publish", name=call.task.name, origin=_ORIGIN) as span:
            span.set_data("messaging.destination.name", call.queue)
            if job_id:
                span.set_data("messaging.message.id", format_id(job_id))
            return _traceparent(span.to_traceparent())

    async def run(self, ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        """Run an attempt in a scope and a trace of its own."""
        if not sentry_sdk.is_initialized():
            return await call_next()
        with sentry_sdk.isolation_scope() as scope:
            scope.clear_breadcrumbs()
            scope.set_transaction_name(ctx.job.name, source="task")
            self._describe(scope, ctx.job)
            self._scopes[ctx] = scope
            transaction = sentry_sdk.continue_trace(
                _trace_headers(ctx.job.trace), op="queue.process", name=ctx.job.name, source="task", origin=_ORIGIN
            )
            if _streams_spans():
                return await call_next()
            with sentry_sdk.start_transaction(transaction) as span:
                return await _run_in_span(span, ctx, call_next)

    def _describe(self, scope: Scope, job: Job) -> None:
        tags = {"job_id": job.key, "task": job.name, "queue": job.queue, "attempt": job.attempt}
        scope.set_tags({f"windlass.{name}": value for name, value in tags.items()})
        scope.set_context("windlass", {**tags, "tries": job.retry.tries, "tags": list(job.tags)})
        if self._with_payload:
            scope.set_context("windlass payload", {"payload": _readable(job)})

    def capture(self, ctx: Context, outcome: Fail, error: BaseException | None) -> None:
        """Send the event of a failed attempt."""
        is_final = outcome.then == "final"
        if not sentry_sdk.is_initialized() or not (is_final or self._every_attempt):
            return
        scope = self._scopes.pop(ctx, None)
        if scope is None:  # the job failed before its code was called
            scope = sentry_sdk.get_isolation_scope().fork()
            self._describe(scope, ctx.job)
        event, hint = _make_event(outcome, error)
        event["level"] = "error" if is_final else "warning"
        event["tags"] = {"windlass.outcome": "failed" if is_final else "retried", "windlass.reason": outcome.reason}
        with use_isolation_scope(scope):
            sentry_sdk.capture_event(event, hint)


async def _run_in_span(span: Any, ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """Run the attempt, and describe it by the words of Sentry's page of queues."""
    job = ctx.job
    span.set_data("messaging.message.id", job.key)
    span.set_data("messaging.destination.name", job.queue)
    span.set_data("messaging.message.receive.latency", round(seconds_waited(job) * 1000))
    span.set_data("messaging.message.retry.count", job.attempt - 1)
    try:
        result = await call_next()
    except BaseException as error:
        span.set_status(_STATUSES.get(attempt_end(ctx, error), "ok"))
        raise
    span.set_status("ok")
    return result


def _make_event(outcome: Fail, error: BaseException | None) -> tuple[Event, Hint]:
    """Make an event of the exception, or of the stored error where the code has raised none of its own: it was stopped,
    or it ran in a child process."""
    if error is None or isinstance(error, FailedInChild | Stopped | asyncio.CancelledError):
        return _make_stored_event(outcome, error), {}
    return _describe_exception(error)


def _describe_exception(error: BaseException) -> tuple[Event, Hint]:
    """Make an event of an exception. Variables of our own functions are removed: they hold the payload."""
    event, hint = event_from_exception(error, client_options=sentry_sdk.get_client().options, mechanism=_MECHANISM)
    for value in event["exception"]["values"]:
        for frame in (value.get("stacktrace") or {}).get("frames", ()):
            if (frame.get("module") or "").startswith("windlass."):
                frame.pop("vars", None)
    return event, hint


def _make_stored_event(outcome: Fail, error: BaseException | None) -> Event:
    stored = decode_error(outcome.error)
    value: dict[str, Any] = {
        "type": str(stored.get("type", outcome.reason)),
        "value": str(stored.get("message", "")),
        "mechanism": _MECHANISM,
    }
    if isinstance(error, Stopped | asyncio.CancelledError):  # where the code was when it had to stop
        stopped, _ = _describe_exception(error)
        value["stacktrace"] = stopped["exception"]["values"][-1].get("stacktrace")
    event: Event = {"exception": {"values": [value]}}
    if stored.get("traceback"):
        event["extra"] = {"traceback": str(stored["traceback"])}
    return event


def _readable(job: Job) -> Any:
    try:
        return decode(job.payload)
    except Unreadable:
        return job.payload.data


def _streams_spans() -> bool:
    """Report whether the program has chosen spans without transactions, which sentry-sdk has as an option."""
    options = sentry_sdk.get_client().options
    modes = (options.get("trace_lifecycle"), (options.get("_experiments") or {}).get("trace_lifecycle"))
    return next((mode for mode in modes if mode is not None), "static") == "stream"


def _traceparent(sentry_trace: str | None) -> str:
    """Convert the value of the header sentry-trace to a W3C traceparent, which a job carries."""
    found = _SENTRY_TRACE.match(sentry_trace or "")
    return f"00-{found[1]}-{found[2]}-{'01' if found[3] else '00'}" if found else ""


def _trace_headers(traceparent: str) -> dict[str, str]:
    """Return the headers of a job's trace. A trace that is not sampled leaves the decision to the worker: W3C has no
    other value for a producer that decides nothing."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if not found:
        return {}
    return {"sentry-trace": f"{found[1]}-{found[2]}{'-1' if int(found[3], 16) & 1 else ''}"}
