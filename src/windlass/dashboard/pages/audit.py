"""Audit log: actions with their author, time, origin and outcome, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.core.access.audit import AuditEntry
from windlass.core.validation.bounds import CURSOR_MAX
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.saved_filters import FilterBar, filter_bar
from windlass.service import Service
from windlass.web.app.router import ADMINS

routes = DashboardRoutes()

SHOWN = 50
READ_AT_ONCE = 250  # entries per read of a search
READS_MAX = 8  # per page of a search; the next page continues from there


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: Annotated[str, Meta(max_length=200)] = ""  # words to find in any field
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX)] = ""


class AuditView(msgspec.Struct, frozen=True):
    now_ms: int
    search: str
    entries: list[AuditEntry]
    cursor: str
    is_first: bool
    filters: FilterBar


@routes.page("/audit", "audit.html", section="audit", roles=ADMINS, query=AuditQuery)
async def audit(page: PageContext[AuditQuery]) -> AuditView:
    """Show the audit log."""
    query = page.query
    page.now_ms = await page.service.now()
    words = query.q.strip().lower().split()
    if words:
        entries, cursor = await _search(page.service, words, query.cursor)
    else:
        result = await page.service.audits(most=SHOWN, cursor=query.cursor)
        entries, cursor = result.entries, result.cursor
    filters = await filter_bar(page, "audit")
    return AuditView(page.now_ms, query.q.strip(), entries, cursor, not query.cursor, filters)


async def _search(service: Service, words: Sequence[str], cursor: str) -> tuple[list[AuditEntry], str]:
    """Search a bounded part of the log, until a page is full."""
    found: list[AuditEntry] = []
    for _ in range(READS_MAX):
        result = await service.audits(most=READ_AT_ONCE, cursor=cursor)
        found += [entry for entry in result.entries if _matches(entry, words)]
        cursor = result.cursor
        if not cursor or len(found) >= SHOWN:
            break
    return found, cursor


def _matches(entry: AuditEntry, words: Sequence[str]) -> bool:
    text = f"{entry.who} {entry.what} {entry.target} {entry.detail} {entry.outcome} {entry.peer}".lower()
    return all(word in text for word in words)
