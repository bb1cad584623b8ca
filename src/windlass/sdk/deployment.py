"""How a deployment is store: its engine itself, or a server in front of it. The rest of the SDK does not ask which.
What speaks HTTP is loaded when a server is meant: a program on an engine does not pay for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from windlass import server
from windlass.core.errors import BadSetting
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

if TYPE_CHECKING:
    from .remote.store import RemoteStore

AnyStore: TypeAlias = "Store | RemoteStore"


def is_server(url: str) -> bool:
    """Does it name a server, not an engine?"""
    return url.strip().lower().startswith(("http://", "https://"))


def make_store(settings: Settings) -> AnyStore:
    if not is_server(settings.url):
        return server.build_store(settings)
    from .remote.address import parse_server
    from .remote.store import RemoteStore

    return RemoteStore(
        parse_server(settings.url),
        token=settings.token,
        durability=settings.durability,
        patience_s=settings.patience_ms / 1000,
    )


def make_service(store: AnyStore) -> Service:
    if isinstance(store, Store):
        return Service(store)
    from .remote.service import RemoteService

    return RemoteService(store)


def require_engine_store(store: AnyStore) -> Store:
    """For what only an engine offers."""
    if not isinstance(store, Store):
        raise BadSetting(
            f"This application reaches its jobs through the server at {store.endpoint}: there is no store here. Give "
            "it the URL of the engine itself (redis://…) for what only the engine offers."
        )
    return store
