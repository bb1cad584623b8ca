"""OpenTelemetry traces from enqueue to run.

There is a span for the enqueue of a job and a span for each attempt. The job carries the W3C traceparent between them.
The program decides which spans are sampled and exported.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.context import Context as TraceContext
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from windlass import __version__
from windlass.core.ids import format_id
from windlass.sdk.app import Windlass
from windlass.sdk.context import Context
from windlass.sdk.tasks.task import Call

from .attempt_end import attempt_end, describe_error

_w3c = TraceContextTextMapPropagator()


def instrument(app: Windlass, *, tracer_provider: TracerProvider | None = None, linked: bool = False) -> None:
    """Trace the jobs that this app enqueues and its workers run.

    With `linked`, each attempt has its own trace with a link to the enqueue. Otherwise it belongs to the same trace.
    """
    if app.trace_source is None:
        middleware = _TraceMiddleware(get_tracer("windlass", __version__, tracer_provider), linked)
        app.trace_source = middleware.start_trace
        app.middlewares.insert(0, middleware.run)  # outermost, so that the attempt includes other middlewares


class _TraceMiddleware:
    def __init__(self, tracer: Tracer, is_linked: bool) -> None:
        self._tracer = tracer
        self._is_linked = is_linked

    def start_trace(self, call: Call[Any], job_id: bytes) -> str:
        """Return the traceparent of a new job.

        If the trace is not sampled, only its id is passed on. Jobs that are sent together have a span each, because
        `messaging.message.id` is for spans about one message.
        """
        name = call.task.name
        attributes = _attributes("enqueue", "send", call.queue, name)
        if job_id:
            attributes["messaging.message.id"] = format_id(job_id)
        with self._tracer.start_as_current_span(f"enqueue {name}", kind=SpanKind.PRODUCER, attributes=attributes):
            carrier: dict[str, str] = {}
            _w3c.inject(carrier)
            return carrier.get("traceparent", "")

    async def run(self, ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        job = ctx.job
        attributes = _attributes("run", "process", job.queue, job.name) | {
            "messaging.message.id": job.key,
            "windlass.attempt": job.attempt,
        }
        # Never inherit the context in which the worker was started: it has nothing to do with the job.
        made_in = _w3c.extract({"traceparent": job.trace}, TraceContext()) if job.trace else TraceContext()
        made_by = get_current_span(made_in).get_span_context()
        with self._tracer.start_as_current_span(
            f"run {job.name}",
            TraceContext() if self._is_linked else made_in,
            SpanKind.CONSUMER,
            attributes,
            [Link(made_by)] if self._is_linked and made_by.is_valid else None,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await call_next()
            except BaseException as error:
                _record_error(span, ctx, error)
                raise
            span.set_attribute("windlass.outcome", "finished")
            return result


def _attributes(operation: str, kind: str, queue: str, task: str) -> dict[str, str | int]:
    """Return attributes by the semantic conventions for messaging, and our own where these have none."""
    return {
        "messaging.system": "windlass",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
        "windlass.task": task,
    }


def _record_error(span: Span, ctx: Context, error: BaseException) -> None:
    end = attempt_end(ctx, error)
    span.set_attribute("windlass.outcome", end)
    if end in ("stopped", "suspended"):
        return
    details = describe_error(error)
    span.set_attribute("error.type", details.type)
    span.set_status(Status(StatusCode.ERROR, f"{details.type}: {details.message}"))
    span.add_event(
        "exception",
        {
            "exception.type": details.type,
            "exception.message": details.message,
            "exception.stacktrace": details.traceback,
        },
    )
