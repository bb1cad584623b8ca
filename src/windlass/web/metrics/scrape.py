"""What can be measured of a server, for one scrape: its queues and engine, as the service tells them, its own answers,
and its process."""

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

QUEUES_MAX = 1000  # of one scrape
ENGINE_TIMEOUT_S = 5.0  # for the engine: a scraper that waits longer has given up
MINUTE_MS = 60_000
NO_QUEUE = "windlass-metrics"  # nothing is in it; asking costs a round trip and little more
_STATES = ("queued", "scheduled", "waiting", "running", "failed")
_FIGURES = ("enqueued", "taken", "finished", "failed", "retried", "recovered")


class _EngineReading(msgspec.Struct, frozen=True):
    """What the engine told for one scrape."""

    round_trip_s: float
    queues: Sequence[tuple[QueueStats, Minute]]
    left_out: int


async def scrape(state: AppState, principal: Principal) -> bytes:
    """When the engine is away, what is known without it."""
    written = Exposition()
    seen = None
    with contextlib.suppress(WindlassError, TimeoutError):
        async with asyncio.timeout(ENGINE_TIMEOUT_S):
            seen = await _read_engine(state.service, principal.may_use)
    _write_engine(written, seen)
    if seen is not None:
        for write in (_write_jobs, _write_gauges, _write_minutes, _write_means):
            write(written, seen)
            await asyncio.sleep(0)  # thousands of lines each: others may go between
    _write_server(written, state)
    if not principal.queues:  # callbacks are counted over all queues
        _write_callbacks(written, state)
    _write_answers(written, state)
    _write_process(written, state)
    return written.encode()


async def _read_engine(service: Service, may_see: Callable[[str], bool]) -> _EngineReading:
    begin_s = time.perf_counter()
    await service.stats([NO_QUEUE])  # the engine's time would be told without asking it
    round_trip_s = time.perf_counter() - begin_s
    now_ms = await service.now()
    names = [name for name in await service.queues() if may_see(name)]
    shown = names[:QUEUES_MAX]
    stats = await service.stats(shown) if shown else []
    histories = await service.histories(shown, steps=3)  # a minute may begin meanwhile
    minutes = [_last_minute(histories[name], now_ms) for name in shown]
    return _EngineReading(round_trip_s, list(zip(stats, minutes, strict=True)), len(names) - len(shown))


def _last_minute(history: Sequence[Minute], now_ms: int) -> Minute:
    at_ms = now_ms // MINUTE_MS * MINUTE_MS - MINUTE_MS
    found = [one for one in history if one.at_ms == at_ms]
    return found[0] if found else Minute(at_ms=at_ms)


def _write_engine(written: Exposition, seen: _EngineReading | None) -> None:
    written.metric("windlass_engine_up", "gauge", "Whether the engine answered this scrape.")
    written.sample("windlass_engine_up", int(seen is not None))
    if seen is not None:
        written.metric(
            "windlass_engine_round_trip_seconds", "gauge", "One call of the engine, measured by this scrape."
        )
        written.sample("windlass_engine_round_trip_seconds", seen.round_trip_s)


def _write_jobs(written: Exposition, seen: _EngineReading) -> None:
    if seen.left_out:
        written.comment(f"{seen.left_out} queues are left out: a scrape has at most {QUEUES_MAX}.")
    written.metric("windlass_queue_jobs", "gauge", "Jobs of a queue by state; running ones include dispatched ones.")
    for stats, _ in seen.queues:
        for state in _STATES:
            written.sample("windlass_queue_jobs", getattr(stats, state), queue=stats.queue, state=state)


def _write_gauges(written: Exposition, seen: _EngineReading) -> None:
    for name, about, value in (
        ("oldest_age_seconds", "How long the oldest takeable job has been takeable.", _oldest_age_s),
        ("waiting_takers", "Takers that wait for a job.", lambda stats: stats.waiting_takers),
        ("paused", "Whether the queue is paused.", lambda stats: int(stats.is_paused)),
        ("bytes", "Bytes of jobs that have not ended.", lambda stats: stats.bytes),
    ):
        written.metric(f"windlass_queue_{name}", "gauge", about)
        for stats, _ in seen.queues:
            written.sample(f"windlass_queue_{name}", value(stats), queue=stats.queue)


def _oldest_age_s(stats: QueueStats) -> float:
    return (stats.oldest_age_ms or 0) / 1000


def _write_minutes(written: Exposition, seen: _EngineReading) -> None:
    written.metric("windlass_queue_minute_jobs", "gauge", "What happened to jobs of a queue in the last full minute.")
    for stats, minute in seen.queues:
        for figure in _FIGURES:
            written.sample("windlass_queue_minute_jobs", getattr(minute, figure), queue=stats.queue, what=figure)


