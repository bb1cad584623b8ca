"""Publisher of the counters of this process: it stores them in the engine every few seconds, so that any process can
show them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping

from windlass.core.errors import WindlassError
from windlass.service import Service
from windlass.service.aggregations import STATS_INTERVAL_MS

from .loop import log_unexpected_end

log = logging.getLogger("windlass.server")


@contextlib.asynccontextmanager
async def publish_stats(
    service: Service, component: str, counters: Callable[[], Mapping[str, int]]
) -> AsyncIterator[None]:
    """Publish the counters of a component until the block ends."""
    publisher = asyncio.create_task(_publish_loop(service, component, counters), name=f"windlass-{component}-numbers")
    publisher.add_done_callback(log_unexpected_end)
    try:
        yield
    finally:
        publisher.cancel()
        await asyncio.wait({publisher})


async def _publish_loop(service: Service, component: str, counters: Callable[[], Mapping[str, int]]) -> None:
    instance = f"{socket.gethostname()[:200]}:{os.getpid()}"
    while True:
        try:
            await service.publish_stats(component, instance, counters())
        except WindlassError as error:
            log.debug("Could not publish the counters of %s: %s", component, error)
        await asyncio.sleep(STATS_INTERVAL_MS / 1000)
