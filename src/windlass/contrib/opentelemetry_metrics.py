"""OpenTelemetry metrics: the attempts of this process, and the queues of the deployment.

Names and attributes follow the semantic conventions for messaging where these have one
(https://opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics/). The program decides what is exported.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter

from windlass import __version__
from windlass.core.queue import QueueStats
from windlass.sdk.app import Windlass
from windlass.sdk.context import Context

from .attempt_end import attempt_end, error_type, seconds_waited
from .queue_stats import count_jobs, oldest_age_s, read_stats

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
SAME_COLLECTION_S = 1.0  # the gauges of one collection share one read of the queues
Observe: TypeAlias = Callable[[QueueStats], Iterable[Observation]]


def instrument(app: Windlass, *, meter_provider: MeterProvider | None = None) -> None:
    """Count and time the jobs that this app's workers run in this process."""
    app.middlewares.insert(0, _AttemptMetrics(_meter(meter_provider)).run)


def observe_queues(app: Windlass, queues: Sequence[str] = (), *, meter_provider: MeterProvider | None = None) -> None:
    """Report the depth of these queues, or of all queues. They are read from the engine at each collection, in the
    thread of the reader.

    One process of a deployment is enough. While the engine does not answer, `windlass.engine.up` is 0 and the other
    gauges are missing.
    """
    _QueueGauges(app, tuple(queues)).register(_meter(meter_provider))


def _meter(provider: MeterProvider | None) -> Meter:
    return get_meter("windlass", __version__, provider)


class _AttemptMetrics:
    def __init__(self, meter: Meter) -> None:
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Attempts that have started."
        )
        self._ended = meter.create_counter("windlass.attempts.ended", "{attempt}", "Ended runs by outcome.")
        self._running = meter.create_up_down_counter("windlass.attempts.in_progress", "{attempt}", "Running attempts.")
        self._duration = meter.create_histogram(
            "messaging.process.duration", "s", "Duration of attempts.", explicit_bucket_boundaries_advisory=SECONDS
        )
        self._waited = meter.create_histogram(
            "windlass.wait.duration",
            "s",
            "Time between the moment a job was ready and its start.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )

    async def run(self, ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        attributes = _attributes(ctx)
        self._consumed.add(1, attributes)
        self._waited.record(seconds_waited(ctx.job), attributes)
        self._running.add(1, attributes)
        began_s = time.perf_counter()
        error: BaseException | None = None
        try:
            return await call_next()
        except BaseException as raised:
            error = raised
            raise
        finally:
            took_s = time.perf_counter() - began_s
            self._running.add(-1, attributes)
            end = attempt_end(ctx, error)
            ended = attributes | {"windlass.outcome": end}
            self._ended.add(1, ended)
            if error is not None and end in ("failed", "retried"):
                ended["error.type"] = error_type(error)
            self._duration.record(took_s, ended)


def _attributes(ctx: Context) -> dict[str, str]:
    return {
        "messaging.system": "windlass",
        "messaging.operation.name": "run",
        "messaging.destination.name": ctx.job.queue,
        "windlass.task": ctx.job.name,
    }


class _QueueGauges:
    def __init__(self, app: Windlass, queues: tuple[str, ...]) -> None:
        self._app = app
        self._queues = queues  # empty: all queues
        self._lock = threading.Lock()
        self._found: list[QueueStats] | None = None
        self._found_at_s = -SAME_COLLECTION_S

    def register(self, meter: Meter) -> None:
        meter.create_observable_gauge("windlass.engine.up", [self._observe_engine], "1", "1 while the engine answers.")
        gauges: tuple[tuple[str, Observe, str, str], ...] = (
            ("windlass.queue.jobs", _count, "{job}", "Jobs by queue and state."),
            ("windlass.queue.oldest", _age, "s", "Waiting time of the oldest job that can be taken."),
            ("windlass.queue.size", _size, "By", "Bytes of jobs that have not ended."),
            ("windlass.queue.paused", _paused, "1", "1 while the queue is paused."),
        )
        for name, observe, unit, description in gauges:
            meter.create_observable_gauge(name, [self._callback(observe)], unit, description)

    def _callback(self, observe: Observe) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [observation for stats in self._read() or () for observation in observe(stats)]

    def _observe_engine(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(int(self._read() is not None))]

    def _read(self) -> list[QueueStats] | None:
        with self._lock:
            if time.monotonic() - self._found_at_s >= SAME_COLLECTION_S:
                self._found = read_stats(self._app, self._queues)
                self._found_at_s = time.monotonic()
            return self._found


def _labels(stats: QueueStats) -> dict[str, str]:
    return {"messaging.system": "windlass", "messaging.destination.name": stats.queue}


def _count(stats: QueueStats) -> Iterable[Observation]:
    labels = _labels(stats)
    return [Observation(count, labels | {"windlass.state": state}) for state, count in count_jobs(stats).items()]


def _age(stats: QueueStats) -> Iterable[Observation]:
    return [Observation(oldest_age_s(stats), _labels(stats))]


def _size(stats: QueueStats) -> Iterable[Observation]:
    return [Observation(stats.bytes, _labels(stats))]


def _paused(stats: QueueStats) -> Iterable[Observation]:
    return [Observation(int(stats.is_paused), _labels(stats))]
