"""A TCP proxy with faults. Each link is a local port that leads to one address; it can be cut, stalled or slowed.

All links run in one thread with its own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Address = tuple[str, int] | str  # host and port, or the path of a unix socket
Mode = Literal["through", "cut", "stall"]

T = TypeVar("T")
CHUNK = 65_536
STALL_POLL_S = 0.05  # how often a stalled link checks whether it may go on
RESET = struct.pack("ii", 1, 0)  # linger for no time: closing sends a reset


@dataclass
class LinkBehaviour:
    mode: Mode = "through"
    delay_s: float = 0.0
    bytes_per_s: float = 0.0  # 0: unlimited


class ProxyLink:
    """One port of the proxy. Its methods may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, target: Address) -> None:
        self.name = name
        self.target = target
        self.behaviour = LinkBehaviour()
        self.port = 0
        self._loop = loop
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._unanswered = b""  # the call whose reply is to be lost
        self.has_lost = threading.Event()

    # Faults

    def cut(self) -> None:
        """Reset every connection, and every new one, until `restore`."""
        self.behaviour = LinkBehaviour("cut")
        self._loop.call_soon_threadsafe(self._reset_all)

    def stall(self) -> None:
        """Leave connections half open: new ones are accepted, no data passes."""
        self.behaviour = LinkBehaviour("stall")

    def slow(self, delay_s: float, bytes_per_s: float = 0.0) -> None:
        self.behaviour = LinkBehaviour("through", delay_s, bytes_per_s)

    def restore(self) -> None:
        self.behaviour = LinkBehaviour()

    def drop(self) -> None:
        """Reset the connections of this moment; new ones pass."""
        self._loop.call_soon_threadsafe(self._reset_all)

    def lose_reply_to(self, call: bytes) -> None:
        """Pass the next call with these bytes, and reset its connection when the reply arrives. Then set `has_lost`."""
        self.has_lost.clear()
        self._unanswered = call

    # In the thread of the event loop

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._reset_all()

    def _reset_all(self) -> None:
        for writer in list(self._open):
            _reset(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.behaviour.mode == "cut":
            _reset(writer)
            return
        try:
            far_reader, far_writer = await _open(self.target)
        except OSError:
            _reset(writer)
            return
        ends = {writer, far_writer}
        self._open |= ends
        try:
            is_losing = asyncio.Event()
            await asyncio.gather(
                self._forward(reader, far_writer, lambda data: self._note_call(data, is_losing)),
                self._forward(far_reader, writer, lambda _: self._lose_reply(is_losing)),
            )
        except OSError:
            pass
        finally:
            self._open -= ends
            for end in ends:
                _reset(end)

    def _note_call(self, data: bytes, is_losing: asyncio.Event) -> None:
        if self._unanswered and self._unanswered in data:
            self._unanswered = b""
            is_losing.set()

    def _lose_reply(self, is_losing: asyncio.Event) -> None:
        if is_losing.is_set():
            self.has_lost.set()
            raise ConnectionResetError("The reply is lost.")

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, inspect: Callable[[bytes], None]
    ) -> None:
        while data := await reader.read(CHUNK):
            inspect(data)
            while self.behaviour.mode == "stall":  # noqa: ASYNC110 (set by another thread)
                await asyncio.sleep(STALL_POLL_S)
            behaviour = self.behaviour
            pause_s = behaviour.delay_s + (len(data) / behaviour.bytes_per_s if behaviour.bytes_per_s else 0.0)
            if pause_s:
                await asyncio.sleep(pause_s)
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()


async def _open(target: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(target, str):
        return await asyncio.open_unix_connection(target)
    return await asyncio.open_connection(*target)


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.family != socket.AF_UNIX and raw.fileno() >= 0:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


class Proxy:
    """All links of a run."""

    def __init__(self) -> None:
        self.links: dict[str, ProxyLink] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def add_link(self, name: str, target: Address) -> ProxyLink:
        link = self.links[name] = ProxyLink(self._loop, name, target)
        self._run_in_loop(link.listen)
        return link

    def close(self) -> None:
        for link in self.links.values():
            self._run_in_loop(link.close)
        self._run_in_loop(self._cancel_tasks)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_tasks(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _run_in_loop(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(10)
