"""A server in a thread with its own event loop, for blocking clients."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from windlass.server import open_server
from windlass.settings import Settings
from windlass.store.store import Store


@contextlib.contextmanager
def threaded_server(store: Store, settings: Settings) -> Iterator[str]:
    """Run a server and yield its URL. The server owns the store and closes it."""
    ready, urls, stops = threading.Event(), [], []

    async def serve() -> None:
        stop = asyncio.Event()
        async with open_server(store, settings) as server:
            urls.append(server.url)
            stops.append((asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(20)
        yield urls[0]
    finally:
        for loop, stop in stops:
            loop.call_soon_threadsafe(stop.set)
        thread.join(20)
