"""SQL over a copy of the jobs: SQLite in memory, read-only, limited in rows, bytes and time.

A query that exceeds a limit is an error: the answer is never cut. Queries run in a child process (`child`), which can
be killed."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import msgspec

from windlass.dialects.bedrock.refusals import CommandRefused

from . import sql_functions
from .extra_columns import COLUMNS, EXTRA_COLUMNS, columns_for, expand_star

ROWS_MAX = 100_000
ANSWER_BYTES_MAX = 64 * 1024 * 1024
COPY_BYTES_MAX = 256 * 1024 * 1024
SECONDS_MAX = 5.0
TEXT_BYTES_MAX = sql_functions.TEXT_BYTES_MAX
STEPS_PER_CHECK = 1_000  # of SQLite's virtual machine
_TABLE = (
    "CREATE TABLE jobs (created TIMESTAMP NOT NULL, jobID INTEGER NOT NULL PRIMARY KEY, state TEXT NOT NULL, "
    "name TEXT NOT NULL, nextRun TIMESTAMP NOT NULL, lastRun TIMESTAMP, repeat TEXT NOT NULL, data TEXT NOT NULL, "
    "priority INTEGER NOT NULL DEFAULT 500, parentJobID INTEGER NOT NULL DEFAULT 0, "
    "retryAfter TEXT NOT NULL DEFAULT ''"
)
_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
ABORTED = (502, "Query aborted")
WRITE_KEYWORDS = (
    "update",
    "delete",
    "insert",
    "replace",
    "create",
    "drop",
    "alter",
    "pragma",
    "attach",
    "detach",
    "vacuum",
)
OUT_OF_MEMORY = "The query needs more memory than it may have; ask for less at once."
TOO_MUCH_SPACE = "The query needs more space than it may have; ask for less at once."
_SCHEMA = re.compile(r"\.schema(?:\s+([^\s;]+))?\s*;?", re.IGNORECASE)
_encode_into = msgspec.json.Encoder().encode_into


class BadQuery(Exception):
    """A query that does not compile or is not allowed."""


class QueryLimits(msgspec.Struct, frozen=True, array_like=True):
    """Limits of a query. They are sent with it, so that the child process needs no settings."""

    seconds: float = SECONDS_MAX
    rows: int = ROWS_MAX
    answer_bytes: int = ANSWER_BYTES_MAX
    copy_bytes: int = COPY_BYTES_MAX

    def refuse_slow(self) -> NoReturn:
        reason = f"The query took longer than {self.seconds:g} s"
        raise CommandRefused(*ABORTED, f"{reason}; ask for fewer jobs by conditions on jobID, name or state.")

    def refuse_large(self) -> NoReturn:
        bounds = f"{self.rows:,} rows and {self.answer_bytes:,} bytes"
        raise CommandRefused(*ABORTED, f"An answer may have {bounds}; ask for less by conditions or with LIMIT.")


class QueryResult(msgspec.Struct, frozen=True):
    headers: list[str]
    body: bytes  # the rows as JSON

    @property
    def rows(self) -> list[list[Any]]:
        return msgspec.json.decode(self.body, type=list[list[Any]])


def check_query(query: str) -> str:
    """Return the query, or refuse it if it is empty, has no semicolon at its end, or writes."""
    if not query:
        raise CommandRefused(402, "Missing query")
    if not query.endswith(";"):
        raise CommandRefused(502, "Query Missing Semicolon")
    first = query.split(None, 1)[0].lower().rstrip(";(")
    if first in WRITE_KEYWORDS:
        raise CommandRefused(*ABORTED, "A query may only read; change jobs by their commands.")
    return query


def schema_query(query: str) -> str | None:
    """Return the query for `.schema` and `.schema TABLE`, as in SQLite's shell. None: it is another query."""
    match = _SCHEMA.fullmatch(query)
    if match is None:
        return None
    pattern = (match[1] or "%").replace("'", "''")
    return f"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name LIKE '{pattern}' ORDER BY rowid;"  # noqa: S608


