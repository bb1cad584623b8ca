"""Recoverer: expired leases, attempts over their timeout, silent workers and lost wakeups."""

from __future__ import annotations

from windlass.service import Service

from .loop import Tick


class Recoverer:
    name = "recoverer"

    async def tick(self, service: Service) -> Tick:
        step = await service.recover()
        return Tick(step.done, step.now_ms, step.next_at_ms)
