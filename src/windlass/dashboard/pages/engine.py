"""State of the engine's nodes and of this server."""

from __future__ import annotations

import sys

import msgspec

from windlass import __version__
from windlass.core.durability import DurabilityInForce, find_weakest
from windlass.core.engine_state import EngineState
from windlass.core.namespace.format import KNOWN, NamespaceFormat
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached
from windlass.dashboard.routes import DashboardRoutes
from windlass.store.topology.namespace_format import stored_format

routes = DashboardRoutes()

TTL_S = 2.0  # of the cached state


class EngineView(msgspec.Struct, frozen=True):
    now_ms: int
    engines: list[EngineState]
    version: str
    python: str
    address: str  # of the engine
    is_embedded: bool
    partitions: int
    durability: str  # as the setting requests it
    namespace: str
    format: NamespaceFormat
    format_known: int  # the highest that this version reads
    late: list[int]  # partitions whose loops are late in this process

    @property
    def in_force(self) -> DurabilityInForce:
        return find_weakest([node.durability for node in self.engines])

    @property
    def has_findings(self) -> bool:
        return any(node.findings for node in self.engines)


@routes.page("/engine", "engine.html", section="engine")
async def engine(page: PageContext[None]) -> EngineView:
    """Show the state of the engine."""
    service, state = page.service, page.context.state
    engines = await cached(state, "engines", service.engines, TTL_S)
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
        await store.run(stored_format(store.roots)),
        KNOWN,
        state.liveness.late(store.partitions),
    )
