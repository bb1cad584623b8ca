"""The service with its background loops, for the time of a block."""

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
async def open_service(store: Store, pulse: Liveness | None = None) -> AsyncIterator[Service]:
    """The service with its loops, until the block ends."""
    service = Service(store)
    try:
        await store.open()
        loops = asyncio.create_task(runner.run(service, pulse=pulse), name="windlass-loops")
        loops.add_done_callback(log_unexpected_end)
        try:
            yield service
        finally:
            loops.cancel()
            await asyncio.wait({loops})
    finally:
        await store.close()
