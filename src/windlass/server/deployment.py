"""The engine that the settings name, and the service with its loops on it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

from ..loops import runner
from ..loops.pulse import Pulse
from ..service import Service
from ..settings import Settings
from ..store.embedded import EmbeddedEngine, default_data_dir
from ..store.endpoint import parse_url
from ..store.store import Store

log = logging.getLogger("windlass.server")


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


def data_dir(settings: Settings) -> Path:
    """Return the directory of the embedded engine that the settings name."""
    path = settings.url.removeprefix("embedded:").removeprefix("//") or settings.data_dir
    return Path(path).expanduser() if path else default_data_dir()


def download_dir(settings: Settings) -> Path:
    """Where downloaded files are."""
    if settings.download_dir:
        return Path(settings.download_dir).expanduser()
    is_embedded = not settings.url or settings.url.startswith("embedded:")
    home = Path(settings.data_dir).expanduser() if settings.data_dir else default_data_dir()
    return (data_dir(settings) if is_embedded else home) / "downloads"


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


def say_why(loops: asyncio.Task[None]) -> None:
    """They never end by themselves."""
    if not loops.cancelled() and (error := loops.exception()) is not None:
        log.error("%s has ended; restart this process.", loops.get_name(), exc_info=error)
