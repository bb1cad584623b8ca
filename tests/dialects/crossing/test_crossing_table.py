"""The table of the crossings is complete, and the document shows it."""

from __future__ import annotations

from .creators import CREATORS
from .crossing_table import CROSSINGS, DIALECTS, WORKS
from .document import DOCUMENT, render
from .watchers import WATCHERS, WORDS
from .workers import WORKERS


def test_every_pair_is_in_the_table() -> None:
    assert set(CROSSINGS) == set(DIALECTS) == set(CREATORS) == set(WATCHERS) == set(WORDS)
    assert all(set(row) == set(DIALECTS) for row in CROSSINGS.values())
    for worker in DIALECTS:
        has_side = any(row[worker] == WORKS for row in CROSSINGS.values())
        assert has_side == (worker in WORKERS), worker


def test_the_document_has_the_table() -> None:
    text = DOCUMENT.read_text()
    assert text == render(text), "run tools/write_crossings.py"
