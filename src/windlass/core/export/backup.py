"""A backup: an export with the point that it is of, and a checksum of its lines."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from windlass.core.errors import BadInput

from . import lines as export_lines
from .backup_point import BackupPoint


class VerifiedBackup(NamedTuple):
    header: export_lines.HeaderLine
    point: BackupPoint
    counts: Counter[str]  # lines of each kind
    lines: int


def seal(header: export_lines.HeaderLine, lines: Iterable[bytes], point: BackupPoint) -> Iterator[bytes]:
    """Add the point to the header of an export, and the checksum to its end."""
    digest = hashlib.sha256()
    line = export_lines.encode_line(replace(header, backup=point))
    for following in lines:
        digest.update(line)
        yield line
        line = following
    end = export_lines.decode_line(line, 0)
    assert isinstance(end, export_lines.EndLine)  # noqa: S101 (of every export)
    digest.update(export_lines.encode_line(end))
    yield export_lines.encode_line(replace(end, sha256=digest.hexdigest()))


def verify(lines: Iterable[bytes]) -> VerifiedBackup:
    """Read a backup to its end. Raise an error that names the first line that is damaged."""
    remaining = iter(lines)
    first = next(remaining, b"")
    header = export_lines.decode_header(first)
    if header.backup is None:
        raise BadInput("This is an export, not a backup: it has no checksum. `windlass import` reads it.")
    digest, counts, number = hashlib.sha256(first), Counter[str](), 1
    for number, line in enumerate(remaining, 2):
        found = export_lines.decode_line(line, number)
        if isinstance(found, export_lines.EndLine):
            if next(remaining, b""):
                raise BadInput(f"Line {number + 1} comes after the end of the backup.")
            _check_end(found, digest, counts, number)
            return VerifiedBackup(header, header.backup, counts, number)
        digest.update(line)
        counts[export_lines.kind_of(found)] += 1
    raise BadInput(f"The backup is cut off: it has no end after line {number}.")


def _check_end(end: export_lines.EndLine, digest: hashlib._Hash, counts: Counter[str], number: int) -> None:
    try:
        export_lines.check_counts(end, counts)
    except BadInput as refusal:
        raise BadInput(f"Line {number}: {refusal}") from refusal
    digest.update(export_lines.encode_line(replace(end, sha256="")))
    if end.sha256 != digest.hexdigest():
        raise BadInput("The backup is damaged: its lines do not have the checksum at its end.")
