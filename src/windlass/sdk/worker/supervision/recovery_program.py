"""Program that frees the jobs of one dead worker process, and ends.

    python -m windlass.sdk.worker.supervision.recovery_program FORMAT LEVEL PID EXIT_CODE WAS_KILLED

The parent of a worker (`windlass.processes.foreground_parent`) starts it, so that the parent itself needs no client of
the engine. The worker's id and its LoadedMessage come from stdin: the settings in it may have a password.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Sequence
from typing import cast

from windlass.processes import event_loop
from windlass.sdk.deployment import AnyStore, make_service, make_store
from windlass.sdk.worker.logs import LogFormat, configure_logging
from windlass.service import Service
from windlass.settings import Settings

from .orphan_recovery import DeadWorker, recover_dead_worker
from .protocol import LoadedMessage, decode

log = logging.getLogger("windlass.supervisor")


def recovery_command(log_format: str, log_level: str) -> list[str]:
    """Return the command without the arguments of a dead worker."""
    return [sys.executable, "-m", "windlass.sdk.worker.supervision.recovery_program", log_format, log_level]


def main(arguments: Sequence[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # to all processes of a service; the parent waits
        signal.signal(number, signal.SIG_IGN)
    log_format, log_level, pid, exit_code, was_killed = arguments
    configure_logging(cast(LogFormat, log_format), logging.getLevelNamesMapping()[log_level.upper()])
    worker_id, message = sys.stdin.buffer.read().splitlines()
    loaded = decode(message)
    assert isinstance(loaded, LoadedMessage)  # noqa: S101 (the parent passes no other)
    dead = DeadWorker(bytes.fromhex(worker_id.decode()), int(pid), int(exit_code), was_killed == "1", loaded)
    event_loop.run(_recover(dead))


async def _recover(dead: DeadWorker) -> None:
    stores: list[AnyStore] = []

    async def connect(settings: Settings) -> Service:
        store = make_store(settings)
        await store.open()
        stores.append(store)
        return make_service(store)

    try:
        await recover_dead_worker(dead, connect)
    finally:
        for store in stores:
            await store.close()


if __name__ == "__main__":
    main(sys.argv[1:])
