"""Deployments for tests: a private engine that persists nothing and ends with the process, with a namespace for each
use. This module never touches another engine."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import threading

from windlass.core.job import Durability
from windlass.store import keys
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.requirements import Deployment

from .engine import EmbeddedEngine
from .private_engine import MEMORY_ONLY, make_directory

RETRY_FOR_S = 10.0
KEYS_PER_CALL = 1_000

_engine: EmbeddedEngine | None = None
_starting = threading.Lock()
_numbers = itertools.count(1)


class AlwaysDurable(Deployment):
    """Deployment that counts every durability as reached, because the test engine has no disk and no replica."""

    def command_for(self, durability: Durability, wait_ms: int) -> tuple[str, ...] | None:
        return None


def open_test_store() -> Store:
    """Open a new namespace, whose clock can be moved. Close it with `close_test_store`."""
    engine = _private_engine()
    # Named after the process, because a forked process shares the engine.
    namespace = f"test-{os.getpid()}-{next(_numbers)}"
    store = Store(parse_url(engine.url), namespace=namespace, is_test=True, patience_s=RETRY_FOR_S)
    store.deployment = AlwaysDurable(*store.open_sync())
    return store


def close_test_store(store: Store) -> None:
    _remove(store, store._sync_connection.call("KEYS", keys.pattern(store.namespace)))
    store.close_sync()


def clear_test_store(store: Store) -> None:
    """Delete all jobs with their data, and all configuration except limits. The caller deletes limits one by one,
    because caches must see each change."""
    root = store.root(0)
    found = store._sync_connection.call("KEYS", keys.pattern(root))
    _remove(store, [key for key in found if not keys.serves_clients(root, key)])


def _remove(store: Store, found: list[bytes]) -> None:
    for start in range(0, len(found), KEYS_PER_CALL):
        store._sync_connection.call("UNLINK", *found[start : start + KEYS_PER_CALL])


def _private_engine() -> EmbeddedEngine:
    """Return the engine that all test stores of this process share. Joining it again is cheap, and needed after a
    fork."""
    global _engine  # noqa: PLW0603
    with _starting:
        if _engine is None:
            _engine = EmbeddedEngine(make_directory("windlass-test-"), extra_arguments=MEMORY_ONLY)
            atexit.register(_end, _engine, os.getpid())
        _engine.join()
        return _engine


def _end(engine: EmbeddedEngine, owner: int) -> None:
    """Leave the engine at exit. If the process is killed instead, the supervisor sees its end."""
    if os.getpid() == owner:
        engine.leave()
        shutil.rmtree(engine.data_dir, ignore_errors=True)
