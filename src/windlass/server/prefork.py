"""Prefork supervisor: parent of several server processes that share its sockets. It restarts processes that die and
passes stop signals on. It serves no requests and does not use the engine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from socket import socketpair

import msgspec

from windlass.core.text.humanize import describe_exit

from .process import NOW, SIGNALS, STOP
from .sockets import Sockets

log = logging.getLogger("windlass.server")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
STEADY_S = 60.0  # a process that has run so long resets the pause before a restart
UNWIND_S = 10.0  # after the grace period, for closing the store and the rest
LINE_MAX = 2**20
Announce = Callable[[list[str]], None]


class ServerProcess:
    """Child process of the supervisor."""

    def __init__(self) -> None:
        self.started_at_s = time.monotonic()
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self, command: Sequence[str], sockets: Sockets) -> None:
        """Start the process in a session of its own: Ctrl-C reaches the parent only, which passes it on once."""
        ours, theirs = socketpair()
        with theirs:
            shared = [listening.fileno() for listening in sockets.all]
            groups = (",".join(str(listening.fileno()) for listening in group) for group in sockets)
            descriptors = ":".join([str(theirs.fileno()), *groups])
            self._process = await asyncio.create_subprocess_exec(
                *command, "--supervised", descriptors, pass_fds=(theirs.fileno(), *shared), start_new_session=True
            )
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_MAX)

    async def wait(self, ready: Announce) -> int:
        """Wait for the end of the process and return its exit code, negative if a signal ended it. Call `ready` with
        the announcement of the process."""
        reading = asyncio.create_task(self._read_messages(ready))
        code = await self._process.wait()
        reading.cancel()
        await asyncio.wait({reading})
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        return code

    async def _read_messages(self, ready: Announce) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := await self._reader.readline():
                ready(msgspec.json.decode(line, type=list[str]))

    def send(self, word: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(word + b"\n")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


class PreforkSupervisor:
    """Supervisor of `count` server processes. `run` returns the exit code."""

    def __init__(
        self, command: Sequence[str], count: int, sockets: Sockets, *, grace_s: float, announce: Announce
    ) -> None:
        self._command = command
        self._count = count
        self._sockets = sockets
        self._grace_s = grace_s
        self._announce = announce
        self._children: set[ServerProcess] = set()
        self._is_ready, self._is_over = asyncio.Event(), asyncio.Event()
        self._stops = 0
        self._exit_code = 0

    async def run(self) -> int:
        """Start one process first, so that an error in the settings is reported once; then start the others."""
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_running())
            await _wait_for_first(self._is_ready, self._is_over)
            for _ in range(self._count - 1):
                group.create_task(self._keep_running())
        return self._exit_code

    def stop(self) -> None:
        """Stop all processes after the requests in progress; on the second call at once, on the third by a kill."""
        self._is_over.set()
        self._stops += 1
        for child in self._children:
            self._stop(child)

    def _stop(self, child: ServerProcess) -> None:
        if self._stops > 2:
            child.kill()
            return
        child.send(NOW if self._stops == 2 else STOP)
        timeout_s = UNWIND_S if self._stops == 2 else self._grace_s + UNWIND_S
        asyncio.get_running_loop().call_later(timeout_s, self._kill_if_alive, child)

    def _kill_if_alive(self, child: ServerProcess) -> None:
        if child in self._children:
            log.error("Server process %d has not ended in time; it is killed.", child.pid)
            child.kill()

    async def _keep_running(self) -> None:
        """Run a process, and restart it with a growing pause when it dies."""
        deaths = 0
        while not self._is_over.is_set():
            child = ServerProcess()
            ending = await self._run_once(child)
            if self._is_over.is_set():
                return
            deaths = 0 if time.monotonic() - child.started_at_s >= STEADY_S else deaths
            pause_s = min(FIRST_PAUSE_S * 2**deaths, LONGEST_PAUSE_S)
            deaths = min(deaths + 1, 10)
            log.error("%s; another starts in %g s.", ending, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), pause_s)

    async def _run_once(self, child: ServerProcess) -> str:
        """Run a process and describe how it ended."""
        try:
            await child.start(self._command, self._sockets)
        except OSError as error:
            return f"Could not start a server process ({error})"
        self._children.add(child)
        if self._is_over.is_set():
            self._stop(child)  # the stop came while this process started
        code = await child.wait(self._on_ready)
        self._children.discard(child)
        if code and not self._is_ready.is_set() and not self._is_over.is_set():
            self._exit_code = code if code > 0 else 1
            self.stop()
        return f"Server process {child.pid} {describe_exit(code)}"

    def _on_ready(self, lines: list[str]) -> None:
        if not self._is_ready.is_set():
            self._is_ready.set()
            self._announce(lines)


async def _wait_for_first(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
