"""The life of one server process: until it is told to stop, by a signal or by its parent, or has no parent any more."""

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

from .serve import Server, open_server
from .sockets import Sockets

log = logging.getLogger("windlass.server")

STOP, NOW = b"stop", b"now"  # what a parent says: end when all is answered; end at once
SIGNALS = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLD = 20_000  # objects; Python's own 700 are made by one request with a hundred jobs


class StopRequest:
    """Whether this process was told to stop, and whether at once."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.urgent = asyncio.Event()

    def request(self) -> None:
        self.requested.set()

    def request_now(self) -> None:
        self.requested.set()
        self.urgent.set()

    def escalate(self) -> None:
        """The second time it is urgent."""
        self.request_now() if self.requested.is_set() else self.request()


class Parent:
    """What a process knows of its parent: written as `FD:FD,FD:FD,FD`, the socket between them and those to listen on,
    for HTTP and for Bedrock."""

    def __init__(self, written: str) -> None:
        between, *listening = written.split(":")
        self._socket = _inherited(between)
        self.sockets = Sockets(*([_inherited(one) for one in some.split(",") if one] for some in listening))
        self._unread = b""

    def send_ready(self, lines: Sequence[str]) -> None:
        with contextlib.suppress(OSError):  # a parent that is gone is noticed by listening
            self._socket.sendall(msgspec.json.encode(lines) + b"\n")

    def listen(self, stopping: StopRequest) -> None:
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._read_commands, loop, stopping)

    def _read_commands(self, loop: asyncio.AbstractEventLoop, stopping: StopRequest) -> None:
        try:
            heard = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if not heard:
            loop.remove_reader(self._socket)
            log.warning("The parent of this server process is gone; it stops.")
            stopping.request()
        *words, self._unread = (self._unread + heard).split(b"\n")
        for word in words:
            {STOP: stopping.request, NOW: stopping.request_now}.get(word, lambda: None)()


def _inherited(descriptor: str) -> socket:
    found = socket(fileno=int(descriptor))
    found.set_inheritable(False)
    return found


def raise_file_limit() -> None:
    """A connection is an open file: as many as the system lets us have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def relax_gc() -> None:
    """Requests leave next to nothing to the collector of circular garbage, and it was a seventh of what they cost."""
    freeze_startup_objects()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


async def serve(
    settings: Settings,
    sockets: Sockets,
    announce: Callable[[Server], None],
    parent: Parent | None = None,
) -> None:
    raise_file_limit()
    stopping = StopRequest()
    # Where SIGTERM goes to parent and children alike, a second stop comes by word: it does not mean `at once`.
    handle = stopping.escalate if parent is None else stopping.request
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, handle)
    if parent is not None:
        parent.listen(stopping)
    async with open_server(build_store(settings), settings, sockets) as running:
        running.stop_now = stopping.urgent
        relax_gc()
        announce(running)
        await stopping.requested.wait()
