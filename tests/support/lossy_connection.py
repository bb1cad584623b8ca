"""A connection to an engine that loses the reply to a chosen call.

The engine runs the call, and the connection breaks before the client reads the answer, as if the engine were killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from faults.proxy import Proxy, ProxyLink
from tests.support.engine_process import EngineProcess
from windlass.store.connection.endpoint import parse_url
from windlass.store.scripts import library
from windlass.store.store import Store

LIMIT_S = 20.0


class LossyConnection:
    def __init__(self, link: ProxyLink, by_scripts: bool) -> None:
        self._link = link
        self._by_scripts = by_scripts
        self.url = f"redis://127.0.0.1:{link.port}/0"

    def lose(self, operation: str) -> None:
        """Lose the reply to the next call of this operation."""
        code = library().script(operation).sha if self._by_scripts else library().function(operation)
        self._link.lose_reply_to(f"\r\n{code}\r\n".encode())

    def lose_call_with(self, argument: str) -> None:
        """Lose the reply to the next call with this argument."""
        self._link.lose_reply_to(f"\r\n{argument}\r\n".encode())

    async def wait_lost(self) -> None:
        """Wait until the engine has run the call and its reply is lost."""
        assert await asyncio.to_thread(self._link.has_lost.wait, LIMIT_S), "the call was not made"

    def cut(self) -> None:
        """Refuse all connections until `restore`."""
        self._link.cut()

    def restore(self) -> None:
        self._link.restore()

    def store_like(self, store: Store, patience_s: float = 10.0) -> Store:
        """Return a store of the same namespace and clock over this connection."""
        lossy = Store(parse_url(self.url), namespace=store.namespace, is_test=True, patience_s=patience_s)
        lossy._clock = store._clock
        return lossy


SETTLED_MS = 3_000  # longer than lua/lib/leases/reports.lua waits for an answer


@contextlib.contextmanager
def open_lossy_connection(engine: EngineProcess) -> Iterator[LossyConnection]:
    proxy = Proxy()
    try:
        yield LossyConnection(proxy.add_link("engine", str(engine.socket_path)), engine.unix_url != engine.admin_url)
    finally:
        proxy.close()
