"""The number of tasks in a client's event loop. The client writes it to a file beside its history on SIGUSR1."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

POLL_S = 0.005


def count_file(history: Path) -> Path:
    return history.with_suffix(".tasks")


def write_count_on_signal(history: Path) -> None:
    """Install the handler in the running loop. Call this before the history exists: then others may send the signal."""

    def write_count() -> None:
        file = count_file(history)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(str(len(asyncio.all_tasks())))
        unfinished.rename(file)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, write_count)


def request_task_count(pid: int, history: Path, patience_s: float) -> int | None:
    """Request the count from a client. Return None if it does not answer in time."""
    file, give_up_at_s = count_file(history), time.monotonic() + patience_s
    file.unlink(missing_ok=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
    while time.monotonic() < give_up_at_s:
        if file.exists():
            return int(file.read_text())
        time.sleep(POLL_S)
    return None
