"""Time from enqueue to end, per window of a run, from the histories of the clients.

Measured is one queue with a steady producer and a worker of its own. The other queues are no measure: their workers
fail jobs, release them and let leases expire on purpose, and their producers do not wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ..checks.history_index import HistoryIndex, JobHistory
from ..history import Entry

MS = 1_000_000
MEASURED_QUEUE = "ordered"


class LatencyWindow(msgspec.Struct, frozen=True, kw_only=True):
    at_s: float  # end of the window, in the run
    jobs: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


def measure_latency(
    entries: Iterable[Entry], began_at_ns: int, seconds: float, windows: int
) -> tuple[list[LatencyWindow], LatencyWindow | None]:
    """Return the latencies of each window with jobs, and of the whole run. A job belongs to the window of its end."""
    width_ns = seconds * 1e9 / windows
    found: dict[int, list[float]] = defaultdict(list)
    for ended_ns, took_ms in _measure_jobs(HistoryIndex(entries).jobs.values()):
        number = int((ended_ns - began_at_ns) // width_ns)
        if 0 <= number < windows:
            found[number].append(took_ms)
    each = [_summarize((number + 1) * seconds / windows, sorted(found[number])) for number in sorted(found)]
    everything = sorted(took_ms for window in found.values() for took_ms in window)
    return each, _summarize(seconds, everything) if everything else None


def _measure_jobs(jobs: Iterable[JobHistory]) -> Iterator[tuple[int, float]]:
    """Yield the end of each measured job and its time from the begin of the enqueue to the answer about its end."""
    for job in jobs:
        enqueued = [call for call in job.enqueues if call.is_ok and call.facts.queue == MEASURED_QUEUE]
        ends = [call for call in job.calls_named("finish") if call.is_ok]
        if enqueued and ends:
            yield ends[0].answered_ns, (ends[0].answered_ns - enqueued[0].begun_ns) / MS


def _summarize(at_s: float, ranked: Sequence[float]) -> LatencyWindow:
    p50, p95, p99 = (round(ranked[min(int(len(ranked) * share), len(ranked) - 1)], 2) for share in (0.5, 0.95, 0.99))
    return LatencyWindow(at_s=round(at_s, 1), jobs=len(ranked), p50_ms=p50, p95_ms=p95, p99_ms=p99)
