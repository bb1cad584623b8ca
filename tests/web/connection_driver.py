"""Driver of an HTTP connection without a socket, with input in pieces of any length."""

from __future__ import annotations

import asyncio

from tests.web.http_client import Application, MemoryTransport, parse_answers
from windlass.web.listener.bounds import Bounds
from windlass.web.listener.connection import HttpConnection
from windlass.web.listener.listener import HttpListener
from windlass.web.listener.messages import Head


def drive_connection(pieces: list[bytes]) -> tuple[list[Head], bytes]:
    """Feed the pieces and return the planned heads and the written data."""
    return asyncio.run(_drive(pieces))


async def _drive(pieces: list[bytes]) -> tuple[list[Head], bytes]:
    application = Application()
    listener = application.listener = HttpListener(application, Bounds(pipelined_max=3))
    transport = MemoryTransport()
    connection = HttpConnection(listener)
    connection.connection_made(transport)
    for piece in pieces:
        if not transport.is_closing():
            connection.data_received(piece)
        await asyncio.sleep(0)
    for _ in range(50):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await listener.stop(1)
    return application.heads, bytes(transport.written)


def parse_all_answers(written: bytes) -> list[tuple[int, bytes]]:
    return list(parse_answers(written))
