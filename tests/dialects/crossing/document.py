"""Tables of docs/dialects.md, made from the table of the crossings."""

from __future__ import annotations

import re
from pathlib import Path

from .crossing_table import CROSSINGS, DIALECTS, TITLES
from .watchers import GONE, STATES, WORDS

DOCUMENT = Path(__file__).parents[3] / "docs" / "dialects.md"
_DESCRIPTIONS = {
    "list_queue_jobs": "in `list_queue_jobs`",
    "list_queue_dispatched": "in `list_queue_dispatched`",
    "list_queue_progress": "in `list_queue_progress`",
    GONE: "*gone*",
}


def render(document: str) -> str:
    """Return the document with its tables as they should be."""
    for name, table in (("crossings", _crossings()), ("words", _words())):
        begin, end = f"<!-- {name}: made by tools/write_crossings.py -->", f"<!-- end of {name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        document, count = pattern.subn(lambda _, text=f"{begin}\n{table}\n{end}": text, document)  # type: ignore[misc]
        assert count == 1, name
    return document


def _crossings() -> str:
    rows = [[TITLES[creator], *(str(CROSSINGS[creator][worker]) for worker in DIALECTS)] for creator in DIALECTS]
    return _table(["created by ↓ run by →", *(TITLES[worker] for worker in DIALECTS)], rows)


def _words() -> str:
    rows = [
        [state, *(", ".join(_describe(word) for word in sorted(WORDS[dialect][state])) for dialect in DIALECTS)]
        for state in STATES
    ]
    return _table(["state", *(TITLES[dialect] for dialect in DIALECTS)], rows)


def _describe(word: str) -> str:
    return _DESCRIPTIONS.get(word, f"`{word}`")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
