"""Failures of jobs as Sentry gets them from its real SDK."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk

from tests.contrib.sentry_envelopes import Ingest, ingest_server, sentry_in_memory
from tests.sdk.apps import process_app
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import WorkerProcess, wait_until
from windlass import Backoff, Context, GiveUp, JobCancelled, JobFailed, Windlass
from windlass.contrib.sentry import instrument
from windlass.store.store import Store

TWICE = Backoff(tries=2, base=0)
pytestmark = pytest.mark.anyio


@pytest.fixture
def ingest() -> Iterator[Ingest]:
    with sentry_in_memory() as ingest:
        yield ingest


@pytest.fixture
def traced() -> Iterator[Ingest]:
    with sentry_in_memory(traces_sample_rate=1.0) as ingest:
        yield ingest


async def run_failing(handle: Any) -> None:
    with pytest.raises(JobFailed):
        await handle


def exception_of(event: dict[str, Any]) -> dict[str, Any]:
    (value,) = event["exception"]["values"]
    found: dict[str, Any] = value
    return found


@pytest.mark.parametrize("pool", ["async", "thread"])
async def test_a_job_that_has_failed_is_one_event(app: Windlass, working: Any, ingest: Ingest, pool: str) -> None:
    instrument(app)
    instrument(app)  # a second time changes nothing

    def fail(card: str) -> None:
        sentry_sdk.add_breadcrumb(message="paying")
        raise ValueError("no")

    async def afail(card: str) -> None:
        fail(card)

    options: dict[str, Any] = {"name": "pay", "queue": "mail", "retry": TWICE, "tags": ("shop",)}
    task = app.task(**options)(afail if pool == "async" else fail)
    async with working(app):
        handle = await task.aenqueue("4111")
        await run_failing(handle)
    (event,) = ingest.events
    value = exception_of(event)
    assert (value["type"], value["value"], value["mechanism"]) == (
        "ValueError", "no", {"type": "windlass", "handled": False},
    )  # fmt: skip
    assert value["stacktrace"]["frames"][-1]["function"] == "fail"
    assert (event["level"], event["transaction"]) == ("error", "pay")
    assert event["tags"] == {
        "windlass.job_id": handle.id,
        "windlass.task": "pay",
        "windlass.queue": "mail",
        "windlass.attempt": 2,
        "windlass.outcome": "failed",
        "windlass.reason": "error",
    }
    assert event["contexts"]["windlass"]["tags"] == ["shop"]
    assert [crumb["message"] for crumb in event["breadcrumbs"]["values"]] == ["paying"]


async def test_the_payload_is_sent_on_request_only(app: Windlass, working: Any, ingest: Ingest) -> None:
    other = Windlass()
    other.connect(app.store)
    number = os.urandom(8).hex()  # events have the lines of this file, too
    for sender, with_payload in ((app, False), (other, True)):
        instrument(sender, with_payload=with_payload)

        @sender.task(name="pay", retry=1)
        async def fail(card: str) -> None:
            del card  # the variables of the code are an option of sentry-sdk
            raise ValueError("no")

        async with working(sender):
            await run_failing(await fail.aenqueue(number))
    without, with_it = ingest.events
    assert number not in str(without)
    assert number in str(with_it["contexts"]["windlass payload"])


async def test_each_attempt_is_an_event_on_request(app: Windlass, working: Any, ingest: Ingest) -> None:
    instrument(app, every_attempt=True)

    @app.task(retry=TWICE)
    async def fail() -> None:
        raise ValueError("no")

    async with working(app):
        await run_failing(await fail.aenqueue())
    found = [(event["level"], event["tags"]["windlass.outcome"]) for event in ingest.events]
    assert found == [("warning", "retried"), ("error", "failed")]


@pytest.mark.parametrize("error", [GiveUp("never"), KeyError("never")])
async def test_a_job_that_gives_up_is_an_event_at_once(
    app: Windlass, working: Any, ingest: Ingest, error: Exception
) -> None:
    instrument(app)

    @app.task(retry=Backoff(tries=9, base=0), give_up_on=[KeyError])
    async def fail() -> None:
        raise error

    async with working(app):
        await run_failing(await fail.aenqueue())
    (event,) = ingest.events
    assert (exception_of(event)["type"], event["tags"]["windlass.attempt"]) == (type(error).__name__, 1)


async def test_a_timeout_shows_where_the_code_was(app: Windlass, working: Any, ingest: Ingest) -> None:
    instrument(app)

    @app.task(retry=1, timeout="100ms")
    async def hang() -> None:
        await asyncio.Event().wait()

    async with working(app):
        await run_failing(await hang.aenqueue())
    (event,) = ingest.events
    value = exception_of(event)
    assert (value["type"], event["tags"]["windlass.reason"]) == ("Timeout", "timeout")
    assert "hang" in [frame["function"] for frame in value["stacktrace"]["frames"]]


async def test_a_result_that_cannot_be_stored_is_an_event(app: Windlass, working: Any, ingest: Ingest) -> None:
    instrument(app)

    @app.task(keep_result="1h")
    async def odd() -> Any:
        return object()

    async with working(app):
        await run_failing(await odd.aenqueue())
    (event,) = ingest.events
    assert event["tags"]["windlass.reason"] == "bad_result"


async def test_a_failure_in_a_child_process_is_an_event_of_its_parent(
    engine: EngineProcess, working: Any, ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"sentry-{os.urandom(4).hex()}")
    for name, value in (("middlewares", []), ("failure_hooks", []), ("trace_source", None)):
        monkeypatch.setattr(process_app.app, name, value)
    instrument(process_app.app)
    async with working(process_app.app, concurrency=1):
        await run_failing(await process_app.wrong.aenqueue("no"))
    (event,) = ingest.events
    assert (exception_of(event)["type"], exception_of(event)["value"]) == ("ValueError", "no")
    assert "raise ValueError(word)" in event["extra"]["traceback"]


async def test_ends_that_are_no_failures_are_no_events(app: Windlass, working: Any, ingest: Ingest) -> None:
    instrument(app, every_attempt=True)
    started = asyncio.Event()

    @app.task
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    @app.task
    async def wait(ctx: Context) -> str:
        return await ctx.wait_for("approval", str)

    async with working(app):
        hanging, waiting = await hang.aenqueue(), await wait.aenqueue()
        await started.wait()
        await hanging.acancel()
        with pytest.raises(JobCancelled):
            await hanging
        await waiting.asignal("approval", "yes")
        assert await waiting.aresult(20) == "yes"
    assert ingest.events == []


async def test_an_error_that_the_code_has_sent_is_not_sent_again(app: Windlass, working: Any, ingest: Ingest) -> None:
    instrument(app)

    @app.task(retry=1)
    async def fail() -> None:
        try:
            raise ValueError("no")
        except ValueError as error:
            sentry_sdk.capture_exception(error)
            raise

    async with working(app):
        handle = await fail.aenqueue()
        await run_failing(handle)
    (event,) = ingest.events
    assert event["tags"]["windlass.job_id"] == handle.id


async def test_a_run_belongs_to_the_trace_that_enqueued_it(app: Windlass, working: Any, traced: Ingest) -> None:
    instrument(app)

    @app.task(name="pay", queue="mail", retry=1)
    async def fail() -> None:
        raise ValueError("no")

    with sentry_sdk.start_transaction(name="request", op="http.server") as request:
        handle = await fail.aenqueue()
    async with working(app):
        await run_failing(handle)
    sent, run = traced.transactions
    (publish,) = sent["spans"]
    assert (publish["op"], publish["data"]["messaging.message.id"]) == ("queue.publish", handle.id)
    trace = run["contexts"]["trace"]
    assert (trace["trace_id"], trace["parent_span_id"]) == (request.trace_id, publish["span_id"])
    assert (trace["op"], trace["status"], run["transaction"]) == ("queue.process", "internal_error", "pay")
    assert trace["data"]["messaging.destination.name"] == "mail"
    assert trace["data"]["messaging.message.retry.count"] == 0
    assert [event["contexts"]["trace"]["trace_id"] for event in traced.events] == [request.trace_id]


async def test_a_producer_that_does_not_sample_leaves_the_decision_to_the_worker(
    app: Windlass, working: Any, traced: Ingest
) -> None:
    instrument(app)

    @app.task
    async def look() -> None: ...

    given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    async with working(app):
        await (await look.using(trace=given).aenqueue())
        await (await look.using(trace="nonsense").aenqueue())
    first, second = (run["contexts"]["trace"] for run in traced.transactions)
    assert (first["trace_id"], first["status"]) == ("0af7651916cd43dd8448eb211c80319c", "ok")
    assert second["trace_id"] != first["trace_id"]


async def test_streamed_spans_are_left_alone(app: Windlass, working: Any) -> None:
    instrument(app)

    @app.task(retry=1)
    async def fail() -> None:
        raise ValueError("no")

    with sentry_in_memory(traces_sample_rate=1.0, trace_lifecycle="stream") as ingest:
        async with working(app):
            await run_failing(await fail.aenqueue())
        assert [exception_of(event)["type"] for event in ingest.events] == ["ValueError"]
        assert ingest.transactions == []


async def test_without_a_client_jobs_run_as_usual(app: Windlass, working: Any) -> None:
    instrument(app)

    @app.task(retry=1)
    async def look(is_wrong: bool) -> int:
        return 1 // (not is_wrong)

    async with working(app):
        good = await look.aenqueue(False)
        assert (await good, (await good.ainfo()).trace) == (1, "")
        await run_failing(await look.aenqueue(True))


async def test_a_hook_that_raises_changes_no_report(
    app: Windlass, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_always(*_: Any) -> None:
        raise RuntimeError("broken hook")

    app.failure_hooks.append(raise_always)

    @app.task(retry=1)
    async def fail(ctx: Context) -> None:
        raise ValueError("no")

    with caplog.at_level(logging.ERROR, "windlass.worker"):
        async with working(app):
            await run_failing(await fail.aenqueue())
    assert "broken hook" in caplog.text


def test_a_worker_process_sends_each_failure_once(engine: EngineProcess, store: Store) -> None:
    """With the default integrations, over HTTP. The process ends at once after the failure."""
    with ingest_server() as server:
        app = Windlass(engine.unix_url, namespace=store.namespace)
        engine_options = ("--url", engine.unix_url, "--namespace", store.namespace)
        worker = WorkerProcess(
            "sentry_app:app",
            *engine_options,
            directory=Path(__file__).parent / "apps",
            environment={"SENTRY_DSN": server.dsn},
        )
        try:
            app.task(name="fail", retry=1)(lambda card: None).enqueue("4111")
            worker.wait_for_output("(attempt 1 of 1): ValueError: no")
            assert worker.stop() == 0
            wait_until(lambda: server.items, "an envelope")
        finally:
            worker.remove()
            app.close()
    events = [payload for kind, payload in server.items if kind == "event"]
    assert [exception_of(event)["type"] for event in events] == ["ValueError"]
