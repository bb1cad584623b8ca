"""The audit log: what was asked that changes how the deployment behaves, by whom, and how it went."""

from __future__ import annotations

import msgspec

ENTRIES_KEPT = 10_000  # the last ones
DONE = "done"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    who: str  # name of the principal
    what: str  # id of the operation, such as pause_queue
    target: str = ""  # what it was about: a queue, a job's id, a token's name
    detail: str = ""
    outcome: str = DONE  # or the code of the refusal
    peer: str = ""  # address of the client
    at_ms: int = 0  # the engine's time; given by the engine when the entry is written


class AuditPage(msgspec.Struct, frozen=True):
    """Newest first. `cursor` is empty at the end."""

    entries: list[AuditEntry]
    cursor: str
