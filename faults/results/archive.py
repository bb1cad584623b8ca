"""A run as one compressed file: guarantees, final state, faults, and the histories of all clients.

`python -m faults judge FILE` judges it again, without an engine."""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from ..checks import FinalState, Finding, Guarantees, check_entries
from ..history import Entry, parse_entries
from .recovery import Injected

FORMAT = 1
LARGEST = 3 * 2**20  # bytes of a published file


class Archive(msgspec.Struct, kw_only=True):
    """First line of the file. The entries of the histories follow, one in each line, ordered by time."""

    command: str  # repeats the run
    guarantees: Guarantees
    final: FinalState
    injected: Sequence[Injected]
    findings: Sequence[str]  # that the run itself had
    commit: str = ""
    format: int = FORMAT

    def write(self, path: Path, entries: Sequence[Entry]) -> None:
        with lzma.open(path, "wb", preset=2) as file:
            for line in (self, *entries):
                file.write(msgspec.json.encode(line) + b"\n")


def read_archive(path: Path) -> tuple[Archive, list[Entry]]:
    with lzma.open(path, "rb") as file:
        head, _, lines = file.read().partition(b"\n")
    archive = msgspec.json.decode(head, type=Archive)
    if archive.format != FORMAT:
        raise ValueError(f"{path} has format {archive.format}; this version reads format {FORMAT}.")
    return archive, list(parse_entries(lines))


def judge(archive: Archive, entries: Sequence[Entry]) -> list[Finding]:
    """Apply all rules to the entries as if the run had just ended."""
    return check_entries(entries, archive.final, archive.guarantees)


def describe_verdict(archive: Archive, entries: Sequence[Entry], findings: Sequence[Finding]) -> Iterator[str]:
    faults, clients = len(archive.injected), len({entry.client for entry in entries})
    yield f"{archive.command}, commit {archive.commit or 'unknown'}"
    yield f"{faults} faults, {clients} clients, {len(entries):,} lines of history, {len(findings)} findings"
    sentences = list(map(str, findings))
    yield from (f"  {sentence}" for sentence in sentences)
    if sentences == list(archive.findings):
        yield "The run itself had the same findings."
    else:
        yield f"The run itself had other findings: {'; '.join(archive.findings) or 'none'}."
