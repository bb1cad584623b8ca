"""A client tells how many tasks its event loop has, when it is asked by SIGUSR1: a file beside its history."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

LOOK_EVERY_S = 0.005


def file_of(history: Path) -> Path:
    return history.with_suffix(".tasks")


def tell_when_asked(history: Path) -> None:
    """In the loop that runs. Before the history is there: who sees that may ask."""

    def tell() -> None:
        file = file_of(history)
        unfinished = file.with_suffix(".part")
        unfinished.write_text(str(len(asyncio.all_tasks())))
        unfinished.rename(file)

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)


def asked(pid: int, history: Path, patience_s: float) -> int | None:
    """None: it has not answered in time."""
    file, give_up_at_s = file_of(history), time.monotonic() + patience_s
    file.unlink(missing_ok=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
    while time.monotonic() < give_up_at_s:
        if file.exists():
            return int(file.read_text())
        time.sleep(LOOK_EVERY_S)
    return None
