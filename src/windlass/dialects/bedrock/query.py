"""SQL over a copy of the jobs: SQLite in memory, read-only, bounded in rows, bytes and time. What does not fit within
the bounds is an error, never a part of the answer."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from . import sql_functions
from .refusing import Refused

COLUMNS = (
    "created", "jobID", "state", "name", "nextRun", "lastRun", "repeat", "data", "priority", "parentJobID",
    "retryAfter",
)  # fmt: skip
ROWS_MAX = 100_000
ANSWER_BYTES_MAX = 64 * 1024 * 1024
COPY_BYTES_MAX = 256 * 1024 * 1024
SECONDS_MAX = 5.0
STEPS = 10_000  # of SQLite's machine between two looks at the clock
_TABLE = (
    "CREATE TABLE jobs (created TIMESTAMP NOT NULL, jobID INTEGER NOT NULL PRIMARY KEY, state TEXT NOT NULL, "
    "name TEXT NOT NULL, nextRun TIMESTAMP NOT NULL, lastRun TIMESTAMP, repeat TEXT NOT NULL, data TEXT NOT NULL, "
    "priority INTEGER NOT NULL DEFAULT 500, parentJobID INTEGER NOT NULL DEFAULT 0, "
    "retryAfter TEXT NOT NULL DEFAULT '')"
)
_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
ABORTED = (502, "Query aborted")
WRITES = ("update", "delete", "insert", "replace", "create", "drop", "alter", "pragma", "attach", "detach", "vacuum")


class BadQuery(Exception):
    """It does not compile, or may not be asked."""


class Found(NamedTuple):
    headers: list[str]
    rows: list[list[Any]]


def checked(query: str) -> str:
    """The query, if it can be one."""
    if not query:
        raise Refused(402, "Missing query")
    if not query.endswith(";"):
        raise Refused(502, "Query Missing Semicolon")
    first = query.split(None, 1)[0].lower().rstrip(";(")
    if first in WRITES:
        raise Refused(*ABORTED)
    return query


def run(query: str, rows: Iterable[tuple[Any, ...]]) -> Found:
    """Blocks for up to some seconds: call it in a thread."""
    give_up_at_s = time.monotonic() + SECONDS_MAX
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as base:
        _bound(base)
        base.execute(_TABLE)
        try:
            base.executemany(f"INSERT OR REPLACE INTO jobs VALUES ({', '.join('?' * len(COLUMNS))})", rows)  # noqa: S608
        except sqlite3.Error:
            raise Refused(*ABORTED) from None
        base.set_authorizer(_authorise)
        base.set_progress_handler(lambda: time.monotonic() > give_up_at_s, STEPS)
        return _select(base, query)


def _bound(base: sqlite3.Connection) -> None:
    (page_bytes,) = base.execute("PRAGMA page_size").fetchone()
    base.execute(f"PRAGMA max_page_count = {COPY_BYTES_MAX // page_bytes}")
    base.execute("PRAGMA temp_store = FILE")  # what is sorted or joined must not fill the memory
    base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * 1024 * 1024)
    base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    sql_functions.prepare(base)


def _authorise(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action not in _ALLOWED or (
        action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in sql_functions.REFUSED
    ):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _select(base: sqlite3.Connection, query: str) -> Found:
    try:
        cursor = base.execute(query)
        if cursor.description is None:
            raise BadQuery("It answers nothing.")
        headers = [column[0] for column in cursor.description]
        return Found(headers, list(_bounded(cursor)))
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error) or "full" in str(error):
            raise Refused(*ABORTED) from None
        raise BadQuery(str(error)) from error
    except (sqlite3.DataError, MemoryError, OverflowError):
        raise Refused(*ABORTED) from None
    except sqlite3.Error as error:
        raise BadQuery(str(error)) from error


def _bounded(cursor: sqlite3.Cursor) -> Iterator[list[Any]]:
    headers = [column[0] for column in cursor.description]
    size = 0
    for count, row in enumerate(cursor, 1):
        size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if count > ROWS_MAX or size > ANSWER_BYTES_MAX:
            raise Refused(*ABORTED)
        yield [_shown(header, value) for header, value in zip(headers, row, strict=True)]


def _shown(header: str, value: Any) -> Any:
    """As Bedrock shows it: nothing as an empty text, the data of a job as what it is."""
    if value is None:
        return ""
    if header == "data" and isinstance(value, str):
        with contextlib.suppress(msgspec.MsgspecError, RecursionError):
            msgspec.json.decode(value)
            return msgspec.Raw(value.encode())
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def write(found: Found, *, with_headers: bool) -> bytes:
    return msgspec.json.encode({"headers": found.headers, "rows": found.rows} if with_headers else found.rows)
