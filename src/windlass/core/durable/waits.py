"""Waits: conditions on which a job is suspended."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.core.job import Blob

WaitKind: TypeAlias = Literal["sleep", "signal", "children", "retry"]


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on which a job is suspended. It is stored as a step of this name, once."""

    name: str
    kind: WaitKind
    for_ms: int | None = None  # length of the sleep, timeout, or pause before the next try; None: no end
    signal: str = ""
    children: tuple[bytes, ...] = ()
    needs_all: bool = False  # a failed child does not end the wait for the others
    schema: Blob | None = None  # JSON Schema of the signal's value, for forms; None: any value
    tries: int = 0  # of a step that is retried
    error: Blob | None = None  # of its last try

    @property
    def value(self) -> Blob | None:
        """Value of the step while it waits."""
        return self.schema if self.kind == "signal" else self.error


class Suspend(msgspec.Struct, frozen=True, kw_only=True):
    """End of a run that waits. The job runs again as soon as one of its conditions is met."""

    id: bytes
    token: int
    waits: tuple[Wait, ...]


# `suspended`; `queued`: a condition is already met; `cancelled`: a cancel was requested.
SuspendOutcome: TypeAlias = Literal["suspended", "queued", "cancelled"]