def _write_means(written: Exposition, seen: _EngineReading) -> None:
    written.metric("windlass_queue_minute_wait_seconds", "gauge", "Mean time from takeable to taken in that minute.")
    for stats, minute in seen.queues:
        if minute.taken:
            written.sample(
                "windlass_queue_minute_wait_seconds", minute.wait_ms / 1000 / minute.taken, queue=stats.queue
            )
    written.metric("windlass_queue_minute_run_seconds", "gauge", "Mean time from start to finish in that minute.")
    for stats, minute in seen.queues:
        if minute.finished:
            written.sample(
                "windlass_queue_minute_run_seconds", minute.run_ms / 1000 / minute.finished, queue=stats.queue
            )


# Several processes may answer under one address, and each counts for itself: the label keeps their figures apart.


def _write_server(written: Exposition, state: AppState) -> None:
    pid = str(os.getpid())
    written.metric("windlass_server_info", "gauge", "The version of this server.")
    written.sample("windlass_server_info", 1, version=__version__, pid=pid)
    written.metric("windlass_server_late_loops", "gauge", "Partitions whose loops have not ticked lately.")
    partitions = state.service.store.partitions
    written.sample("windlass_server_late_loops", len(state.pulse.late(partitions)), pid=pid)
    written.metric("windlass_server_tasks", "gauge", "Tasks of the event loop that are not done, this scrape included.")
    written.sample("windlass_server_tasks", len(asyncio.all_tasks()), pid=pid)
    listener = state.meter.listener
    if listener is not None:
        written.metric("windlass_server_connections", "gauge", "Connections that are open.")
        written.sample("windlass_server_connections", listener.open, pid=pid)
        written.metric("windlass_server_requests_under_way", "gauge", "Requests whose handlers run, this one included.")
        written.sample("windlass_server_requests_under_way", listener.handlers_running, pid=pid)
    written.metric("windlass_server_followers", "gauge", "Streams of events that are open, by who follows.")
    for kind, followers in (("client", state.followers), ("page", state.page_followers)):
        written.sample("windlass_server_followers", followers.count, kind=kind, pid=pid)
    written.metric("windlass_server_sent_bytes_total", "counter", "Bytes of bodies of answers.")
    written.sample("windlass_server_sent_bytes_total", state.meter.bytes_sent, pid=pid)


_CALLBACKS = {
    "successfulCallbacks": "delivered",
    "failedCallbacks": "failed",
    "undefinedBackendWithCallback": "unknown_type",
    "unknownTopicOrPartition": "unknown_topic",
}


def _write_callbacks(written: Exposition, state: AppState) -> None:
    numbers, pid = state.callback_counters(), str(os.getpid())
    if not numbers:
        return
    name = "windlass_callback_attempts_total"
    written.metric(name, "counter", "Attempts to deliver callbacks; those of an unknown type or topic have failed too.")
    for key, outcome in _CALLBACKS.items():
        written.sample(name, numbers[key], outcome=outcome, pid=pid)


def _write_answers(written: Exposition, state: AppState) -> None:
    """Labels of an answer to what is no operation of ours are empty."""
    meter, pid = state.meter, str(os.getpid())
    labels = {route.operation: {"method": route.method, "route": route.path} for route in state.routes}
    labels[""] = {"method": "", "route": ""}
    name = "windlass_server_answers_total"
    written.metric(name, "counter", "Answers by route and status.")
    for (operation, status), count in sorted(meter.answers.items()):
        written.sample(name, count, **labels[operation], status=str(status), pid=pid)
    name = "windlass_server_answer_seconds"
    written.metric(name, "histogram", "From the head of a request to the end of its answer; long polls wait within.")
    for operation, times in sorted(meter.latencies.items()):
        counts = list(accumulate(times.buckets))
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), counts, strict=True):
            written.sample(f"{name}_bucket", count, **labels[operation], pid=pid, le=bound)
        written.sample(f"{name}_sum", times.sum_s, **labels[operation], pid=pid)
        written.sample(f"{name}_count", counts[-1], **labels[operation], pid=pid)


def _write_process(written: Exposition, state: AppState) -> None:
    pid = str(os.getpid())
    resident = _resident_bytes()
    if resident is not None:
        written.metric("process_resident_memory_bytes", "gauge", "Resident memory.")
        written.sample("process_resident_memory_bytes", resident, pid=pid)
    written.metric("process_cpu_seconds_total", "counter", "Processor time of user and system.")
    written.sample("process_cpu_seconds_total", time.process_time(), pid=pid)
    written.metric("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.")
    written.sample("process_start_time_seconds", state.meter.started_at_s, pid=pid)


def _resident_bytes() -> int | None:
    """None where the system does not say it in a file."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
