"""Stores of test deployments, each under a namespace of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import defaultdict

from tests.support.engine_process import EngineProcess, admin_endpoint
from windlass.core.errors import WindlassError
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.store import Store

DISCARDED_TOGETHER = 50
_namespaces = itertools.count(1)
_discarded: dict[str, set[bytes]] = defaultdict(set)  # by engine


def make_store(engine: EngineProcess, **options: object) -> Store:
    namespace = f"t{os.getpid()}-{next(_namespaces)}"
    options = {"patience_s": 10.0, **options}
    return Store(parse_url(engine.unix_url), namespace=namespace, is_test=True, **options)  # type: ignore[arg-type]


def discard(store: Store) -> None:
    """Close the store. Its keys are removed later, with those of other tests, since left keys slow down every scan."""
    store.close_sync()
    discarded = _discarded[str(store.endpoint)]
    discarded.add(store.namespace.encode())
    if len(discarded) >= DISCARDED_TOGETHER:
        with contextlib.suppress(OSError, WindlassError):  # a test may have ended the engine
            _remove_keys(store, discarded)
        discarded.clear()


def _remove_keys(store: Store, namespaces: set[bytes]) -> None:
    connection = SyncConnection.open(admin_endpoint(store.endpoint))  # type: ignore[arg-type]
    try:
        keys = [key for key in connection.call("KEYS", "t*") if key.partition(b":")[0] in namespaces]
        for first in range(0, len(keys), 1000):
            connection.call("UNLINK", *keys[first : first + 1000])
    finally:
        connection.close()
