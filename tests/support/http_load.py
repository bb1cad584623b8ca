"""HTTP clients that enqueue jobs over persistent connections and count answered and cut requests."""

from __future__ import annotations

import asyncio
import contextlib
import json

BODY = b'{"queue":"q","name":"n"}'
REQUEST = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)


class HttpLoad:
    def __init__(self, address: tuple[str, int], *, reconnects: bool = False) -> None:
        self._address = address
        self._reconnects = reconnects  # after a cut connection too
        self.accepted: list[str] = []  # ids
        self.refused: list[bytes] = []
        self.cut = 0  # requests without a complete answer
        self._goal = asyncio.Condition()

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(60), self._goal:
            await self._goal.wait_for(lambda: len(self.accepted) >= count)

    async def run(self, clients: int) -> None:
        """Run clients until the server accepts no connection."""
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._client())

    async def _client(self) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(*self._address)
            except OSError:
                return
            try:
                while await self._send_request(reader, writer):
                    pass
            except (OSError, EOFError, asyncio.IncompleteReadError):
                self.cut += 1
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
            if not self._reconnects:
                return

    async def _send_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one request and return whether the connection stays open."""
        writer.write(REQUEST)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        if head.startswith(b"http/1.1 201 "):
            self.accepted.append(json.loads(body)["id"])
        else:
            self.refused.append(head + body)
        async with self._goal:
            self._goal.notify_all()
        return b"connection: close" not in head
