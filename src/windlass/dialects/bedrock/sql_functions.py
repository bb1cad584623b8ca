"""Functions of SQL in time proportional to what they are given. SQLite's own take the square of it for texts that are
made for that, within one step of its machine, where no clock is looked at."""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

Value: TypeAlias = str | bytes | int | float | None
# In a query nobody needs them enough to have them written anew here; the first three make much of little, or worse.
REFUSED = frozenset(("load_extension", "zeroblob", "randomblob", "unhex", "json_patch", "jsonb_patch"))
PATTERN_MAX = 500  # bytes of a pattern of LIKE or GLOB: its length times the text's is the work


def prepare(base: sqlite3.Connection) -> None:
    base.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_MAX)
    base.create_function("instr", 2, _instr, deterministic=True)
    base.create_function("replace", 3, _replace, deterministic=True)
    for name, sides in (("trim", (True, True)), ("ltrim", (True, False)), ("rtrim", (False, True))):
        base.create_function(name, 1, lambda text, sides=sides: _trim(text, " ", *sides), deterministic=True)
        base.create_function(name, 2, lambda text, set_, sides=sides: _trim(text, set_, *sides), deterministic=True)


def _text(value: Value) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _instr(text: Value, part: Value) -> int | None:
    if text is None or part is None:
        return None
    if isinstance(text, bytes) and isinstance(part, bytes):
        return text.find(part) + 1
    return _text(text).find(_text(part)) + 1


def _replace(text: Value, part: Value, by: Value) -> str | None:
    if text is None or part is None or by is None:
        return None
    return _text(text).replace(_text(part), _text(by)) if part != "" else _text(text)


def _trim(text: Value, characters: Value, at_start: bool, at_end: bool) -> str | None:
    if text is None or characters is None:
        return None
    found, gone = _text(text), set(_text(characters))
    start, end = 0, len(found)
    while at_start and start < end and found[start] in gone:
        start += 1
    while at_end and start < end and found[end - 1] in gone:
        end -= 1
    return found[start:end]
