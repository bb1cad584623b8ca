"""windlass audit: actions and their authors (docs/access.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import click

from windlass.cli.connection import with_service
from windlass.cli.output import Column, InstantCell, json_option, limit_option, print_json_line, print_note, print_table
from windlass.cli.records import to_record
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
@with_service
def audit(service: Service, limit: int, as_json: bool) -> None:
    """List actions with their authors, newest first.

    These are actions through servers, and those of the command line on the engine. The last 10,000 entries are kept.
    With --json, one object per line.

    \b
    Example:
      windlass audit --limit 20
    """
    now_ms = service.now().wait()
    found = _entries(service, min(limit + 1, PAGE_MAX) if limit else PAGE_MAX)
    shown = islice(found, limit or None)
    if as_json:
        for entry in shown:
            print_json_line(to_record(entry))
    else:
        print_table(COLUMNS, (_row(entry, now_ms) for entry in shown), empty="The audit log is empty.")
    if limit and next(found, None) is not None:
        print_note("There are older entries: --limit 0 shows all.")


def _entries(service: Service, most: int) -> Iterator[AuditEntry]:
    page = service.audits(most=most).wait()
    yield from page.entries
    while page.cursor:
        page = service.audits(most=most, cursor=page.cursor).wait()
        yield from page.entries


def _row(entry: AuditEntry, now_ms: int) -> tuple[object, ...]:
    at = InstantCell(entry.at_ms, now_ms)
    return at, entry.who, entry.what, entry.target, entry.outcome, entry.peer, entry.detail
