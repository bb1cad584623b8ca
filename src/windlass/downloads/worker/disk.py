"""Disk monitor: above one level of usage no new downloads start; at or below another they resume."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("windlass.downloads")

STOP_ABOVE = 0.95
RESUME_AT = 0.90
EVERY_S = 60.0


def used_share(directory: Path) -> float:
    """Return the used share of the disk as `df` computes it: of the space that processes without root may use."""
    usage = shutil.disk_usage(directory)
    return usage.used / (usage.used + usage.free)


class DiskMonitor:
    """Monitor of a disk. `check` checks once, `watch` once a minute. `changed` is called when the disk becomes full or
    has space again."""

    def __init__(
        self,
        directory: Path,
        changed: Callable[[], None],
        *,
        used: Callable[[Path], float] = used_share,
        every_s: float = EVERY_S,
    ) -> None:
        self._directory = directory
        self._changed = changed
        self._used = used
        self._every_s = every_s
        self.is_full = False

    async def watch(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(self._every_s)

    async def check(self) -> None:
        try:
            share = await asyncio.to_thread(self._used, self._directory)
        except OSError as error:
            log.warning("Could not read the disk usage of %s: %s", self._directory, error)
            return
        was_full = self.is_full
        self.is_full = share > RESUME_AT if was_full else share > STOP_ABOVE
        if self.is_full != was_full:
            effect = (
                f"no new downloads start until it is at most {RESUME_AT:.0%} full"
                if self.is_full
                else "downloads resume"
            )
            log.warning("The disk of %s is %.0f %% full: %s.", self._directory, share * 100, effect)
            self._changed()
