"""Which jobs a query can be about at all, told by its conditions on jobID, name and state. Only what is understood
narrows; SQLite itself decides afterwards, so a condition that is not understood costs time and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from .sql_functions import Value

_TOKEN = re.compile(r"""\s+|'(?:[^']|'')*'|"[^"]*"|\d+|[:@$]?[A-Za-z_][A-Za-z_0-9]*|<=|>=|<>|!=|==|.""", re.DOTALL)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)  # a larger one is SQLite's to compare
_BEFORE = ("select", "from", "jobs", "where")
_AFTER = frozenset(("order", "group", "limit", "having", "window", ";"))
_UNSUPPORTED = frozenset(
    ("or", "not", "select", "join", "union", "except", "intersect", "with", "case", "between", "collate", "from", "as")
)
STATES = ("QUEUED", "RUNNING", "RUNQUEUED", "PAUSED", "FINISHED", "FAILED", "CANCELLED")


class PushedFilter(NamedTuple):
    numbers: frozenset[int] | None = None
    states: frozenset[str] | None = None
    name: str = ""  # a GLOB


ALL_JOBS = PushedFilter()
NO_JOBS = PushedFilter(numbers=frozenset())


def push_filter(query: str, parameters: Mapping[str, Value] = MappingProxyType({})) -> PushedFilter:
    """Of `SELECT … FROM jobs WHERE condition AND condition …`; of anything else nothing is known."""
    if "jobs" not in query.lower():  # a table cannot be read without its name
        return NO_JOBS
    tokens = [_bind(token, parameters) for token in _TOKEN.findall(query) if not token.isspace()]
    words = [token.lower() for token in tokens]
    if "--" in query or "/*" in query or words.count("select") != 1 or words[:1] != ["select"]:
        return ALL_JOBS
    if words.count("from") != 1 or words.count("where") != 1:
        return ALL_JOBS
    start = words.index("where")
    if words[words.index("from") : start] != ["from", "jobs"]:
        return ALL_JOBS
    end = next((at for at in range(start + 1, len(words)) if words[at] in _AFTER), len(words))
    if not _UNSUPPORTED.isdisjoint(words[start + 1 : end]) or not _UNSUPPORTED.isdisjoint(words[end:]):
        return ALL_JOBS
    found = ALL_JOBS
    for condition in _conditions(tokens[start + 1 : end]):
        found = _add_condition(found, condition)
    return found


def _bind(token: str, parameters: Mapping[str, Value]) -> str:
    """A placeholder as the literal that it stands for, where that is a number or a text."""
    value = parameters.get(token[1:].lower()) if token[0] in ":@$" else None
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value) if isinstance(value, int) and value >= 0 else token


def _conditions(tokens: list[str]) -> list[list[str]]:
    """Split at the ANDs that stand in no brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for piece in tokens:
        depth += (piece == "(") - (piece == ")")
        if depth == 0 and piece.lower() == "and":
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def _add_condition(found: PushedFilter, condition: list[str]) -> PushedFilter:
    if len(condition) < 3:
        return found
    column, operator, values = condition[0].lower(), condition[1].lower(), _values(condition)
    if values is None:
        return found
    if column == "jobid" and all(_NUMBER.fullmatch(value) for value in values):
        wanted = frozenset(map(int, values))
        return found._replace(numbers=wanted if found.numbers is None else found.numbers & wanted)
    texts = [value[1:-1].replace("''", "'") for value in values if value[:1] == "'"]
    if len(texts) < len(values):
        return found
    if column == "state" and operator != "glob":
        states = frozenset(texts)
        return found._replace(states=states if found.states is None else found.states & states)
    if column == "name" and len(texts) == 1 and not found.name and (operator == "glob" or not _is_pattern(texts[0])):
        return found._replace(name=texts[0])
    return found


def _values(condition: list[str]) -> list[str] | None:
    """What the column is compared with, if it must be one of these."""
    operator = condition[1].lower()
    if operator in ("=", "==", "glob") and len(condition) == 3:
        return [condition[2]]
    is_list = operator == "in" and condition[2] == "(" and condition[-1] == ")"
    return [piece for piece in condition[3:-1] if piece != ","] if is_list else None


def _is_pattern(text: str) -> bool:
    return any(char in text for char in "*?[")