def run_query(
    query: str,
    rows: Iterable[tuple[Any, ...]],
    limits: QueryLimits | None = None,
    parameters: Mapping[str, sql_functions.Value] | None = None,
) -> QueryResult:
    """Run a query over these rows, with the columns for the query (`columns_for`).

    It may block for some seconds, and longer inside a single step of SQLite."""
    limits, columns = limits or QueryLimits(), columns_for(query)
    give_up_at_s = time.monotonic() + limits.seconds
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        _set_limits(base, limits)
        base.execute("".join([_TABLE, *(f", {name} {EXTRA_COLUMNS[name]}" for name in columns[len(COLUMNS) :]), ")"]))
        try:
            base.executemany(f"INSERT OR REPLACE INTO jobs VALUES ({', '.join('?' * len(columns))})", rows)  # noqa: S608
        except (sqlite3.Error, MemoryError):
            raise CommandRefused(
                *ABORTED, f"The jobs have more than {limits.copy_bytes:,} bytes; ask for fewer."
            ) from None
        base.set_authorizer(_authorise)
        base.set_progress_handler(lambda: time.monotonic() > give_up_at_s, STEPS_PER_CHECK)
        return _select(base, query if columns == COLUMNS else expand_star(query), limits, parameters)


def _set_limits(base: sqlite3.Connection, limits: QueryLimits) -> None:
    (page_bytes,) = base.execute("PRAGMA page_size").fetchone()
    base.execute(f"PRAGMA max_page_count = {limits.copy_bytes // page_bytes}")
    base.execute("PRAGMA temp_store = FILE")  # sorts and joins must not fill the memory
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX)
    base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    sql_functions.install(base)


def _authorise(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and not sql_functions.is_allowed(second or "")):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _select(
    base: sqlite3.Connection,
    query: str,
    limits: QueryLimits,
    parameters: Mapping[str, sql_functions.Value] | None,
) -> QueryResult:
    try:
        cursor = base.execute(query, _CaseInsensitiveParameters(parameters)) if parameters else base.execute(query)
        if cursor.description is None:
            raise BadQuery("The query answers nothing; a SELECT is wanted.")
        headers = [column[0] for column in cursor.description]
        return QueryResult(headers, _encode_rows(cursor, headers, limits))
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            limits.refuse_slow()
        if "full" in str(error) or "disk" in str(error):
            raise CommandRefused(*ABORTED, TOO_MUCH_SPACE) from None
        raise BadQuery(str(error)) from error
    except (sqlite3.DataError, OverflowError):
        raise CommandRefused(*ABORTED, f"A text or blob of the query has more than {TEXT_BYTES_MAX:,} bytes.") from None
    except MemoryError:
        raise CommandRefused(*ABORTED, OUT_OF_MEMORY) from None
    except sqlite3.Error as error:
        raise BadQuery(str(error)) from error


class _CaseInsensitiveParameters(dict[str, Any]):
    """Parameters by lower-case name: header names ignore case, SQL names do not."""

    def __missing__(self, name: str) -> Any:
        if name == name.lower():
            raise KeyError(name)
        return self[name.lower()]


def _encode_rows(cursor: Iterable[tuple[Any, ...]], headers: list[str], limits: QueryLimits) -> bytes:
    """Encode row by row: as Python objects the rows would need several times the memory."""
    body = bytearray(b"[")
    for count, row in enumerate(cursor, 1):
        _encode_into(list(_format_row(headers, row)), body, len(body))
        if count > limits.rows or len(body) > limits.answer_bytes:
            limits.refuse_large()
        body += b","
    if len(body) > 1:
        del body[-1]
    return bytes(body + b"]")


def _format_row(headers: list[str], row: tuple[Any, ...]) -> Iterator[Any]:
    return (_format_value(header, value) for header, value in zip(headers, row, strict=True))


def _format_value(header: str, value: Any) -> Any:
    """Convert a value as Bedrock does: NULL to an empty text, the data of a job to a JSON object."""
    if value is None:
        return ""
    if header == "data" and isinstance(value, str):
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            msgspec.json.decode(value)
            return msgspec.Raw(value.encode())
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def encode_result(result: QueryResult, *, with_headers: bool) -> bytes:
    if not with_headers:
        return result.body
    return b'{"headers":' + msgspec.json.encode(result.headers) + b',"rows":' + result.body + b"}"
