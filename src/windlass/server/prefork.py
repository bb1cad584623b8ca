"""Prefork supervisor: parent of several server processes that share its listening sockets. It serves no requests and
does not use the engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from windlass.processes.supervised_process import SupervisedProcess
from windlass.processes.supervision_policy import graceful_stop
from windlass.processes.supervisor import Supervisor

from .sockets import Sockets

log = logging.getLogger("windlass.server")

UNWIND_S = 10.0  # after the grace period, for closing the store and the rest
Announce = Callable[[list[str]], None]


class PreforkSupervisor(Supervisor[SupervisedProcess]):
    """Supervisor of `count` server processes. It calls `announce` with the lines of the first process that is ready."""

    def __init__(
        self, command: Sequence[str], count: int, sockets: Sockets, *, grace_s: float, announce: Announce
    ) -> None:
        super().__init__(count, graceful_stop(grace_s, UNWIND_S), log, "server process")
        self._command = command
        self._sockets = sockets
        self._announce = announce

    def make_process(self, number: int) -> SupervisedProcess:
        return SupervisedProcess(number)

    async def start_process(self, process: SupervisedProcess) -> None:
        shared = [listening.fileno() for listening in self._sockets.all]
        await process.start(self._command_with, shared)

    def _command_with(self, descriptor: int) -> list[str]:
        """Return the command of a process, with its descriptors as `Parent` reads them."""
        groups = (",".join(str(listening.fileno()) for listening in group) for group in self._sockets)
        return [*self._command, "--supervised", ":".join([str(descriptor), *groups])]

    def receive(self, process: SupervisedProcess, line: bytes) -> None:
        lines = msgspec.json.decode(line, type=list[str])
        process.is_ready = True
        self.wake()
        if not self.was_ready:
            self.was_ready = True
            self._announce(lines)
