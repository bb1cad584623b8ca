"""Counts as a table and as a file, and their ratios to counts of an earlier tree."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.figures import Table

TITLE = "Instructions per job"
WORST = 1.05  # a row with more than so many times the instructions is worse


def save(path: Path, counts: Mapping[str, float]) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(dict(counts)), indent=1) + b"\n")


def load(path: Path) -> dict[str, float]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, float])


def table(counts: Mapping[str, float], before: Mapping[str, float] | None = None) -> Table:
    if before is None:
        return Table(TITLE, ("", "instructions"), [[title, f"{count:,.0f}"] for title, count in counts.items()])
    worse = worse_rows(counts, before)
    rows = []
    for title, count in counts.items():
        earlier, ratio = "–", "–"
        if title in before:
            earlier, ratio = f"{before[title]:,.0f}", f"{count / before[title]:.3f}×"
        rows.append([title, earlier, f"{count:,.0f}", ratio, "WORSE" if title in worse else ""])
    return Table(TITLE, ("", "before", "now", "ratio", ""), rows)


def worse_rows(counts: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    return [title for title, count in counts.items() if title in before and count > WORST * before[title]]
