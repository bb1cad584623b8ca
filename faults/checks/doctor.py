"""The doctor finds no inconsistent keys in the final state."""

from __future__ import annotations

from collections.abc import Iterator

from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex

RULE = "doctor"


def check(_history: HistoryIndex, final: FinalState, _guarantees: Guarantees) -> Iterator[Finding]:
    for words in final.doctor:
        yield Finding(RULE, "", words)
