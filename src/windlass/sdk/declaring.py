"""What an application declares beside its tasks (limits, properties of queues), told to the engine when a worker
starts. Code wins over what was set by hand under the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.limit import Limit
from ..service import Service
from .limits import declared

if TYPE_CHECKING:
    from .task import Task


class Declared:
    def __init__(self) -> None:
        self._limits: dict[str, list[Limit]] = {}
        self._queues: dict[str, dict[str, Any]] = {}

    def limits_of(self, task: Task[..., Any]) -> None:
        self._limits[task.name] = declared(task.name, task.queue, task.limits)
        if task.template.tenant:
            self._queues.setdefault(task.queue, {}).setdefault("fair_share", True)

    def queue(self, name: str, properties: dict[str, Any]) -> None:
        self._queues.setdefault(name, {}).update(properties)

    async def tell(self, service: Service) -> None:
        for queue, properties in self._queues.items():
            await service.configure(queue, properties)
        wanted = {limit.name: limit for limits in self._limits.values() for limit in limits}
        known = {state.limit.name: state.limit for state in await service.limits()} if wanted else {}
        for name, limit in wanted.items():
            if known.get(name) != limit:
                await service.limit(limit)
