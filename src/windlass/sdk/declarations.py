"""Declarations of an application besides its tasks: limits, properties of queues, schedules.

A worker writes them to the engine when it starts. They replace settings of the same name that were made by hand.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from windlass.core.errors import BadInput, Forbidden
from windlass.core.limits.limit import Limit
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service

from .tasks import schedules as cron
from .tasks.limits import make_engine_limits

if TYPE_CHECKING:
    from .tasks.task import Task


log = logging.getLogger("windlass.app")


class Declarations:
    def __init__(self) -> None:
        self._limits: dict[str, list[Limit]] = {}
        self._queues: dict[str, dict[str, Any]] = {}
        self._schedules: dict[str, Schedule] = {}
        self._tasks: set[str] = set()

    def add_task(self, task: Task[..., Any]) -> None:
        self._tasks.add(task.name)
        self._limits[task.name] = make_engine_limits(task.name, task.queue, task.limits)
        if task.options.tenant:
            self._queues.setdefault(task.queue, {}).setdefault("fair_share", True)

    def add_queue(self, name: str, properties: dict[str, Any]) -> None:
        self._queues.setdefault(name, {}).update(properties)

    def add_schedule(self, wanted: Schedule) -> None:
        """Add a schedule. An equal definition is no conflict: a module may be loaded as `__main__` and by its name."""
        if self._schedules.setdefault(wanted.name, wanted) != wanted:
            raise BadInput(f"A schedule named {wanted.name!r} exists already: give one of them another name=.")

    @property
    def schedules(self) -> list[Schedule]:
        return list(self._schedules.values())

    async def apply(self, service: Service) -> None:
        try:
            await self._apply(service)
        except Forbidden as refusal:
            if self._queues or self._schedules or any(self._limits.values()):
                log.warning(
                    "Could not apply the limits, schedules and queue properties that the code declares: %s. "
                    "The stored ones stay in force. To apply them, start a worker with a token of the role admin.",
                    refusal,
                )

    async def _apply(self, service: Service) -> None:
        for queue, properties in self._queues.items():
            await service.configure(queue, properties)
        wanted = {limit.name: limit for limits in self._limits.values() for limit in limits}
        known = {state.limit.name: state.limit for state in await service.limits()} if wanted else {}
        for name, limit in wanted.items():
            if known.get(name) != limit:
                await service.limit(limit)
        await cron.apply_schedules(service, self.schedules, sorted(self._tasks))
