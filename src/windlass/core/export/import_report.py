"""Report of an import: what was added, and what was refused."""

from __future__ import annotations

from collections import Counter

import msgspec

REASONS_KEPT = 100


class ImportRefusal(msgspec.Struct, frozen=True):
    """An entry that could not be imported."""

    line: int
    what: str
    code: str
    reason: str


class ImportReport(msgspec.Struct):
    """Progress of an import: counts per kind of entry, and the first refusals."""

    added: Counter[str] = msgspec.field(default_factory=Counter)
    existing: Counter[str] = msgspec.field(default_factory=Counter)
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    reasons: list[ImportRefusal] = msgspec.field(default_factory=list)
    remade_ids: int = 0
    unknown_awaited: int = 0  # dependencies that do not exist
    lines: int = 0

    def summary(self) -> str:
        """Return the sums as text, for the audit log."""
        added, existing, refused = (sum(counts.values()) for counts in (self.added, self.existing, self.refused))
        return f"{self.lines} lines, {added} added, {existing} existing, {refused} refused"
