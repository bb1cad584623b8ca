"""Columns of the table `jobs` that `select *` leaves out, so that existing clients get the columns that they know.

SQLite cannot hide columns of a usual table. So the copy has an extra column only for a query that names it, and in
such a query a `*` is written out as the usual columns."""

from __future__ import annotations

import re

COLUMNS = (
    "created", "jobID", "state", "name", "nextRun", "lastRun", "repeat", "data", "priority", "parentJobID",
    "retryAfter",
)  # fmt: skip
# Names in lower case, with their types.
EXTRA_COLUMNS = {"queue": "TEXT NOT NULL", "timeout": "TEXT NOT NULL DEFAULT ''", "expires": "TIMESTAMP"}
QUERY_MAX = 65_536  # characters that are searched for names: the search must not block the server
_PIECE = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|$))|(?P<text>'(?:[^']|'')*'|"[^"]*")"""
    r"""|(?P<word>`[^`]*`|\[[^\]]*\]|[^\W\d][\w$]*|.)""",
    re.DOTALL,
)
_AFTER_TABLE = frozenset(("", ";", "where", "order", "group", "having", "window", "limit"))
_BEFORE_STAR = frozenset(("select", "distinct", "all", ","))


def columns_for(query: str) -> tuple[str, ...]:
    """Return the columns that the copy of the jobs has for this query. A very long query gets no extra column."""
    if len(query) > QUERY_MAX:
        return COLUMNS
    lower = query.lower()
    if not any(name in lower for name in EXTRA_COLUMNS):
        return COLUMNS
    words = [_word(match) for match in _pieces(query)]
    return (*COLUMNS, *(name for name in EXTRA_COLUMNS if name in words and not _is_alias(name, words)))


def _is_alias(name: str, words: list[str]) -> bool:
    """Return whether the query itself gives this name to another value: `name AS timeout`."""
    named = zip(words, words[1:], words[2:], strict=False)
    return any(second == "as" and third == name and first != name for first, second, third in named)


def expand_star(query: str) -> str:
    """Write `*` of a `SELECT … FROM jobs` out. A query with more tables or selects stays as it is."""
    pieces = _pieces(query)
    words = [_word(match) for match in pieces]
    table = _single_table(words)
    if table is None:
        return query
    parts, end = list[str](), 0
    for index in range(1, table - 1):
        if words[index] != "*" or words[index + 1] not in (",", "from"):
            continue
        if words[index - 1] == "." and words[index - 3] in _BEFORE_STAR:
            first, qualifier = index - 2, pieces[index - 2][0] + "."
        elif words[index - 1] in _BEFORE_STAR:
            first, qualifier = index, ""
        else:
            continue
        parts += query[end : pieces[first].start()], ", ".join(qualifier + column for column in COLUMNS)
        end = pieces[index].end()
    return "".join(parts) + query[end:]


def _single_table(words: list[str]) -> int | None:
    """Return the index of the table in `SELECT … FROM jobs [AS] [name] …`. None: the query is of another form."""
    if words[:1] != ["select"] or words.count("select") != 1 or words.count("from") != 1:
        return None
    table = words.index("from") + 1
    following = [*words[table + 1 : table + 4], "", "", ""]
    has_alias = following[0] == "as"
    after = following[2] if has_alias else following[0]
    is_single = after in _AFTER_TABLE or (not has_alias and following[0] != "," and following[1] in _AFTER_TABLE)
    return table if words[table : table + 1] == ["jobs"] and is_single else None


def _pieces(query: str) -> list[re.Match[str]]:
    return [match for match in _PIECE.finditer(query) if match.lastgroup != "space"]


def _word(match: re.Match[str]) -> str:
    """Return a name or key word in lower case and without its quotes.

    A text in double quotes is a text, too, as SQLite reads it where no column has this name."""
    if match.lastgroup == "text":
        return "''"
    word = match[0].lower()
    return word[1:-1] if word[0] in "`[" and len(word) > 1 else word
