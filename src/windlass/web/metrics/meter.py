"""Counters of the responses of a server process. Each response costs one call on the hot path: a few additions."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from windlass.web.listener.messages import Client, Head

if TYPE_CHECKING:
    from windlass.web.listener.listener import HttpListener

BOUNDS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)


class LatencyHistogram:
    """Latencies of one operation: `buckets[n]` counts responses up to `BOUNDS_S[n]`, the last bucket longer ones."""

    __slots__ = ("buckets", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0


class Meter:
    """Counters by operation and status."""

    def __init__(self) -> None:
        self.started_at_s = time.time()
        self.listener: HttpListener | None = None
        self.answers: defaultdict[tuple[str, int], int] = defaultdict(int)  # by operation and status
        self.latencies: defaultdict[str, LatencyHistogram] = defaultdict(LatencyHistogram)
        self.bytes_sent = 0

    def on_answer(self, head: Head | None, status: int, size: int, duration_s: float, client: Client) -> None:
        """Count a response. Requests without a route are counted under the empty operation, because their paths are
        unbounded."""
        operation = "" if head is None else head.operation
        self.answers[operation, status] += 1
        times = self.latencies[operation]
        times.buckets[bisect_left(BOUNDS_S, duration_s)] += 1
        times.sum_s += duration_s
        self.bytes_sent += size
