"""Lifecycle of one server process: it runs until a signal or its parent stops it, or its parent is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
from collections.abc import Callable, Sequence
from socket import socket

import msgspec

from windlass.core.gc_tuning import freeze_startup_objects
from windlass.deployment import build_store
from windlass.settings import Settings

from .server import Server, open_server
from .sockets import Sockets

log = logging.getLogger("windlass.server")

STOP, NOW = b"stop", b"now"  # messages of the parent: stop after the requests in progress; stop at once
SIGNALS = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLD = 20_000  # objects; one request with a hundred jobs exceeds Python's default of 700


class StopRequest:
    """Request to stop this process, and whether at once."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.urgent = asyncio.Event()

    def request(self) -> None:
        self.requested.set()

    def request_now(self) -> None:
        self.requested.set()
        self.urgent.set()

    def escalate(self) -> None:
        """Request a stop; the second call makes it urgent."""
        self.request_now() if self.requested.is_set() else self.request()


class Parent:
    """Parent of a server process. It is described as `FD:FD,FD:FD,FD`: the socket to the parent, the listening sockets
    of HTTP, and those of Bedrock."""

    def __init__(self, descriptors: str) -> None:
        to_parent, *listening = descriptors.split(":")
        self._socket = _inherited(to_parent)
        self.sockets = Sockets(*([_inherited(number) for number in group.split(",") if number] for group in listening))
        self._unread = b""

    def send_ready(self, lines: Sequence[str]) -> None:
        with contextlib.suppress(OSError):  # `listen` notices that the parent is gone
            self._socket.sendall(msgspec.json.encode(lines) + b"\n")

    def listen(self, stopping: StopRequest) -> None:
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._read_commands, loop, stopping)

    def _read_commands(self, loop: asyncio.AbstractEventLoop, stopping: StopRequest) -> None:
        try:
            received = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            loop.remove_reader(self._socket)
            log.warning("The parent of this server process is gone; the process stops.")
            stopping.request()
        *words, self._unread = (self._unread + received).split(b"\n")
        for word in words:
            {STOP: stopping.request, NOW: stopping.request_now}.get(word, lambda: None)()


def _inherited(descriptor: str) -> socket:
    inherited = socket(fileno=int(descriptor))
    inherited.set_inheritable(False)
    return inherited


def raise_file_limit() -> None:
    """Raise the limit of open files to the maximum that the system allows: each connection is an open file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def relax_gc() -> None:
    """Run the cyclic garbage collector less often. Requests leave almost no cyclic garbage, and the collector took a
    seventh of their time."""
    freeze_startup_objects()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


async def serve(
    settings: Settings,
    sockets: Sockets,
    announce: Callable[[Server], None],
    parent: Parent | None = None,
) -> None:
    """Run a server until it is stopped. Call `announce` when it is ready."""
    raise_file_limit()
    stopping = StopRequest()
    # If SIGTERM reaches parent and children alike, the parent's message is a second stop; it must not be urgent.
    handle = stopping.escalate if parent is None else stopping.request
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, handle)
    if parent is not None:
        parent.listen(stopping)
    async with open_server(build_store(settings), settings, sockets) as server:
        server.stop_now = stopping.urgent
        relax_gc()
        announce(server)
        await stopping.requested.wait()
