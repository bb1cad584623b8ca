"""Stores and services of a deployment, which is an engine or a server in front of it.

The rest of the SDK does not depend on which of the two it is. The HTTP client is imported only for a server, so that
programs that use an engine do not load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from windlass.core.errors import BadSetting
from windlass.deployment import build_store
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

if TYPE_CHECKING:
    from .remote.store import RemoteStore
    from .remote.workers import WorkerConnection

AnyStore: TypeAlias = "Store | RemoteStore"


def is_server(url: str) -> bool:
    """Report whether the URL names a server and not an engine."""
    return url.strip().lower().startswith(("http://", "https://"))


def make_store(settings: Settings) -> AnyStore:
    if not is_server(settings.url):
        return build_store(settings)
    from .remote.address import parse_server_url
    from .remote.store import RemoteStore

    return RemoteStore(
        parse_server_url(settings.url),
        token=settings.token,
        durability=settings.durability,
        patience_s=settings.patience_ms / 1000,
    )


def make_service(store: AnyStore) -> Service:
    if isinstance(store, Store):
        return Service(store)
    from .remote.service import RemoteService

    return RemoteService(store)


def make_worker_connection(store: AnyStore, worker: bytes) -> WorkerConnection | None:
    """Make the connection by whose end a server notices that the worker is gone. An engine watches none."""
    if isinstance(store, Store):
        return None
    from .remote.workers import WorkerConnection

    return WorkerConnection(store, worker)


def require_engine_store(store: AnyStore) -> Store:
    """Return the engine's store, or raise BadSetting if the application uses a server."""
    if not isinstance(store, Store):
        raise BadSetting(
            f"This operation needs the engine, and the application uses the server at {store.endpoint}. Give the "
            "application the URL of the engine itself (redis://…)."
        )
    return store
