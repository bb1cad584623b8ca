"""Traces from the enqueue of a job to its run, with a real SDK that keeps its spans in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.sdk.apps import process_app
from tests.support.engine_process import EngineProcess
from windlass import Backoff, Context, GiveUp, JobCancelled, JobFailed, Windlass
from windlass.contrib.opentelemetry import instrument

pytestmark = pytest.mark.anyio


class Tracing:
    def __init__(self) -> None:
        self.kept = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self.kept))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> Sequence[ReadableSpan]:
        return [span for span in self.kept.get_finished_spans() if span.name == name]


@pytest.fixture
def tracing() -> Tracing:
    return Tracing()


@pytest.mark.parametrize("pool", ["async", "thread"])
async def test_a_run_belongs_to_the_trace_that_enqueued_it(
    app: Windlass, working: Any, tracing: Tracing, pool: str
) -> None:
    instrument(app, tracer_provider=tracing.provider)
    instrument(app, tracer_provider=tracing.provider)  # a second time changes nothing

    def seen() -> str:
        with tracing.tracer.start_as_current_span("inside"):
            return f"{trace.get_current_span().get_span_context().trace_id:032x}"

    async def aseen() -> str:
        return seen()

    task = app.task(name="look", queue="mail")(aseen if pool == "async" else seen)
    async with working(app):
        with tracing.tracer.start_as_current_span("request") as request:
            handle = await task.aenqueue()
        trace_id = await handle
    assert trace_id == f"{request.get_span_context().trace_id:032x}"
    (enqueue,), (run,), (inside,) = (tracing.named(name) for name in ("enqueue look", "run look", "inside"))
    assert (enqueue.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert enqueue.parent is not None
    assert enqueue.parent.span_id == request.get_span_context().span_id
    assert run.parent is not None
    assert run.parent.span_id == enqueue.context.span_id
    assert inside.parent is not None
    assert inside.parent.span_id == run.context.span_id
    assert dict(enqueue.attributes or {}) == {
        "messaging.system": "windlass",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "windlass.task": "look",
    }
    assert dict(run.attributes or {}) == {
        "messaging.system": "windlass",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": handle.id,
        "windlass.task": "look",
        "windlass.attempt": 1,
        "windlass.outcome": "finished",
    }


async def test_each_producer_span_has_the_id_of_its_job(app: Windlass, tracing: Tracing) -> None:
    """Jobs that are sent together have a span each, so each span has one id."""
    instrument(app, tracer_provider=tracing.provider)

    @app.task(name="look")
    async def look(number: int = 0) -> int:
        return number

    def ids() -> list[Any]:
        spans = tracing.named("enqueue look")
        tracing.kept.clear()
        return [(span.attributes or {})["messaging.message.id"] for span in spans]

    assert (await look.aenqueue()).id == ids()[0]
    assert [handle.id for handle in await app.aenqueue_many(look.call(number) for number in range(3))] == ids()
    chain = await look.call(1).then(look).aenqueue()
    assert [step.id for step in chain.steps] == ids()
    await app.aclose()
    # Without an event loop, over a fresh connection that does not know the partitions of queues yet.
    assert [(await asyncio.to_thread(look.enqueue)).id] == ids()
    assert [handle.id for handle in await asyncio.to_thread(app.enqueue_many, [look.call(1)] * 2)] == ids()
    app.schedule("nightly", look.call(), cron="0 3 * * *")
    (declared,) = tracing.named("enqueue look")
    assert "messaging.message.id" not in (declared.attributes or {})  # a schedule makes its jobs later
    await app.aclose()


async def test_a_linked_run_has_a_trace_of_its_own(app: Windlass, working: Any, tracing: Tracing) -> None:
    instrument(app, tracer_provider=tracing.provider, linked=True)

    @app.task
    async def look() -> int:
        return 1

    async with working(app):
        await (await look.aenqueue())
    (enqueue,), (run,) = tracing.named("enqueue look"), tracing.named("run look")
    assert run.parent is None
    assert [link.context.span_id for link in run.links] == [enqueue.context.span_id]
    assert run.context.trace_id != enqueue.context.trace_id


async def test_errors_and_retries_are_told(app: Windlass, working: Any, tracing: Tracing) -> None:
    instrument(app, tracer_provider=tracing.provider)

    @app.task(retry=Backoff(tries=3, base=0))
    async def fail(ctx: Context) -> None:
        raise ValueError("no") if ctx.attempt == 1 else GiveUp("never")

    async with working(app):
        with pytest.raises(JobFailed):
            await (await fail.aenqueue())
    first, second = tracing.named("run fail")
    assert [span.attributes and span.attributes["windlass.attempt"] for span in (first, second)] == [1, 2]
    assert [span.attributes and span.attributes["windlass.outcome"] for span in (first, second)] == [
        "retried",
        "failed",
    ]
    assert first.attributes
    assert first.attributes["error.type"] == "ValueError"
    assert first.status.status_code is StatusCode.ERROR
    (event,) = first.events
    assert event.attributes
    assert event.attributes["exception.message"] == "no"
    assert "raise ValueError" in str(event.attributes["exception.stacktrace"])
    assert first.parent == second.parent


async def test_a_stop_is_no_error(app: Windlass, working: Any, tracing: Tracing) -> None:
    instrument(app, tracer_provider=tracing.provider)
    started = asyncio.Event()

    @app.task
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async with working(app):
        handle = await hang.aenqueue()
        await started.wait()
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle
    (run,) = tracing.named("run hang")
    assert run.attributes
    assert run.attributes["windlass.outcome"] == "stopped"
    assert run.status.status_code is StatusCode.UNSET


async def test_a_trace_that_is_given_wins(app: Windlass, tracing: Tracing) -> None:
    instrument(app, tracer_provider=tracing.provider)

    @app.task
    async def look() -> None: ...

    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    handle = await look.using(trace=given).aenqueue()
    assert (await handle.ainfo()).trace == given
    assert tracing.named("enqueue look") == []
    await app.aclose()


async def test_a_job_from_elsewhere_begins_a_trace(app: Windlass, working: Any, tracing: Tracing) -> None:
    @app.task
    async def look() -> int:
        return 1

    handles = [await look.aenqueue(), await look.using(trace="nonsense").aenqueue()]
    instrument(app, tracer_provider=tracing.provider)
    async with working(app):
        assert [await handle for handle in handles] == [1, 1]
    runs = tracing.named("run look")
    assert [run.parent for run in runs] == [None, None]
    assert len({run.context.trace_id for run in runs}) == 2


async def test_a_job_in_a_child_process_has_its_span_in_the_parent(
    engine: EngineProcess, working: Any, tracing: Tracing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"spans-{os.urandom(4).hex()}")
    monkeypatch.setattr(process_app.app, "middlewares", [])
    monkeypatch.setattr(process_app.app, "trace_source", None)
    instrument(process_app.app, tracer_provider=tracing.provider)
    async with working(process_app.app, concurrency=1):
        assert await (await process_app.in_a_loop.aenqueue("word")) == "WORD"
        with pytest.raises(JobFailed):
            await (await process_app.wrong.aenqueue("no"))
    (well,), (wrong,) = tracing.named("run in_a_loop"), tracing.named("run wrong")
    assert well.parent is not None
    assert wrong.attributes
    assert (wrong.attributes["error.type"], wrong.attributes["windlass.outcome"]) == ("ValueError", "failed")
    (event,) = wrong.events
    assert event.attributes
    assert "raise ValueError(word)" in str(event.attributes["exception.stacktrace"])


async def test_a_suspended_run_is_no_error(app: Windlass, working: Any, tracing: Tracing) -> None:
    instrument(app, tracer_provider=tracing.provider)

    @app.task
    async def wait(ctx: Context) -> str:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(ctx.wait_for("approval", str))
        return waiting.result()

    async with working(app):
        handle = await wait.aenqueue()
        while await handle.astate() != "suspended":
            pass
        await handle.asignal("approval", "yes")
        assert await handle.aresult(20) == "yes"
    first, second = tracing.named("run wait")
    assert [(span.attributes or {})["windlass.outcome"] for span in (first, second)] == ["suspended", "finished"]
    assert (first.status.status_code, first.events) == (StatusCode.UNSET, ())
