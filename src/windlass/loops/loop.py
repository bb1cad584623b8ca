"""What a loop is: work that can be done once, and that says when it wants to be done next."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..service import Service


class Tick(NamedTuple):
    """What one turn did. `next_at_ms` is in the engine's time; None: nothing is due that anybody knows of."""

    done: int
    now_ms: int
    next_at_ms: int | None


class Loop(Protocol):
    name: str

    async def tick(self, service: Service) -> Tick: ...
