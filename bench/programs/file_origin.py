"""HTTP origin in its own process: `GET /<n>` returns n bytes. It prints its port, and ends when its standard input is
closed."""

import asyncio
import sys
from typing import Any

import uvloop

PART = bytes(256 * 1024)


class Origin(asyncio.Protocol):
    def __init__(self) -> None:
        self._received = b""
        self._left = 0
        self._is_paused = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if b"\r\n\r\n" not in self._received:
            return
        size = int(self._received.split(b" ", 2)[1][1:])
        self._received = b""
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode()
        first = min(size, len(PART))
        self._left = size - first
        self._transport.write(head + PART[:first])
        self._send()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._send()

    def _send(self) -> None:
        while self._left and not self._is_paused:
            part = PART[: self._left]
            self._left -= len(part)
            self._transport.write(part)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Origin, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(main())
