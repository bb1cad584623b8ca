"""Statistics of queues, as exporters of metrics read them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import WindlassError
from windlass.core.queue import QueueStats
from windlass.sdk.app import Windlass

STATES = ("queued", "scheduled", "waiting", "suspended", "running", "finished", "failed", "cancelled")


def read_stats(app: Windlass, queues: Sequence[str]) -> list[QueueStats] | None:
    """Read the statistics of these queues, or of all queues if none are named. None: the engine does not answer."""
    try:
        names = queues or app.service.queues().wait()
        return list(app.service.stats(names).wait()) if names else []
    except WindlassError:
        return None


def count_jobs(stats: QueueStats) -> dict[str, int]:
    """Return the number of jobs by state."""
    return {state: stats.failures if state == "failed" else getattr(stats, state) for state in STATES}


def oldest_age_s(stats: QueueStats) -> float:
    """Return the waiting time of the oldest job that can be taken; 0 if there is none."""
    return (stats.oldest_age_ms or 0) / 1000
