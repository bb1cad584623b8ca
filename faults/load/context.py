"""The context of a load client: its duration, its random source and its recorder."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator

from ..history import Recorder

FAILURE_PAUSE_S = 0.1


class CallRefused(Exception):
    """A definite refusal: the call changed nothing."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class CallUnanswered(Exception):
    """A call without an answer: its effect is unknown."""


class ClientContext:
    def __init__(self, recorder: Recorder, seed: int, seconds: float) -> None:
        self.recorder = recorder
        self.random = random.Random(f"{seed} {recorder.client}")  # noqa: S311 (it must be repeatable)
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
        """Sleep, or return earlier if the client's time is over."""
        left = self._ends_at_s - time.monotonic()
        if seconds <= 0 or left <= 0:
            await asyncio.sleep(0)
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), min(seconds, left))

    async def wait_until_over(self) -> None:
        while not self.is_over:
            await self.pause(3600.0)

    @contextlib.asynccontextmanager
    async def ignoring_failures(self) -> AsyncIterator[None]:
        """Continue after a failed call, with a pause."""
        try:
            yield
        except (CallRefused, CallUnanswered, OSError, asyncio.IncompleteReadError):
            await self.pause(FAILURE_PAUSE_S)
