"""What a judge says, and what it was promised to judge by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ..history import Entry


class Finding(msgspec.Struct, frozen=True):
    """A promise that was not kept, with the lines of the history that prove it."""

    rule: str
    job: str  # its id, or what else it is about
    sentence: str
    entries: tuple[Entry, ...] = ()

    def __str__(self) -> str:
        return f"{self.rule}: {self.job}: {self.sentence}"


class Promises(msgspec.Struct, frozen=True, kw_only=True):
    """What holds in a run. The defaults promise all that does not need to be named."""

    caps: Mapping[str, int] = {}  # limit key, as payloads carry it -> jobs that may run at once
    ordered: frozenset[str] = frozenset()  # queues whose takers ask the engine itself, and give nothing back
    rhythms: Mapping[str, int] = {}  # schedule -> every_ms, where each occurrence is made up for
    lost_allowed: Literal["", "unconfirmed", "any"] = ""  # unconfirmed: what was accepted without its durability
    may_forget: bool = False  # the engine may lose leases and reports it had acknowledged, as by a failover
    lasting: frozenset[str] = frozenset(("downloads-files",))  # queues whose jobs wait for a later day
    is_drained: bool = True  # whatever could run has been run when the final state was read
    is_calm: bool = False  # no call was repeated behind its caller's back: every lease is in the history
    slack_ms: int = 250  # by which a lease may seem longer than it was: clocks, and the time a call is under way
