"""Findings of the checks, and the guarantees that a run is checked against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ..history import Entry


class Finding(msgspec.Struct, frozen=True):
    """A broken guarantee, with the lines of the history that prove it."""

    rule: str
    job: str  # its id, or another subject
    sentence: str
    entries: tuple[Entry, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}: {self.job}: {self.sentence}"


class Guarantees(msgspec.Struct, frozen=True, kw_only=True):
    """Guarantees of a run. The defaults guarantee everything that needs no name."""

    caps: Mapping[str, int] = {}  # limit key, as in payloads -> jobs that may run at once
    ordered: frozenset[str] = frozenset()  # queues whose takers call the engine directly and release nothing
    intervals_ms: Mapping[str, int] = {}  # schedule -> every_ms, if missed occurrences are made up for
    lost_allowed: Literal["", "unconfirmed", "any"] = ""  # unconfirmed: jobs accepted without their durability
    may_lose_reports: bool = False  # the engine may lose acknowledged leases and reports, as in a failover
    long_lived_queues: frozenset[str] = frozenset(("downloads-files",))  # jobs there wait for a later day
    is_drained: bool = True  # every job that could run had run when the final state was read
    has_every_lease: bool = False  # no client repeats calls by itself, so every lease is in the history
    slack_ms: int = 250  # a lease may seem this much longer than it was: clocks and the duration of calls
