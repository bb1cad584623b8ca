"""The audit log: administrative requests, their principals and their outcomes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core.ids import format_id

ENTRIES_KEPT = 10_000  # the newest entries
WORD_MAX = 128  # bytes of who, what, outcome and peer
TARGET_MAX = 512
DETAIL_MAX = 1024
DONE = "done"
IDS_MAX = 10  # jobs that an entry names


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    who: str  # name of the principal
    what: str  # id of the operation, such as pause_queue
    target: str = ""  # object of the operation: a queue, a job's id, a token's name
    detail: str = ""
    outcome: str = DONE  # or the code of the refusal
    peer: str = ""  # address of the client
    at_ms: int = 0  # the engine's time; the engine sets it when the entry is written

    def sanitize(self) -> AuditEntry:
        """Return the entry with its texts cut and cleaned, so that it can be stored whatever the client sent."""
        words = {field: _clean_line(getattr(self, field), WORD_MAX) for field in ("who", "what", "outcome", "peer")}
        return msgspec.structs.replace(
            self, **words, target=_cut(self.target, TARGET_MAX), detail=_cut(self.detail, DETAIL_MAX)
        )


class AuditPage(msgspec.Struct, frozen=True):
    """A page of entries, newest first. `cursor` is empty on the last page."""

    entries: list[AuditEntry]
    cursor: str


def summarize_ids(ids: Sequence[bytes]) -> str:
    """Format the jobs of an operation as its target: the first ones, and the number of others."""
    first = ", ".join(map(format_id, ids[:IDS_MAX]))
    return f"{first} and {len(ids) - IDS_MAX} more" if len(ids) > IDS_MAX else first


def _clean_line(text: str, most_bytes: int) -> str:
    return _cut("".join(char if char >= " " else " " for char in text), most_bytes)


def _cut(text: str, most_bytes: int) -> str:
    encoded = text.encode(errors="backslashreplace")
    if len(encoded) <= most_bytes:
        return encoded.decode()
    return encoded[: most_bytes - 3].decode(errors="ignore") + "…"
