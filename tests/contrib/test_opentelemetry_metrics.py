"""OpenTelemetry metrics, with a real SDK that keeps them in memory."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric

from tests.sdk.apps import process_app
from tests.support.engine_process import EngineProcess
from windlass import Backoff, Context, JobFailed, Windlass
from windlass.contrib.opentelemetry_metrics import SECONDS, instrument, observe_queues

Attributes = dict[str, Any]
pytestmark = pytest.mark.anyio


class Metering:
    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def collect(self) -> dict[str, Metric]:
        data = self._reader.get_metrics_data()
        scopes = [scope for resource in (data.resource_metrics if data else ()) for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self, name: str, **wanted: str) -> list[Any]:
        """Return the points of a metric, without those of other tasks, queues, outcomes or states."""
        metric = self.collect().get(name)
        found = list(metric.data.data_points) if metric else []
        names = {"queue": "messaging.destination.name"}
        keys = {names.get(key, f"windlass.{key}"): value for key, value in wanted.items()}
        return [point for point in found if keys.items() <= dict(point.attributes or {}).items()]

    def value(self, name: str, **wanted: str) -> Any:
        (point,) = self.points(name, **wanted)
        return point.value


@pytest.fixture
def metering() -> Metering:
    return Metering()


async def test_attempts_are_counted_and_timed(app: Windlass, working: Any, metering: Metering) -> None:
    instrument(app, meter_provider=metering.provider)
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task(queue="mail")
    async def wait() -> int:
        started.set()
        await go_on.wait()
        return 1

    @app.task(queue="mail", retry=Backoff(tries=2, base=0))
    def fail() -> None:
        raise ValueError

    async with working(app):
        waiting = await wait.aenqueue()
        await started.wait()
        assert metering.value("windlass.attempts.in_progress", task="wait") == 1
        go_on.set()
        await waiting
        with pytest.raises(JobFailed):
            await (await fail.aenqueue())
    assert metering.value("windlass.attempts.in_progress", task="wait") == 0
    assert metering.value("messaging.client.consumed.messages", task="fail", queue="mail") == 2
    ended = {outcome: metering.value("windlass.attempts.ended", outcome=outcome) for outcome in ("retried", "failed")}
    assert ended == {"retried": 1, "failed": 1}
    assert metering.value("windlass.attempts.ended", task="wait", outcome="finished") == 1


async def test_durations_follow_the_conventions_for_messaging(app: Windlass, working: Any, metering: Metering) -> None:
    instrument(app, meter_provider=metering.provider)

    @app.task(queue="mail", retry=1)
    async def fail() -> None:
        raise ValueError

    async with working(app):
        with pytest.raises(JobFailed):
            await (await fail.aenqueue())
    of_task = {
        "messaging.system": "windlass",
        "messaging.operation.name": "run",
        "messaging.destination.name": "mail",
        "windlass.task": "fail",
    }
    metrics = metering.collect()
    assert {name: metric.unit for name, metric in metrics.items()} == {
        "messaging.client.consumed.messages": "{message}",
        "messaging.process.duration": "s",
        "windlass.attempts.ended": "{attempt}",
        "windlass.attempts.in_progress": "{attempt}",
        "windlass.wait.duration": "s",
    }
    points: list[HistogramDataPoint] = []
    for name in ("messaging.process.duration", "windlass.wait.duration"):
        points += metrics[name].data.data_points  # type: ignore[arg-type]
    took, waited = points
    assert dict(took.attributes or {}) == of_task | {"windlass.outcome": "failed", "error.type": "ValueError"}
    assert dict(waited.attributes or {}) == of_task
    assert took.explicit_bounds == waited.explicit_bounds == SECONDS
    assert (took.count, waited.count) == (1, 1)
    assert 0 < took.sum < 60


@pytest.mark.parametrize(
    ("options", "outcomes"),
    [
        ({"give_up_on": [KeyError]}, ["failed"]),
        ({"retry_on": [OSError]}, ["failed"]),
        ({"retry_on": [KeyError]}, ["retried", "failed"]),
    ],
)
async def test_an_outcome_follows_the_options_of_the_task(
    app: Windlass, working: Any, metering: Metering, options: Any, outcomes: list[str]
) -> None:
    instrument(app, meter_provider=metering.provider)

    @app.task(retry=Backoff(tries=2, base=0), **options)
    async def fail() -> None:
        raise KeyError

    async with working(app):
        with pytest.raises(JobFailed):
            await (await fail.aenqueue())
    found = {dict(point.attributes)["windlass.outcome"] for point in metering.points("windlass.attempts.ended")}
    assert found == set(outcomes)


async def test_a_suspended_run_is_no_error(app: Windlass, working: Any, metering: Metering) -> None:
    instrument(app, meter_provider=metering.provider)

    @app.task
    async def wait(ctx: Context) -> str:
        return await ctx.wait_for("approval", str)

    async with working(app):
        handle = await wait.aenqueue()
        await handle.asignal("approval", "yes")
        assert await handle.aresult(20) == "yes"
    assert metering.points("windlass.attempts.ended", outcome="failed") == []
    assert all("error.type" not in point.attributes for point in metering.points("messaging.process.duration"))


async def test_an_error_in_a_child_process_has_its_own_type(
    engine: EngineProcess, working: Any, metering: Metering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"meters-{os.urandom(4).hex()}")
    monkeypatch.setattr(process_app.app, "middlewares", [])
    instrument(process_app.app, meter_provider=metering.provider)
    async with working(process_app.app, concurrency=1):
        with pytest.raises(JobFailed):
            await (await process_app.wrong.aenqueue("no"))
    (point,) = metering.points("messaging.process.duration", task="wrong", outcome="failed")
    assert point.attributes["error.type"] == "ValueError"


def test_queues_are_read_from_the_engine(app: Windlass, metering: Metering) -> None:
    @app.task(queue="mail")
    async def send() -> None: ...

    observe_queues(app, meter_provider=metering.provider)
    app.enqueue_many(send.call() for _ in range(3))
    send.using(delay="1h").enqueue()
    app.store.clock_offset_ms = 5_000
    app.service.pause("mail").wait()
    assert metering.value("windlass.engine.up") == 1
    assert metering.value("windlass.queue.jobs", queue="mail", state="queued") == 3
    assert metering.value("windlass.queue.jobs", queue="mail", state="scheduled") == 1
    assert metering.value("windlass.queue.oldest", queue="mail") >= 5
    assert metering.value("windlass.queue.size", queue="mail") > 0
    assert metering.value("windlass.queue.paused", queue="mail") == 1


def test_a_collection_survives_an_engine_that_is_away(metering: Metering) -> None:
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as engine:
        app = Windlass(engine.unix_url, patience="50ms")
    observe_queues(app, ["mail"], meter_provider=metering.provider)
    with app:
        assert metering.value("windlass.engine.up") == 0
        assert metering.points("windlass.queue.jobs") == []
