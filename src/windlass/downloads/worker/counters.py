"""Counters of this worker, under the names of the downloader's statistics. There, a worker is a running download, and a
pool is an aggregation with running downloads."""

from __future__ import annotations

from collections import Counter


class DownloadCounters:
    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()
        self._running: Counter[str] = Counter()  # by aggregation
        self._most_workers = 0
        self._most_pools = 0

    def add(self, name: str) -> None:
        self._counted[name] += 1

    def record_start(self, aggregation: str) -> None:
        self._counted["spawnedWorkers"] += 1
        if not self._running[aggregation]:
            self._counted["spawnedWorkerPools"] += 1
        self._running[aggregation] += 1
        self._most_workers = max(self._most_workers, self._running.total())
        self._most_pools = max(self._most_pools, len(self._running))

    def record_end(self, aggregation: str) -> None:
        self._running[aggregation] -= 1
        if not self._running[aggregation]:
            del self._running[aggregation]

    def counters(self) -> dict[str, int]:
        fixed = ("spawnedWorkers", "spawnedWorkerPools", "failures", "reaperFailures", "reaperSuccessfulDeletions")
        return {
            "alive": 1,
            "workers": self._running.total(),
            "workerPools": len(self._running),
            "maxWorkers": self._most_workers,
            "maxWorkerPools": self._most_pools,
            **dict.fromkeys((*fixed, "invalidProxies"), 0),
            **self._counted,
        }
