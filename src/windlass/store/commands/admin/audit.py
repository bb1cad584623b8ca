"""Audit log commands (audit, audits) and the stored form of an entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.access.audit import ENTRIES_KEPT, AuditEntry, AuditPage
from windlass.core.errors import BadInput
from windlass.store.commands.command import BatchCommand, Command, ignore_reply

HOME = 0  # the partition that holds the log
_AT_BYTES = 6
_CURSOR = re.compile(r"(\d{1,20})-(\d{1,20})", re.ASCII)


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """Stored fields of an entry, besides its instant. Fields may be added at the end."""

    who: str
    what: str
    target: str
    detail: str
    outcome: str
    peer: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def audit(entries: Sequence[AuditEntry]) -> BatchCommand[None]:
    items = [
        (_encode(_Stored(entry.who, entry.what, entry.target, entry.detail, entry.outcome, entry.peer)),)
        for entry in entries
    ]
    return BatchCommand("audit", (ENTRIES_KEPT,), items, ignore_reply, partition=HOME)


def audits(most: int, cursor: str) -> Command[AuditPage]:
    """Read a page, plus one entry to know whether there is a next page."""
    return Command("audits", [cursor, most + 1], lambda reply: _read_page(reply, most), partition=HOME)


def check_cursor(cursor: str) -> None:
    found = _CURSOR.fullmatch(cursor)
    if cursor and (found is None or any(int(part) >= 2**64 for part in found.groups())):
        raise BadInput("The cursor does not come from a page; start again without it.")


def _read_page(reply: list[Any], most: int) -> AuditPage:
    page = reply[:most]
    cursor = page[-1][0].decode() if len(reply) > most else ""
    return AuditPage([_read_entry(fields[1]) for _, fields in page], cursor)


def _read_entry(stored: bytes) -> AuditEntry:
    kept = _decode(stored[_AT_BYTES:])
    return AuditEntry(
        who=kept.who,
        what=kept.what,
        target=kept.target,
        detail=kept.detail,
        outcome=kept.outcome,
        peer=kept.peer,
        at_ms=int.from_bytes(stored[:_AT_BYTES], "big"),
    )
