"""One worker process as its supervisor sees it: started, listened to, told to stop, killed."""

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
DRAIN_S = 1.0  # for what a process that has ended said before


class WorkerProcess:
    def __init__(self, number: int) -> None:
        self.number = number  # among those that live, from 1
        self.worker_id = secrets.token_bytes(16)
        self.started_at_s = time.monotonic()
        self.loaded: LoadedMessage | None = None
        self.is_ready = False
        self.is_stopping = False
        self.was_killed = False  # by its supervisor
        self.running = 0  # jobs, as it last said
        self._process: asyncio.subprocess.Process
        self._writer: asyncio.StreamWriter
        self._reader: asyncio.StreamReader

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self, command: Sequence[str]) -> None:
        """A process of its own, never a fork of this one. It is not in the terminal's group: Ctrl-C is for its
        supervisor, who passes it on once."""
        ours, theirs = socket.socketpair()
        with theirs:
            place = f"{self.worker_id.hex()}:{theirs.fileno()}"
            self._process = await asyncio.create_subprocess_exec(
                *command, "--supervised", place, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_MAX)

    async def follow(self, receive: Callable[[Message], None]) -> int:
        """Until its end. Answers its exit code, negative when a signal ended it."""
        listening = asyncio.create_task(self._listen(receive))
        code = await self._process.wait()
        # Something that it has started may still hold its socket: the end of the stream is not waited for.
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
                log.warning("Worker process %d said something strange: %s.", self.pid, error)

    async def _lines(self) -> AsyncIterator[bytes]:
        with contextlib.suppress(OSError, ValueError):
            while line := await self._reader.readline():
                yield line

    def stop(self) -> None:
        """By word, not by signal: where SIGTERM goes to all processes, a second one would mean `at once`."""
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
