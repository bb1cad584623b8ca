"""Client of the Bedrock port, on a bare socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import msgspec

LIMIT_S = 20.0


class ClientReply(NamedTuple):
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.line.split()[0])

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class SocketClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> ClientReply:
        async with asyncio.timeout(LIMIT_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            line, *lines = head.decode().removesuffix("\r\n\r\n").split("\r\n")
            headers = dict(one.split(": ", 1) for one in lines)
            return ClientReply(line, headers, await self.reader.readexactly(int(headers["Content-Length"])))

    async def call(self, data: bytes | str, /, **headers: object) -> ClientReply:
        """Send a request (bytes, or a verb with headers) and return the reply."""
        await self.send(data if isinstance(data, bytes) else command(data, **headers))
        return await self.answer()

    def reset(self) -> None:
        """Reset the connection."""
        peer = self.writer.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def read_to_end(self) -> bytes:
        """Read until the server closes the connection."""
        async with asyncio.timeout(LIMIT_S):
            return await self.reader.read()


def command(verb: str, /, **headers: object) -> bytes:
    return "\n".join([verb, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode()


@contextlib.asynccontextmanager
async def connect(address: str, limit: int = 2**16) -> AsyncIterator[SocketClient]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=limit)
    try:
        yield SocketClient(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
