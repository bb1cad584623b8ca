"""windlass audit: what was done through servers, and by whom (docs/access.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import click

from windlass.cli.connection import connected
from windlass.cli.output import At, Column, json_line, json_option, limit_option, note, table
from windlass.cli.records import record
from windlass.core.access.audit import AuditEntry
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

COLUMNS = (
    Column("when"),
    Column("who", shrinks=10),
    Column("what", shrinks=12),
    Column("target", shrinks=12),
    Column("outcome", rank=1),
    Column("from", rank=2),
    Column("detail", rank=3, shrinks=16),
)


@click.command()
@limit_option
@json_option
@connected
def audit(service: Service, limit: int, as_json: bool) -> None:
    """List what was done through servers and by whom, newest first.

    The last 10,000 entries are kept. With --json, one object per line.

    \b
    Example:
      windlass audit --limit 20
    """
    now_ms = service.now().wait()
    found = _entries(service, min(limit + 1, PAGE_MAX) if limit else PAGE_MAX)
    shown = islice(found, limit or None)
    if as_json:
        for entry in shown:
            json_line(record(entry))
    else:
        table(COLUMNS, (_row(entry, now_ms) for entry in shown), empty="Nothing is written in the audit log.")
    if limit and next(found, None) is not None:
        note("There is more, and older: --limit 0 shows all.")


def _entries(service: Service, most: int) -> Iterator[AuditEntry]:
    page = service.audits(most=most).wait()
    yield from page.entries
    while page.cursor:
        page = service.audits(most=most, cursor=page.cursor).wait()
        yield from page.entries


def _row(entry: AuditEntry, now_ms: int) -> tuple[object, ...]:
    at = At(entry.at_ms, now_ms)
    return at, entry.who, entry.what, entry.target, entry.outcome, entry.peer, entry.detail
