"""Retry loop: try again after an error, with a log line and a pause. Background loops and reports that must not be
lost use it. It imports only `pauses.py`, so every layer may use it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, TypeVar

from .pauses import Pauses as Pauses

T = TypeVar("T")
Errors: TypeAlias = type[Exception] | tuple[type[Exception], ...]


# The default. A call to the engine has tried for the store's patience, with growing pauses, before it fails. A longer
# pause on top would only delay the return after an outage; one attempt a second costs little.
STEADY = Pauses(1.0, 1.0)


async def pause(pause_s: float, stop: asyncio.Event | None = None) -> bool:
    """Sleep until the pause is over or `stop` is set. Return whether `stop` is set."""
    if stop is None:
        await asyncio.sleep(pause_s)
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await stop.wait()
    return stop.is_set()


@dataclass(frozen=True, slots=True)
class RetryLoop:
    """Attempts at one piece of work, repeated after each of `errors`. All other exceptions pass through, and so do
    `errors` that are also in `unless`. It has no state, so several tasks may share one.

    `failure` starts the log line: "Could not take jobs; trying again in 1 s: <error>"."""

    log: logging.Logger
    failure: str
    errors: Errors
    unless: Errors = ()
    pauses: Pauses | None = None  # None: STEADY
    level: int = logging.WARNING

    async def until_done(self, attempt: Callable[[], Awaitable[T]], stop: asyncio.Event | None = None) -> T:
        """Return the result of the first attempt that succeeds. If `stop` ends a pause, raise the last error."""
        failures = 0
        while True:
            try:
                return await attempt()
            except self.errors as error:
                failures += 1
                if await self.pause_after(error, failures, stop):
                    raise

    async def forever(self, turn: Callable[[], Awaitable[Any]]) -> NoReturn:
        """Run the turn again and again, until cancelled. Only errors cause a pause."""
        failures = 0
        while True:
            try:
                await turn()
                failures = 0
            except self.errors as error:
                failures += 1
                await self.pause_after(error, failures)

    async def pause_after(self, error: Exception, failures: int = 1, stop: asyncio.Event | None = None) -> bool:
        """Log the error of a single attempt and pause. Return whether `stop` is set."""
        return await pause(self.pause_s_after(error, failures), stop)

    def pause_s_after(self, error: Exception, failures: int = 1) -> float:
        """Log the error and return the pause after the n-th failure. Raise the error if it is one of `unless`."""
        if isinstance(error, self.unless):
            raise error
        pause_s = (self.pauses or STEADY).after(failures)
        self.log.log(self.level, "%s; trying again in %.3g s: %s", self.failure, pause_s, str(error) or repr(error))
        return pause_s
