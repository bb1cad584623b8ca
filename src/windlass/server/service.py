"""Service with its background loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from windlass.background import runner
from windlass.background.liveness import Liveness
from windlass.background.loop import log_unexpected_end
from windlass.service import Service
from windlass.store.store import Store


@contextlib.asynccontextmanager
async def open_service(store: Store, liveness: Liveness | None = None) -> AsyncIterator[Service]:
    """Open the store and run the background loops until the block ends, then close the store."""
    service = Service(store)
    store.queue_surveys.reads_in_turns = True
    try:
        await store.open()
        loops = asyncio.create_task(runner.run(service, liveness=liveness), name="windlass-loops")
        loops.add_done_callback(log_unexpected_end)
        try:
            yield service
        finally:
            loops.cancel()
            await asyncio.wait({loops})
    finally:
        await store.close()
