"""What a loop is: work that can be done once, and that says when it wants to be done next."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple, Protocol

from windlass.service import Service

log = logging.getLogger("windlass.server")


class Tick(NamedTuple):
    """What one turn did. `next_at_ms` is in the engine's time; None: nothing is due that anybody knows of."""

    done: int
    now_ms: int
    next_at_ms: int | None


class Loop(Protocol):
    name: str

    async def tick(self, service: Service) -> Tick: ...


def log_unexpected_end(loops: asyncio.Task[None]) -> None:
    """They never end by themselves."""
    if not loops.cancelled() and (error := loops.exception()) is not None:
        log.error("%s has ended; restart this process.", loops.get_name(), exc_info=error)
