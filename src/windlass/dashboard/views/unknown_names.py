"""Names of queued jobs that no worker knows, for the overview: of the busiest queues, shared by all viewers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.explain.unknown_names import UnknownName
from windlass.core.queue import QueueStats
from windlass.dashboard.forms.filters import exact_name
from windlass.dashboard.response_cache import cached
from windlass.web.app.app_state import AppState

QUEUES_READ = 20  # the first with queued jobs; each costs one bounded read
NAMES_SHOWN = 3  # of each queue
CACHED_S = 5.0


class QueueNotice(msgspec.Struct, frozen=True):
    """Names of jobs in one queue that no worker of it knows."""

    queue: str
    unknown_names: list[UnknownName]

    @property
    def first_names(self) -> list[tuple[UnknownName, dict[str, Any]]]:
        """The first names, each with the query of the list of its jobs."""
        return [
            (unknown, {"state": "queued", "queue": self.queue, "name": exact_name(unknown.name)})
            for unknown in self.unknown_names[:NAMES_SHOWN]
        ]

    @property
    def more(self) -> int:
        return max(0, len(self.unknown_names) - NAMES_SHOWN)


async def read_notices(
    state: AppState, stats: Sequence[QueueStats], patterns: tuple[str, ...] = ()
) -> list[QueueNotice]:
    """Return a notice for each affected queue among the first with queued jobs, by name. `stats` are those of the
    queues that the viewer may see, the busiest first; `patterns` are the viewer's, none: all queues."""
    queues = [queue.queue for queue in stats if queue.queued][:QUEUES_READ]
    if patterns:
        return await _read(state, queues)
    return await cached(state, "unknown names", lambda: _read(state, queues), CACHED_S)


async def _read(state: AppState, queues: Sequence[str]) -> list[QueueNotice]:
    found = await asyncio.gather(*(state.service.unknown_names(queue) for queue in queues))
    return [QueueNotice(queue, names) for queue, names in sorted(zip(queues, found, strict=True)) if names]
