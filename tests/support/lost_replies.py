"""A way to an engine on which the reply to a chosen call is lost: the engine carries the call out, and the connection
breaks before the client reads the answer, as when an engine is killed in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from faults.proxy import Link, Proxy
from tests.support.engine_process import EngineProcess
from windlass.store.connection.endpoint import parse_url
from windlass.store.scripts import library
from windlass.store.store import Store

LIMIT_S = 20.0


class LossyWay:
    def __init__(self, link: Link) -> None:
        self._link = link
        self.url = f"redis://127.0.0.1:{link.port}/0"

    def lose(self, operation: str) -> None:
        """The reply to the next call of this operation."""
        self._link.lose_reply_to(b"\r\n" + library().function(operation).encode() + b"\r\n")

    def lose_call_with(self, argument: str) -> None:
        """The reply to the next call that has this argument."""
        self._link.lose_reply_to(f"\r\n{argument}\r\n".encode())

    async def has_lost(self) -> None:
        """Return when the engine has carried the call out and its reply is lost."""
        assert await asyncio.to_thread(self._link.has_lost.wait, LIMIT_S), "the call was not made"

    def store_like(self, store: Store) -> Store:
        """A store of the same namespace and clock, over this way."""
        found = Store(parse_url(self.url), namespace=store.namespace, is_test=True, patience_s=10.0)
        found._clock = store._clock
        return found


SETTLED_MS = 3_000  # more than what lua/lib/leases/reports.lua waits for an answer


@contextlib.contextmanager
def lossy_way(engine: EngineProcess) -> Iterator[LossyWay]:
    proxy = Proxy()
    try:
        yield LossyWay(proxy.link("engine", str(engine.socket_path)))
    finally:
        proxy.close()
