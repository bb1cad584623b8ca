"""Deployments for tests: a private engine that keeps nothing and ends with the process, and a namespace of it for each
use. No other engine is ever touched from here."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import threading
from pathlib import Path

from windlass.core.job import Durability
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.requirements import Deployment

from .engine import LONGEST_SOCKET_PATH, EmbeddedEngine
from .supervisor import SOCKET

PATIENCE_S = 10.0
KEYS_AT_ONCE = 1_000
# What outlives a clearing: counters, which only grow, and those who wait or listen at this moment.
_LASTING = ("seq", "token", "debts", "limits_version", "limit_number", "workers", "followed", "events")
_LASTING_KINDS = ("w:", "wj:", "bell:", "waiters:")

_engine: EmbeddedEngine | None = None
_starting = threading.Lock()
_numbers = itertools.count(1)


class AlwaysDurable(Deployment):
    """Whatever durability a call asks for counts as reached: there is nothing to reach it with."""

    def command_for(self, durability: Durability, wait_ms: int) -> tuple[str, ...] | None:
        return None


def open_test_store() -> Store:
    """A deployment of its own, whose clock can be moved. Give it back with `close_trial`."""
    engine = _private_engine()
    # Named after the process: one that was forked shares the engine.
    namespace = f"trial-{os.getpid()}-{next(_numbers)}"
    store = Store(parse_url(engine.url), namespace=namespace, is_test=True, patience_s=PATIENCE_S)
    store.deployment = AlwaysDurable(*store.open_sync())
    return store


def close_test_store(store: Store) -> None:
    _remove(store, store._sync_connection.call("KEYS", f"{store.namespace}:*"))
    store.close_sync()


def clear_test_store(store: Store) -> None:
    """All jobs and what belongs to them, and all that was configured, except limits: these are taken back one by one,
    since whoever knows them must learn of it."""
    prefix = f"{store.root(0)}:".encode()
    found = store._sync_connection.call("KEYS", f"{store.root(0)}:*")
    _remove(store, [key for key in found if not _is_lasting(key.removeprefix(prefix).decode(errors="replace"))])


def _is_lasting(name: str) -> bool:
    return name in _LASTING or name.startswith(_LASTING_KINDS)


def _remove(store: Store, keys: list[bytes]) -> None:
    for start in range(0, len(keys), KEYS_AT_ONCE):
        store._sync_connection.call("UNLINK", *keys[start : start + KEYS_AT_ONCE])


def _private_engine() -> EmbeddedEngine:
    """Started by the first use, shared by later ones. Joining it again is cheap, and needed by a forked process."""
    global _engine  # noqa: PLW0603
    with _starting:
        if _engine is None:
            _engine = EmbeddedEngine(_directory(), extra_arguments=("--appendonly", "no", "--save", ""))
            atexit.register(_end, _engine, os.getpid())
        _engine.join()
        return _engine


def _directory() -> Path:
    """Short enough for a socket, wherever temporary files go."""
    made = Path(tempfile.mkdtemp(prefix="windlass-test-"))
    if len(os.fsencode(made / SOCKET)) > LONGEST_SOCKET_PATH:
        made.rmdir()
        made = Path(tempfile.mkdtemp(prefix="windlass-test-", dir="/tmp"))
    return made


def _end(engine: EmbeddedEngine, owner: int) -> None:
    """Whoever is killed leaves its use to the engine's keeper, which sees it end."""
    if os.getpid() == owner:
        engine.leave()
        shutil.rmtree(engine.data_dir, ignore_errors=True)
