"""Connections that are closed at the end of a block."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

from windlass.store.connection.connection import Connection
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.reconnect import ReconnectingConnection, SyncReconnectingConnection
from windlass.store.connection.sync_connection import SyncConnection


@contextlib.asynccontextmanager
async def open_connection(endpoint: Endpoint) -> AsyncIterator[Connection]:
    connection = await Connection.open(endpoint)
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


@contextlib.asynccontextmanager
async def open_reconnecting(endpoint: Endpoint, **options: Any) -> AsyncIterator[ReconnectingConnection]:
    connection = ReconnectingConnection(endpoint, **options)
    try:
        yield connection
    finally:
        connection.close()
        await connection.wait_closed()


@contextlib.contextmanager
def open_sync_connection(endpoint: Endpoint) -> Iterator[SyncConnection]:
    with contextlib.closing(SyncConnection.open(endpoint)) as connection:
        yield connection


@contextlib.contextmanager
def open_sync_reconnecting(endpoint: Endpoint, **options: Any) -> Iterator[SyncReconnectingConnection]:
    with contextlib.closing(SyncReconnectingConnection(endpoint, **options)) as connection:
        yield connection
