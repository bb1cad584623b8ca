"""Prometheus metrics: the attempts of this process, and the queues of the deployment.

The queues are read at each scrape and never between scrapes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from windlass.core.queue import QueueStats
from windlass.sdk.app import Windlass
from windlass.sdk.context import Context

from .attempt_end import attempt_end, seconds_waited
from .queue_stats import count_jobs, oldest_age_s, read_stats

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)


def instrument(app: Windlass, *, registry: CollectorRegistry = REGISTRY, buckets: Sequence[float] = SECONDS) -> None:
    """Count and time the jobs that this app's workers run in this process."""
    app.middlewares.insert(0, _AttemptMetrics(registry, buckets).run)


class _AttemptMetrics:
    def __init__(self, registry: CollectorRegistry, buckets: Sequence[float]) -> None:
        of_task = ("queue", "task")
        self._started = Counter("windlass_attempts_started", "Attempts that have started.", of_task, registry=registry)
        self._ended = Counter(
            "windlass_attempts_ended",
            "Ended runs by outcome: finished, retried, failed, stopped, suspended.",
            (*of_task, "outcome"),
            registry=registry,
        )
        self._running = Gauge("windlass_attempts_in_progress", "Running attempts.", of_task, registry=registry)
        self._seconds = Histogram(
            "windlass_attempt_seconds", "Duration of attempts.", of_task, buckets=buckets, registry=registry
        )
        self._waited = Histogram(
            "windlass_wait_seconds",
            "Time between the moment a job was ready and its start.",
            of_task,
            buckets=buckets,
            registry=registry,
        )

    async def run(self, ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        job = ctx.job
        labels = (job.queue, job.name)
        self._started.labels(*labels).inc()
        self._waited.labels(*labels).observe(seconds_waited(job))
        self._running.labels(*labels).inc()
        began_s = time.perf_counter()
        error: BaseException | None = None
        try:
            return await call_next()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._seconds.labels(*labels).observe(time.perf_counter() - began_s)
            self._running.labels(*labels).dec()
            self._ended.labels(*labels, attempt_end(ctx, error)).inc()


class QueueCollector(Collector):
    """Gauges of queues, read from the engine at each scrape: `REGISTRY.register(QueueCollector(app))`.

    One process of a deployment is enough. While the engine does not answer, `windlass_engine_up` is 0 and the other
    metrics are missing.
    """

    def __init__(self, app: Windlass, queues: Sequence[str] = ()) -> None:
        self._app = app
        self._queues = tuple(queues)  # empty: all queues

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing, so that the registration needs no engine."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily("windlass_engine_up", "1 while the engine answers.")
        found = read_stats(self._app, self._queues)
        up.add_metric((), found is not None)
        yield up
        if found is not None:
            yield from _gauges(found)


def _gauges(found: Sequence[QueueStats]) -> Iterator[GaugeMetricFamily]:
    jobs = GaugeMetricFamily("windlass_queue_jobs", "Jobs by queue and state.", labels=("queue", "state"))
    oldest = GaugeMetricFamily(
        "windlass_queue_oldest_seconds", "Waiting time of the oldest job that can be taken.", labels=("queue",)
    )
    size = GaugeMetricFamily("windlass_queue_bytes", "Bytes of jobs that have not ended.", labels=("queue",))
    paused = GaugeMetricFamily("windlass_queue_paused", "1 while the queue is paused.", labels=("queue",))
    for stats in found:
        for state, count in count_jobs(stats).items():
            jobs.add_metric((stats.queue, state), count)
        oldest.add_metric((stats.queue,), oldest_age_s(stats))
        size.add_metric((stats.queue,), stats.bytes)
        paused.add_metric((stats.queue,), stats.is_paused)
    return iter((jobs, oldest, size, paused))


class Serving:
    """Metrics server over HTTP. It runs until it is closed."""

    def __init__(self, server: Any, thread: Any) -> None:
        self._server = server
        self._thread = thread
        self.port: int = server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve_metrics(port: int, host: str = "127.0.0.1", *, registry: CollectorRegistry = REGISTRY) -> Serving:
    """Serve scrapes at `http://host:port/metrics` in a thread. Port 0 selects a free port."""
    return Serving(*start_http_server(port, host, registry))
