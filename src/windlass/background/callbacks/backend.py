"""What the notifier asks of whoever carries a callback to its destination."""

from __future__ import annotations

from typing import Protocol

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.errors import WindlassError


class Undeliverable(WindlassError):
    """It did not get there. `is_final`: trying again is of no use; `is_silent`: nobody answered at all."""

    code = "undeliverable"

    def __init__(self, message: str, *, is_final: bool = False, is_silent: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.is_silent = is_silent


class UnknownDestination(Undeliverable):
    """There is no such topic or partition."""


class Backend(Protocol):
    """Called for many callbacks at once."""

    async def deliver(self, pending: PendingCallback, body: bytes) -> None:
        """Returns when it has been received; raises Undeliverable."""

    async def close(self) -> None: ...
