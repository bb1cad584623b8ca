"""Lifecycle of one server process: it runs until a signal or its parent stops it, or its parent is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import Callable, Sequence

import msgspec

from windlass.core.gc_tuning import freeze_startup_objects
from windlass.deployment import build_store
from windlass.processes.event_loop import handle_signals
from windlass.processes.parent_connection import ParentConnection, inherited_socket
from windlass.settings import Settings

from .server import Server, open_server
from .sockets import Sockets

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import resource

log = logging.getLogger("windlass.server")

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


class Parent(ParentConnection):
    """Parent of a server process. It is described as `FD:FD,FD:FD,FD`: the socket to the parent, the listening sockets
    of HTTP, and those of Bedrock."""

    def __init__(self, descriptors: str) -> None:
        to_parent, *listening = descriptors.split(":")
        super().__init__(int(to_parent), log, "server process")
        self.sockets = Sockets(
            *([inherited_socket(int(number)) for number in group.split(",") if number] for group in listening)
        )

    def send_ready(self, lines: Sequence[str]) -> None:
        self.send(msgspec.json.encode(lines))


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
    handle_signals(SIGNALS, handle)
    if parent is not None:
        parent.listen(stopping.request, stopping.request_now)
    async with open_server(build_store(settings), settings, sockets) as server:
        server.stop_now = stopping.urgent
        relax_gc()
        announce(server)
        await stopping.requested.wait()
