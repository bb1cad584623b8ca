"""Filter pushdown: conditions on jobID, name, state and queue limit the jobs that are copied for a query.

SQLite evaluates the whole query afterwards. A condition that is not understood here only costs time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from .sql_functions import Value

_TOKEN = re.compile(r"""\s+|'(?:[^']|'')*'|"[^"]*"|\d+|[:@$]?[A-Za-z_][A-Za-z_0-9]*|<=|>=|<>|!=|==|.""", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)  # SQLite compares larger numbers
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
    queues: frozenset[str] | None = None


ALL_JOBS = PushedFilter()
NO_JOBS = PushedFilter(numbers=frozenset())


def push_filter(query: str, parameters: Mapping[str, Value] = MappingProxyType({})) -> PushedFilter:
    """Return the filter of `SELECT … FROM jobs WHERE condition AND condition …`. Others get ALL_JOBS."""
    if "jobs" not in query.lower():  # a query cannot read the table without its name
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
    end = next((index for index in range(start + 1, len(words)) if words[index] in _AFTER), len(words))
    if not _UNSUPPORTED.isdisjoint(words[start + 1 : end]) or not _UNSUPPORTED.isdisjoint(words[end:]):
        return ALL_JOBS
    pushed = ALL_JOBS
    for condition in _conditions(tokens[start + 1 : end]):
        pushed = _add_condition(pushed, condition)
    return pushed


def _bind(token: str, parameters: Mapping[str, Value]) -> str:
    """Replace a placeholder by its value, if that is a number or a text."""
    value = parameters.get(token[1:].lower()) if token[0] in ":@$" else None
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value) if isinstance(value, int) and value >= 0 else token


def _conditions(tokens: list[str]) -> list[list[str]]:
    """Split at each AND outside of parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    for piece in tokens:
        depth += (piece == "(") - (piece == ")")
        if depth == 0 and piece.lower() == "and":
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def _add_condition(pushed: PushedFilter, condition: list[str]) -> PushedFilter:
    if len(condition) < 3:
        return pushed
    column, operator, values = condition[0].lower(), condition[1].lower(), _values(condition)
    if values is None:
        return pushed
    if column == "jobid" and all(_NUMBER.fullmatch(value) for value in values):
        wanted = frozenset(map(int, values))
        return pushed._replace(numbers=wanted if pushed.numbers is None else pushed.numbers & wanted)
    texts = [value[1:-1].replace("''", "'") for value in values if value[:1] == "'"]
    if len(texts) < len(values):
        return pushed
    if column == "queue" and operator != "glob":
        queues = frozenset(texts)
        return pushed._replace(queues=queues if pushed.queues is None else pushed.queues & queues)
    if column == "state" and operator != "glob":
        states = frozenset(texts)
        return pushed._replace(states=states if pushed.states is None else pushed.states & states)
    if column == "name" and len(texts) == 1 and not pushed.name and (operator == "glob" or not _is_pattern(texts[0])):
        return pushed._replace(name=texts[0])
    return pushed


def _values(condition: list[str]) -> list[str] | None:
    """Return the values that the column must be equal to. None: the condition is of another kind."""
    operator = condition[1].lower()
    if operator in ("=", "==", "glob") and len(condition) == 3:
        return [condition[2]]
    is_list = operator == "in" and condition[2] == "(" and condition[-1] == ")"
    return [piece for piece in condition[3:-1] if piece != ","] if is_list else None


def _is_pattern(text: str) -> bool:
    return any(char in text for char in "*?[")
