"""The parent of several server processes: opens the sockets, which they share, restarts those that die, passes on what
it is told. It serves nobody itself, and knows no engine."""

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
STEADY_S = 60.0  # a process that has lived so long starts the pauses anew
UNWIND_S = 10.0  # beyond the grace, for closing the store and the rest
LINE_MAX = 2**20
Announce = Callable[[list[str]], None]


class ServerProcess:
    """One server process as its parent sees it."""

    def __init__(self) -> None:
        self.started_at_s = time.monotonic()
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self, command: Sequence[str], sockets: Sockets) -> None:
        """Not in the terminal's group: Ctrl-C is for its parent, who passes it on once."""
        ours, theirs = socketpair()
        with theirs:
            shared = [one.fileno() for one in sockets.all]
            listening = (",".join(str(one.fileno()) for one in some) for some in sockets)
            place = ":".join([str(theirs.fileno()), *listening])
            self._process = await asyncio.create_subprocess_exec(
                *command, "--supervised", place, pass_fds=(theirs.fileno(), *shared), start_new_session=True
            )
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_MAX)

    async def wait(self, ready: Announce) -> int:
        """Until its end. Answers its exit code, negative when a signal ended it."""
        listening = asyncio.create_task(self._read_messages(ready))
        code = await self._process.wait()
        listening.cancel()
        await asyncio.wait({listening})
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
    """`await family.run()` answers the exit code."""

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
        """The first process shows whether it can be done; what is wrong with the settings is said once."""
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_running())
            await self._first(self._is_ready, self._is_over)
            for _ in range(self._count - 1):
                group.create_task(self._keep_running())
        return self._exit_code

    def stop(self) -> None:
        """All of them end when everything is answered; the second time at once, the third kills them."""
        self._is_over.set()
        self._stops += 1
        for child in self._children:
            self._stop(child)

    def _stop(self, child: ServerProcess) -> None:
        if self._stops > 2:
            child.kill()
            return
        child.send(NOW if self._stops == 2 else STOP)
        patience_s = UNWIND_S if self._stops == 2 else self._grace_s + UNWIND_S
        asyncio.get_running_loop().call_later(patience_s, self._kill_if_alive, child)

    def _kill_if_alive(self, child: ServerProcess) -> None:
        if child in self._children:
            log.error("Server process %d does not end; it is killed.", child.pid)
            child.kill()

    async def _keep_running(self) -> None:
        """One of the places: a process, and another one when it dies."""
        deaths = 0
        while not self._is_over.is_set():
            child = ServerProcess()
            said = await self._run_once(child)
            if self._is_over.is_set():
                return
            deaths = 0 if time.monotonic() - child.started_at_s >= STEADY_S else deaths
            pause_s = min(FIRST_PAUSE_S * 2**deaths, LONGEST_PAUSE_S)
            deaths = min(deaths + 1, 10)
            log.error("%s; another starts in %g s.", said, pause_s)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), pause_s)

    async def _run_once(self, child: ServerProcess) -> str:
        """Answers how it ended."""
        try:
            await child.start(self._command, self._sockets)
        except OSError as error:
            return f"No server process can be started ({error})"
        self._children.add(child)
        if self._is_over.is_set():
            self._stop(child)  # it was said while this one started
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

    async def _first(self, *events: asyncio.Event) -> None:
        waiting = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
