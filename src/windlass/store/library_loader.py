"""Loader of the function library, for a node that does not have it."""

from __future__ import annotations

from windlass.core.errors import EngineFull

from .connection.connection import CommandArgs, EngineReplyError
from .connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from .connection.replies import is_library_loaded, load_without_memory_limit
from .scripts import Library
from .topology.requirements import Deployment


async def load_library(
    library: Library, connection: ReconnectingConnection, deployment: Deployment, is_embedded: bool
) -> None:
    deployment.check_may_load()
    try:
        await connection.call("FUNCTION", "LOAD", library.source)
    except EngineReplyError as error:
        if error.kind == "OOM":
            await connection.call_together(_load_when_full(library, deployment, is_embedded, error))
        elif not is_library_loaded(error):
            raise


def load_library_sync(
    library: Library, connection: SyncReconnectingConnection, deployment: Deployment, is_embedded: bool
) -> None:
    deployment.check_may_load()
    try:
        connection.call("FUNCTION", "LOAD", library.source)
    except EngineReplyError as error:
        if error.kind == "OOM":
            connection.call_together(_load_when_full(library, deployment, is_embedded, error))
        elif not is_library_loaded(error):
            raise


def _load_when_full(
    library: Library, deployment: Deployment, is_embedded: bool, refusal: EngineReplyError
) -> list[CommandArgs]:
    if not is_embedded:
        raise EngineFull() from refusal
    return load_without_memory_limit(("FUNCTION", "LOAD", "REPLACE", library.source), deployment.memory_max)
