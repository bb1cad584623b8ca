"""Worker process as its supervisor sees it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from windlass.processes.supervised_process import SupervisedProcess

from .protocol import LoadedMessage


class WorkerProcess(SupervisedProcess):
    """One worker process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.worker_id = secrets.token_bytes(16)
        self.loaded: LoadedMessage | None = None
        self.running = 0  # jobs, by its last message

    async def start_with(self, command: Sequence[str]) -> None:
        """Start the process with its id and its socket, as `SupervisorConnection` reads them."""
        await self.start(lambda descriptor: [*command, "--supervised", f"{self.worker_id.hex()}:{descriptor}"])
