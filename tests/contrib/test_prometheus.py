"""Metrics as Prometheus reads them."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.support.engine_process import EngineProcess
from windlass import Backoff, Context, JobFailed, Windlass
from windlass.contrib.prometheus import QueueCollector, instrument, serve_metrics

pytestmark = pytest.mark.anyio


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry(auto_describe=True)


async def test_attempts_are_counted_and_timed(app: Windlass, working: Any, registry: CollectorRegistry) -> None:
    instrument(app, registry=registry)
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task(queue="mail")
    async def wait() -> int:
        started.set()
        await go_on.wait()
        return 1

    @app.task(queue="mail", retry=Backoff(tries=2, base=0))
    def fail() -> None:
        raise ValueError

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"queue": "mail", **labels})

    async with working(app):
        waiting = await wait.aenqueue()
        await started.wait()
        assert value("windlass_attempts_in_progress", task="wait") == 1
        go_on.set()
        await waiting
        with pytest.raises(JobFailed):
            await (await fail.aenqueue())
    assert value("windlass_attempts_in_progress", task="wait") == 0
    assert value("windlass_attempts_started_total", task="wait") == 1
    assert value("windlass_attempts_started_total", task="fail") == 2
    assert value("windlass_attempts_ended_total", task="wait", outcome="finished") == 1
    assert value("windlass_attempts_ended_total", task="fail", outcome="retried") == 1
    assert value("windlass_attempts_ended_total", task="fail", outcome="failed") == 1
    assert value("windlass_attempt_seconds_count", task="fail") == 2
    assert (value("windlass_attempt_seconds_sum", task="wait") or 0) > 0
    assert value("windlass_wait_seconds_count", task="wait") == 1


def test_queues_are_read_from_the_engine_and_served(app: Windlass, registry: CollectorRegistry) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    registry.register(QueueCollector(app))
    app.enqueue_many(send.call() for _ in range(3))
    send.using(delay="1h").enqueue()
    app.store.clock_offset_ms = 5_000
    app.service.pause("mail").wait()
    with (
        serve_metrics(0, registry=registry) as serving,
        urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/metrics") as answer,
    ):
        lines = answer.read().decode().splitlines()
    figures = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    assert figures["windlass_engine_up"] == 1
    assert figures['windlass_queue_jobs{queue="mail",state="queued"}'] == 3
    assert figures['windlass_queue_jobs{queue="mail",state="scheduled"}'] == 1
    assert figures['windlass_queue_paused{queue="mail"}'] == 1
    assert figures['windlass_queue_oldest_seconds{queue="mail"}'] >= 5
    assert figures['windlass_queue_bytes{queue="mail"}'] > 0


def test_a_scrape_survives_an_engine_that_is_away(registry: CollectorRegistry) -> None:
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as engine:
        app = Windlass(engine.unix_url, patience="50ms")
        registry.register(QueueCollector(app, ["mail"]))
        assert registry.get_sample_value("windlass_queue_jobs", {"queue": "mail", "state": "queued"}) == 0
    with app:
        assert registry.get_sample_value("windlass_engine_up") == 0
        assert registry.get_sample_value("windlass_queue_jobs", {"queue": "mail", "state": "queued"}) is None


async def test_a_suspended_run_is_no_failure(app: Windlass, working: Any, registry: CollectorRegistry) -> None:
    instrument(app, registry=registry)

    @app.task(queue="mail")
    async def wait(ctx: Context) -> str:
        return await ctx.wait_for("approval", str)

    def ended(outcome: str) -> float | None:
        labels = {"queue": "mail", "task": "wait", "outcome": outcome}
        return registry.get_sample_value("windlass_attempts_ended_total", labels)

    async with working(app):
        handle = await wait.aenqueue()
        while await handle.astate() != "suspended":
            pass
        await handle.asignal("approval", "yes")
        assert await handle.aresult(20) == "yes"
    assert (ended("suspended"), ended("finished"), ended("failed"), ended("retried")) == (1, 1, None, None)
