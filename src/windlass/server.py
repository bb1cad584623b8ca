"""The only place where things are wired together: settings, store, service and loops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from .loops import runner
from .service import Service
from .settings import Settings
from .store.embedded import EmbeddedEngine, default_data_dir
from .store.endpoint import parse_url
from .store.store import Store


def build_store(settings: Settings) -> Store:
    """The store that the settings name: a URL's engine, or the embedded one of the data directory."""
    engine = None
    url = settings.url
    if not url or url.startswith("embedded:"):
        engine = EmbeddedEngine(_data_dir(settings))
        url = engine.url
    return Store(
        parse_url(url),
        engine=engine,
        namespace=settings.namespace,
        partitions=settings.partitions,
        durability=settings.durability or "memory",
        allow_eviction=settings.allow_eviction,
        patience_s=settings.patience_ms / 1000,
    )


def _data_dir(settings: Settings) -> Path:
    path = settings.url.removeprefix("embedded:").removeprefix("//") or settings.data_dir
    return Path(path).expanduser() if path else default_data_dir()


@contextlib.asynccontextmanager
async def running(store: Store) -> AsyncIterator[Service]:
    """The service with its loops, until the block ends."""
    service = Service(store)
    try:
        await store.open()
        loops = asyncio.create_task(runner.run(service), name="windlass-loops")
        try:
            yield service
        finally:
            loops.cancel()
            await asyncio.wait({loops})
    finally:
        await store.close()


async def serve(store: Store, announce: Callable[[Service], None]) -> None:
    """Runs until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running(store) as service:
        announce(service)
        await stop.wait()
