"""Metrics of one scrape: queues and engine, responses, and the process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec

from windlass import __version__
from windlass.core.access.tokens import Principal
from windlass.core.errors import WindlassError
from windlass.core.queue import Minute, QueueStats
from windlass.service import Service
from windlass.web.app.app_state import AppState

from .exposition import Exposition
from .meter import BOUNDS_S

QUEUES_MAX = 1000  # in one scrape
ENGINE_TIMEOUT_S = 5.0  # scrapers give up after a longer time
MINUTE_MS = 60_000
NO_QUEUE = "windlass-metrics"  # an empty queue: reading it costs a round trip and little more
_STATES = ("queued", "scheduled", "waiting", "suspended", "running", "failed")
_FIGURES = ("enqueued", "taken", "finished", "failed", "retried", "recovered")


class _EngineReading(msgspec.Struct, frozen=True):
    """Values read from the engine for one scrape."""

    round_trip_s: float
    queues: Sequence[tuple[QueueStats, Minute]]
    left_out: int


async def scrape(state: AppState, principal: Principal) -> bytes:
    """Return the metrics. If the engine does not answer, only those of the process."""
    exposition = Exposition()
    seen = None
    with contextlib.suppress(WindlassError, TimeoutError):
        async with asyncio.timeout(ENGINE_TIMEOUT_S):
            seen = await _read_engine(state.service, principal.may_use)
    _write_engine(exposition, seen)
    if seen is not None:
        for write in (_write_jobs, _write_gauges, _write_minutes, _write_means):
            write(exposition, seen)
            await asyncio.sleep(0)  # thousands of lines each: let other requests run between them
    _write_server(exposition, state)
    if not principal.queues:  # callbacks are counted over all queues
        _write_callbacks(exposition, state)
    _write_answers(exposition, state)
    _write_process(exposition, state)
    return exposition.encode()


async def _read_engine(service: Service, may_see: Callable[[str], bool]) -> _EngineReading:
    begin_s = time.perf_counter()
    await service.stats([NO_QUEUE])  # `now` would be answered from a cached clock
    round_trip_s = time.perf_counter() - begin_s
    now_ms = await service.now()
    names = [name for name in await service.queues() if may_see(name)]
    listed = names[:QUEUES_MAX]
    stats = await service.stats(listed) if listed else []
    histories = await service.histories(listed, steps=3)  # a new minute may have started
    minutes = [_last_minute(histories[name], now_ms) for name in listed]
    return _EngineReading(round_trip_s, list(zip(stats, minutes, strict=True)), len(names) - len(listed))


def _last_minute(history: Sequence[Minute], now_ms: int) -> Minute:
    at_ms = now_ms // MINUTE_MS * MINUTE_MS - MINUTE_MS
    return next((minute for minute in history if minute.at_ms == at_ms), Minute(at_ms=at_ms))


def _write_engine(exposition: Exposition, seen: _EngineReading | None) -> None:
    exposition.metric("windlass_engine_up", "gauge", "Whether the engine answered this scrape.")
    exposition.sample("windlass_engine_up", int(seen is not None))
    if seen is not None:
        exposition.metric(
            "windlass_engine_round_trip_seconds", "gauge", "One call of the engine, measured by this scrape."
        )
        exposition.sample("windlass_engine_round_trip_seconds", seen.round_trip_s)


def _write_jobs(exposition: Exposition, seen: _EngineReading) -> None:
    if seen.left_out:
        exposition.comment(f"{seen.left_out} queues are left out: a scrape lists at most {QUEUES_MAX}.")
    exposition.metric(
        "windlass_queue_jobs",
        "gauge",
        "Jobs of a queue by state; running ones include dispatched ones, failed ones are without consequences.",
    )
    for stats, _ in seen.queues:
        for state in _STATES:
            jobs = stats.failures if state == "failed" else getattr(stats, state)
            exposition.sample("windlass_queue_jobs", jobs, queue=stats.queue, state=state)


def _write_gauges(exposition: Exposition, seen: _EngineReading) -> None:
    for name, about, value in (
        ("oldest_age_seconds", "How long the oldest takeable job has been takeable.", _oldest_age_s),
        ("waiting_takers", "Takers that wait for a job.", lambda stats: stats.waiting_takers),
        ("paused", "Whether the queue is paused.", lambda stats: int(stats.is_paused)),
        ("bytes", "Bytes of jobs that have not ended.", lambda stats: stats.bytes),
    ):
        exposition.metric(f"windlass_queue_{name}", "gauge", about)
        for stats, _ in seen.queues:
            exposition.sample(f"windlass_queue_{name}", value(stats), queue=stats.queue)


def _oldest_age_s(stats: QueueStats) -> float:
    return (stats.oldest_age_ms or 0) / 1000


def _write_minutes(exposition: Exposition, seen: _EngineReading) -> None:
    exposition.metric(
        "windlass_queue_minute_jobs", "gauge", "Events of the jobs of a queue in the last full minute, by kind."
    )
    for stats, minute in seen.queues:
        for figure in _FIGURES:
            exposition.sample("windlass_queue_minute_jobs", getattr(minute, figure), queue=stats.queue, what=figure)


def _write_means(exposition: Exposition, seen: _EngineReading) -> None:
    exposition.metric("windlass_queue_minute_wait_seconds", "gauge", "Mean time from takeable to taken in that minute.")
    for stats, minute in seen.queues:
        if minute.taken:
            exposition.sample(
                "windlass_queue_minute_wait_seconds", minute.wait_ms / 1000 / minute.taken, queue=stats.queue
            )
    exposition.metric("windlass_queue_minute_run_seconds", "gauge", "Mean time from start to finish in that minute.")
    for stats, minute in seen.queues:
        if minute.finished:
            exposition.sample(
                "windlass_queue_minute_run_seconds", minute.run_ms / 1000 / minute.finished, queue=stats.queue
            )


# Several processes may share an address, and each counts separately: the label `pid` keeps their samples apart.


def _write_server(exposition: Exposition, state: AppState) -> None:
    pid = str(os.getpid())
    exposition.metric("windlass_server_info", "gauge", "The version of this server.")
    exposition.sample("windlass_server_info", 1, version=__version__, pid=pid)
    exposition.metric("windlass_server_late_loops", "gauge", "Partitions whose background loops have not run recently.")
    partitions = state.service.store.partitions
    exposition.sample("windlass_server_late_loops", len(state.liveness.late(partitions)), pid=pid)
    exposition.metric(
        "windlass_server_tasks", "gauge", "Tasks of the event loop that are not done, this scrape included."
    )
    exposition.sample("windlass_server_tasks", len(asyncio.all_tasks()), pid=pid)
    listener = state.meter.listener
    if listener is not None:
        exposition.metric("windlass_server_connections", "gauge", "Open connections.")
        exposition.sample("windlass_server_connections", listener.open, pid=pid)
        exposition.metric(
            "windlass_server_requests_under_way", "gauge", "Requests whose handlers run, this scrape included."
        )
        exposition.sample("windlass_server_requests_under_way", listener.handlers_running, pid=pid)
    exposition.metric("windlass_server_followers", "gauge", "Open event streams, by kind of client.")
    for kind, followers in (("client", state.followers), ("page", state.page_followers)):
        exposition.sample("windlass_server_followers", followers.count, kind=kind, pid=pid)
    exposition.metric("windlass_server_sent_bytes_total", "counter", "Bytes of response bodies.")
    exposition.sample("windlass_server_sent_bytes_total", state.meter.bytes_sent, pid=pid)


_CALLBACKS = {
    "successfulCallbacks": "delivered",
    "failedCallbacks": "failed",
    "undefinedBackendWithCallback": "unknown_type",
    "unknownTopicOrPartition": "unknown_topic",
}


def _write_callbacks(exposition: Exposition, state: AppState) -> None:
    numbers, pid = state.callback_counters(), str(os.getpid())
    if not numbers:
        return
    name = "windlass_callback_attempts_total"
    exposition.metric(
        name,
        "counter",
        "Attempts to deliver callbacks; attempts with an unknown type or topic are also counted as failed.",
    )
    for key, outcome in _CALLBACKS.items():
        exposition.sample(name, numbers[key], outcome=outcome, pid=pid)


def _write_answers(exposition: Exposition, state: AppState) -> None:
    """Write response counters. Requests without a route have empty labels."""
    meter, pid = state.meter, str(os.getpid())
    labels = {route.operation: {"method": route.method, "route": route.path} for route in state.routes}
    labels[""] = {"method": "", "route": ""}
    name = "windlass_server_answers_total"
    exposition.metric(name, "counter", "Responses by route and status.")
    for (operation, status), count in sorted(meter.answers.items()):
        exposition.sample(name, count, **labels[operation], status=str(status), pid=pid)
    name = "windlass_server_answer_seconds"
    exposition.metric(
        name,
        "histogram",
        "Time from the head of a request to the end of its response, including the wait of long polls.",
    )
    for operation, times in sorted(meter.latencies.items()):
        counts = list(accumulate(times.buckets))
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), counts, strict=True):
            exposition.sample(f"{name}_bucket", count, **labels[operation], pid=pid, le=bound)
        exposition.sample(f"{name}_sum", times.sum_s, **labels[operation], pid=pid)
        exposition.sample(f"{name}_count", counts[-1], **labels[operation], pid=pid)


def _write_process(exposition: Exposition, state: AppState) -> None:
    pid = str(os.getpid())
    resident = _resident_bytes()
    if resident is not None:
        exposition.metric("process_resident_memory_bytes", "gauge", "Resident memory.")
        exposition.sample("process_resident_memory_bytes", resident, pid=pid)
    exposition.metric("process_cpu_seconds_total", "counter", "Processor time of user and system.")
    exposition.sample("process_cpu_seconds_total", time.process_time(), pid=pid)
    exposition.metric("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.")
    exposition.sample("process_start_time_seconds", state.meter.started_at_s, pid=pid)


def _resident_bytes() -> int | None:
    """Return the resident memory, or None if the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
