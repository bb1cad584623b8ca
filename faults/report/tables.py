"""Paragraphs and tables of Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence


def paragraph(*lines: str) -> str:
    return textwrap.fill(" ".join(lines), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
