"""Backups: a changed byte, a missing part or an addition is found, wherever it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadInput, Refusal
from windlass.core.export.backup import seal, verify
from windlass.core.export.backup_point import BackupPoint
from windlass.core.export.lines import (
    FORMAT,
    KINDS,
    VERSION,
    EndLine,
    HeaderLine,
    QueueLine,
    TombstoneLine,
    encode_line,
)

POINT = BackupPoint(at_ms=1_700_000_000_000, engine="valkey 9.1.2, redis://db:6379/0", states={"queued": 3})
HEADER = HeaderLine(format=FORMAT, version=VERSION, windlass="0", exported_at_ms=5, namespace="wl", partitions=1)
ID = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"
LINES = [QueueLine(name="mail"), QueueLine(name="ümlaut"), TombstoneLine(id=ID, queue="mail", until_ms=7)]
COUNTS = dict.fromkeys(KINDS, 0) | {"queue": 2, "tombstone": 1}


def sealed() -> list[bytes]:
    lines = [*LINES, EndLine(counts=COUNTS)]
    return list(seal(HEADER, map(encode_line, lines), POINT))


WHOLE = b"".join(sealed())


def test_a_whole_backup_tells_its_point_and_what_it_contains() -> None:
    found = verify(sealed())
    assert (found.point, found.lines) == (POINT, 5)
    assert found.counts == {"queue": 2, "tombstone": 1}
    assert found.header.namespace == "wl"


@given(at=st.integers(0, len(WHOLE) - 1), other=st.integers(0, 255))
def test_every_changed_byte_is_found(at: int, other: int) -> None:
    changed = WHOLE[:at] + bytes([other]) + WHOLE[at + 1 :]
    if changed == WHOLE or (at == len(WHOLE) - 1 and changed[-1:].isspace()):
        return  # the last line break has no content
    with pytest.raises(Refusal):
        verify(changed.splitlines(keepends=True) if b"\n" in changed else [changed])


@given(length=st.integers(0, len(WHOLE) - 2))
def test_every_cut_is_found(length: int) -> None:
    with pytest.raises(Refusal):
        verify(WHOLE[:length].splitlines(keepends=True))


@pytest.mark.parametrize("at", range(5))
def test_a_missing_or_repeated_line_is_found(at: int) -> None:
    lines = sealed()
    with pytest.raises(Refusal):
        verify(lines[:at] + lines[at + 1 :])
    with pytest.raises(Refusal):
        verify(lines[: at + 1] + lines[at:])


def test_exchanged_lines_are_found() -> None:
    lines = sealed()
    lines[1], lines[2] = lines[2], lines[1]
    with pytest.raises(BadInput, match="checksum"):
        verify(lines)


def test_an_export_is_not_a_backup() -> None:
    with pytest.raises(BadInput, match="not a backup"):
        verify([encode_line(HEADER), encode_line(EndLine(counts={}))])
