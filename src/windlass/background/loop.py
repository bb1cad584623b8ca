"""Interface of a background loop: a unit of work that returns when it must run next."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple, Protocol

from windlass.service import Service

log = logging.getLogger("windlass.server")


class Tick(NamedTuple):
    """Result of one turn. `next_at_ms` is in the engine's time; None: no next time is known."""

    done: int
    now_ms: int
    next_at_ms: int | None


class Loop(Protocol):
    name: str

    async def tick(self, service: Service) -> Tick: ...


def log_unexpected_end(task: asyncio.Task[None]) -> None:
    """Log the error of a background task, which never ends by itself."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s has ended unexpectedly; restart this process.", task.get_name(), exc_info=error)
