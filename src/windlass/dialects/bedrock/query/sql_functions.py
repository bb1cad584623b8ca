"""SQL functions that queries may call.

Some functions of SQLite take much time or space for small arguments, within a single step in which SQLite does not
check the clock. They are replaced here."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import TypeAlias

Value: TypeAlias = str | bytes | int | float | None
TEXT_BYTES_MAX = 8 * 1024 * 1024  # of any text, blob or row in a query; the data of a job may have half of it
PATTERN_MAX = 500  # bytes of a LIKE or GLOB pattern; the work is its length times the length of the text
ARGUMENTS_MAX = 100
# All others are refused: functions that a build of SQLite adds (fts3_tokenizer takes pointers, regexp may backtrack
# forever), that produce large values from small ones (zeroblob, randomblob, json_pretty), that take quadratic time
# (unhex, json_patch), or that load code (load_extension).
_TEXT = (
    "-> ->> char coalesce concat concat_ws format glob hex ifnull iif if instr length like likelihood likely lower "
    "ltrim nullif octet_length printf quote replace rtrim soundex substr substring trim typeof unicode unlikely upper"
)
_NUMBERS = (
    "abs acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 max min mod "
    "pi pow power radians random round sign sin sinh sqrt tan tanh trunc"
)
_TIMES = "current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch"
_JSON = (
    "json json_array json_array_length json_error_position json_extract json_group_array json_group_object json_insert "
    "json_object json_quote json_remove json_replace json_set json_type json_valid"
)
_GROUPS = (
    "avg count cume_dist dense_rank first_value group_concat lag last_value lead nth_value ntile percent_rank rank "
    "row_number string_agg sum total"
)
ALLOWED = frozenset(f"{_TEXT} {_NUMBERS} {_TIMES} {_JSON} {_GROUPS} sqlite_version".split())
# A conversion of printf: flags, width, precision, type.
_CONVERSION = re.compile(r"%([-+ #!0,l]*)(\*|[1-9]\d*)?l*(?:\.(\*|\d*))?l*(.?)", re.DOTALL)
_TAKES_ARGUMENT = frozenset("diufeEgGxXopszcqQw")
_TRUNCATES = frozenset("szqQw")  # a precision shortens these
_LEADING_NUMBER = re.compile(r"\s*([+-]?\d{1,30})", re.ASCII)


def is_allowed(name: str) -> bool:
    return name.lower() in ALLOWED


def install(base: sqlite3.Connection) -> None:
    base.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_MAX)
    base.setlimit(sqlite3.SQLITE_LIMIT_FUNCTION_ARG, ARGUMENTS_MAX)
    base.create_function("instr", 2, _instr, deterministic=True)
    base.create_function("replace", 3, _replace, deterministic=True)
    for name in ("printf", "format"):
        base.create_function(name, -1, _printf, deterministic=True)
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
    source, old, new = _text(text), _text(part), _text(by)
    if not old:
        return source
    if len(source) + source.count(old) * (len(new) - len(old)) > TEXT_BYTES_MAX:
        raise OverflowError  # SQLite reports a text that is too big
    return source.replace(old, new)


def _trim(text: Value, characters: Value, at_start: bool, at_end: bool) -> str | None:
    if text is None or characters is None:
        return None
    source, removed = _text(text), set(_text(characters))
    start, end = 0, len(source)
    while at_start and start < end and source[start] in removed:
        start += 1
    while at_end and start < end and source[end - 1] in removed:
        end -= 1
    return source[start:end]


# A connection with SQLite's own printf. A cached statement would keep its arguments, which are up to 8 MiB each.
_sqlite = sqlite3.connect(":memory:", check_same_thread=False, cached_statements=0)
_sqlite.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX)


def _printf(*values: Value) -> str | None:
    """Call SQLite's printf, unless its widths and precisions make the text too long.

    SQLite would pad up to 2,147,483,647 characters one by one, and not check the clock."""
    if not values or values[0] is None:
        return None
    if sum(_padding(_text(values[0]), iter(values[1:]))) > TEXT_BYTES_MAX:
        raise OverflowError  # SQLite reports a text that is too big
    (formatted,) = _sqlite.execute(f"SELECT printf({','.join('?' * len(values))})", values).fetchone()
    return None if formatted is None else str(formatted)


def _padding(format_: str, values: Iterator[Value]) -> Iterator[int]:
    """Yield the width of each conversion, and its precision if that lengthens the text."""
    for match in _CONVERSION.finditer(format_):
        _, width, precision, kind = match.groups()
        yield _size(width, values)
        size = _size(precision, values)
        if kind not in _TRUNCATES:
            yield size
        if kind in _TAKES_ARGUMENT:
            next(values, None)


def _size(text: str | None, values: Iterator[Value]) -> int:
    if text == "*":
        return _number(next(values, None))
    return int(text[:20]) if text else 0


def _number(value: Value) -> int:
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, float):
        return int(min(abs(value), 1e18)) if value == value else 0
    match = None if value is None else _LEADING_NUMBER.match(_text(value)[:100])
    return abs(int(match[1])) if match else 0
