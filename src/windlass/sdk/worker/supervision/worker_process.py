"""Worker process as its supervisor sees it: start, receive messages, stop, kill."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from .protocol import LINE_MAX, STOP, STOP_NOW, LoadedMessage, Message, decode

log = logging.getLogger("windlass.supervisor")
DRAIN_S = 1.0  # to read the last messages of an ended process


class WorkerProcess:
    """One worker process."""

    def __init__(self, number: int) -> None:
        self.number = number  # among living processes, from 1
        self.worker_id = secrets.token_bytes(16)
        self.started_at_s = time.monotonic()
        self.loaded: LoadedMessage | None = None
        self.is_ready = False
        self.is_stopping = False
        self.was_killed = False  # by its supervisor
        self.running = 0  # jobs, by its last message
        self._process: asyncio.subprocess.Process
        self._writer: asyncio.StreamWriter
        self._reader: asyncio.StreamReader

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self, command: Sequence[str]) -> None:
        """Start a new process, never a fork of this one.

        It is not in the terminal's process group: Ctrl-C reaches the supervisor only, which passes it on once.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            place = f"{self.worker_id.hex()}:{theirs.fileno()}"
            self._process = await asyncio.create_subprocess_exec(
                *command, "--supervised", place, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_MAX)

    async def follow(self, receive: Callable[[Message], None]) -> int:
        """Receive messages until the process ends. Returns its exit code, negative if a signal ended it."""
        listening = asyncio.create_task(self._listen(receive))
        code = await self._process.wait()
        # A process that it started may still hold its socket, so the end of the stream may not come.
        await asyncio.wait({listening}, timeout=DRAIN_S)
        listening.cancel()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        return code

    async def _listen(self, receive: Callable[[Message], None]) -> None:
        async for line in self._lines():
            try:
                receive(decode(line))
            except msgspec.DecodeError as error:
                log.warning("Ignored a malformed message of worker process %d: %s.", self.pid, error)

    async def _lines(self) -> AsyncIterator[bytes]:
        with contextlib.suppress(OSError, ValueError):
            while line := await self._reader.readline():
                yield line

    def stop(self) -> None:
        """Ask for a stop by message, not by signal.

        Where SIGTERM goes to all processes, a signal from here would be the second one and mean "at once".
        """
        self.is_stopping = True
        self._send(STOP)

    def stop_now(self) -> None:
        self.is_stopping = True
        self._send(STOP_NOW)

    def kill(self) -> None:
        self.was_killed = True
        self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _send(self, word: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(word + b"\n")
