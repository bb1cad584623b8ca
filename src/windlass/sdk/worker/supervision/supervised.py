"""Worker's side of supervision: its connection to the supervisor, and its reports."""

from __future__ import annotations

import asyncio
import logging

from windlass.processes.parent_connection import ParentConnection
from windlass.sdk.worker.worker import Worker

from .protocol import Message, WorkingMessage, encode

log = logging.getLogger("windlass.worker")
REPORT_EVERY_S = 1.0


class SupervisorConnection(ParentConnection):
    """Connection to the supervisor, made from `ID:FD`: the worker's id and its end of a pair of sockets."""

    def __init__(self, address: str, *, is_foreground: bool = False) -> None:
        worker_id, _, descriptor = address.partition(":")
        super().__init__(int(descriptor), log, "worker process")
        self.worker_id = bytes.fromhex(worker_id)
        self.is_foreground = is_foreground  # the only process of its supervisor; it talks to the user itself

    def report(self, message: Message) -> None:
        self.send(encode(message))

    async def report_running(self, worker: Worker) -> None:
        """Send the number of running jobs until cancelled. Sends nothing while the worker is idle."""
        reported = (0, 0)
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            state = (worker.running, worker.done)
            if state != reported or worker.running:
                reported = state
                self.report(WorkingMessage(worker.running))
