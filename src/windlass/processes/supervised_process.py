"""One supervised process from the parent's side: start, receive lines, send orders, kill."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Callable, Sequence

from .supervision_policy import StopOrder

LINE_MAX = 2**24
DRAIN_S = 1.0  # to read the last lines of an ended process


class SupervisedProcess:
    """One process under a `Supervisor`. A pair of sockets connects both; if one side ends, the other reads the end of
    the stream (`parent_connection.py`)."""

    def __init__(self, number: int) -> None:
        self.number = number  # among living processes, from 1
        self.started_at_s = time.monotonic()
        self.is_ready = False
        self.is_stopping = False
        self.was_killed = False  # by its supervisor
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self, command: Callable[[int], Sequence[str]], shared: Sequence[int] = ()) -> None:
        """Start a new process, never a fork of this one. `command` gets the descriptor of the process's socket; the
        process also inherits the descriptors `shared`.

        The process leads a session of its own: Ctrl-C reaches the supervisor only, which passes it on once.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *command(descriptor), pass_fds=(descriptor, *shared), start_new_session=True
                )
            except BaseException:
                ours.close()
                raise
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_MAX)

    async def follow(self, receive: Callable[[bytes], None]) -> int:
        """Receive lines until the process ends. Return its exit code, negative if a signal ended it."""
        listening = asyncio.create_task(self._listen(receive))
        code = await self._process.wait()
        # A process that it started may still hold its socket, so the end of the stream may not come.
        await asyncio.wait({listening}, timeout=DRAIN_S)
        listening.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        return code

    async def _listen(self, receive: Callable[[bytes], None]) -> None:
        while line := await self._read_line():
            receive(line)

    async def _read_line(self) -> bytes:
        try:
            return await self._reader.readline()
        except (OSError, ValueError):  # ValueError: the line is too long
            return b""

    def send(self, order: StopOrder) -> None:
        """Stop the process by a message, not by a signal.

        Where SIGTERM goes to all processes, a signal from here would be the second one and mean "at once".
        """
        if order is StopOrder.KILL:
            self.was_killed = True
            self.signal(signal.SIGKILL)
            return
        self.is_stopping = True
        if not self._writer.is_closing():
            self._writer.write(order.value + b"\n")

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
