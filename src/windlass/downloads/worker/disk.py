"""Whether the disk has room for more: above one mark nothing new is begun, at or below another it goes on."""

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
    """As `df` computes it: of what anybody but root may use."""
    usage = shutil.disk_usage(directory)
    return usage.used / (usage.used + usage.free)


class DiskMonitor:
    """`look` is one check, `watch` one each minute; `changed` is called when it has become full or has room again."""

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
            log.warning("How full the disk of %s is cannot be told: %s", self._directory, error)
            return
        was_full = self.is_full
        self.is_full = share > RESUME_AT if was_full else share > STOP_ABOVE
        if self.is_full != was_full:
            told = "no new downloads are begun" if self.is_full else "downloads go on"
            log.warning("The disk of %s is %.0f %% full: %s.", self._directory, share * 100, told)
            self._changed()
