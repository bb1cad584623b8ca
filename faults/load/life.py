"""The life of a client: how long it goes on, by which seed it acts, and where it writes what it was told."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator

from ..history import Recorder

TROUBLE_PAUSE_S = 0.1


class Refused(Exception):
    """A no that is known to be one: nothing was changed by this call."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Unanswered(Exception):
    """Nobody knows what became of the call."""


class Life:
    def __init__(self, recorder: Recorder, seed: int, seconds: float) -> None:
        self.recorder = recorder
        self.random = random.Random(f"{seed} {recorder.client}")  # noqa: S311 (chance that can be repeated)
        self._ends_at_s = time.monotonic() + seconds
        self._over = asyncio.Event()

    @property
    def client(self) -> str:
        return self.recorder.client

    @property
    def is_over(self) -> bool:
        return self._over.is_set() or time.monotonic() >= self._ends_at_s

    def end(self) -> None:
        self._over.set()

    async def pause(self, seconds: float) -> None:
        """Or shorter, when it is over before."""
        left = self._ends_at_s - time.monotonic()
        if seconds <= 0 or left <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), min(seconds, left))

    async def until_over(self) -> None:
        while not self.is_over:
            await self.pause(3600.0)

    @contextlib.asynccontextmanager
    async def surviving(self) -> AsyncIterator[None]:
        """What goes wrong within is no reason to end: a pause, and on."""
        try:
            yield
        except (Refused, Unanswered, OSError, asyncio.IncompleteReadError):
            await self.pause(TROUBLE_PAUSE_S)
