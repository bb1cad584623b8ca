"""Agreement of docs/lifecycle.md, the table of moves and the states."""

from __future__ import annotations

from pathlib import Path

from windlass.core.lifecycle import render
from windlass.core.states import ENDED, LEASED, MOVES, PENDING, State

ROOT = Path(__file__).parents[2]


def test_the_document_is_what_the_table_gives() -> None:
    assert (ROOT / "docs" / "lifecycle.md").read_text() == render(), "run `make docs`"


def test_every_state_is_of_one_kind_and_can_be_left() -> None:
    assert set(State) == PENDING | LEASED | ENDED
    assert len(PENDING) + len(LEASED) + len(ENDED) == len(State)
    for state in State:
        assert any(move.source is state for move in MOVES)


def test_no_move_stands_twice() -> None:
    keys = [(move.source, move.verb, move.target) for move in MOVES]
    assert len(set(keys)) == len(keys)
