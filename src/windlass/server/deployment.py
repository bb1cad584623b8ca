"""The engine that the settings name, and the service with its loops on it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from windlass.background import runner
from windlass.background.liveness import Pulse
from windlass.background.loop import say_why
from windlass.directories import data_dir
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.store import Store


def embedded_engine(settings: Settings) -> EmbeddedEngine | None:
    """The embedded engine of the data directory, unless a URL names another engine. It is not started."""
    is_embedded = not settings.url or settings.url.startswith("embedded:")
    return EmbeddedEngine(data_dir(settings), memory_max=settings.engine_memory_max) if is_embedded else None


def build_store(settings: Settings) -> Store:
    """The store that the settings name: a URL's engine, or the embedded one of the data directory."""
    engine = embedded_engine(settings)
    return Store(
        parse_url(engine.url if engine else settings.url),
        engine=engine,
        namespace=settings.namespace,
        partitions=settings.partitions,
        durability=settings.durability or "memory",
        allow_eviction=settings.allow_eviction,
        patience_s=settings.patience_ms / 1000,
    )


@contextlib.asynccontextmanager
async def running(store: Store, pulse: Pulse | None = None) -> AsyncIterator[Service]:
    """The service with its loops, until the block ends."""
    service = Service(store)
    try:
        await store.open()
        loops = asyncio.create_task(runner.run(service, pulse=pulse), name="windlass-loops")
        loops.add_done_callback(say_why)
        try:
            yield service
        finally:
            loops.cancel()
            await asyncio.wait({loops})
    finally:
        await store.close()
