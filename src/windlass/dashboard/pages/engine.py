"""The engine: what each of its nodes says of itself, what answers here, and what the doctor finds when it is asked."""

from __future__ import annotations

import sys

import msgspec

from windlass import __version__
from windlass.core.durability import DurabilityInForce, find_weakest
from windlass.core.engine_state import EngineState
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached
from windlass.dashboard.routes import DashboardRoutes

routes = DashboardRoutes()

KEPT_S = 2.0  # what the engine says of itself: it need not be newer


class EngineView(msgspec.Struct, frozen=True):
    now_ms: int
    engines: list[EngineState]
    version: str
    python: str
    address: str  # of the engine
    is_embedded: bool
    partitions: int
    durability: str  # that the setting asks for
    namespace: str
    late: list[int]  # partitions whose loops have not run lately, in this process

    @property
    def in_force(self) -> DurabilityInForce:
        return find_weakest([one.durability for one in self.engines])

    @property
    def has_findings(self) -> bool:
        return any(one.findings for one in self.engines)


@routes.page("/engine", "engine.html", section="engine")
async def engine(page: PageContext[None]) -> EngineView:
    """What the engine says of itself."""
    service, state = page.service, page.context.state
    engines = await cached(state, "engines", service.engines, KEPT_S)
    page.now_ms = await service.now()
    store = service.store
    return EngineView(
        page.now_ms,
        engines,
        __version__,
        ".".join(map(str, sys.version_info[:3])),
        str(store.topology),
        store.is_embedded,
        store.partitions,
        store.durability,
        store.namespace,
        state.liveness.late(store.partitions),
    )
