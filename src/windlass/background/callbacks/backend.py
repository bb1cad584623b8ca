"""Interface of the backends that deliver callbacks."""

from __future__ import annotations

from typing import Protocol

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.errors import WindlassError


class Undeliverable(WindlassError):
    """Failed delivery of a callback. `is_final`: a retry cannot help; `is_silent`: there was no answer at all."""

    code = "undeliverable"

    def __init__(self, message: str, *, is_final: bool = False, is_silent: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.is_silent = is_silent


class UnknownDestination(Undeliverable):
    """Failed delivery because the topic or partition does not exist."""


class Backend(Protocol):
    """Backend of one callback type. The notifier calls it for many callbacks concurrently."""

    async def deliver(self, pending: PendingCallback, body: bytes) -> None:
        """Return when the callback was received; raise Undeliverable otherwise."""

    async def close(self) -> None: ...
