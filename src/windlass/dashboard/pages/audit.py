"""The audit log: who did what, when, from where, and how it went; newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.core.access.audit import AuditEntry
from windlass.core.validation.bounds import CURSOR_MAX
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.service import Service
from windlass.web.app.router import ADMINS

routes = DashboardRoutes()

SHOWN = 50
READ_AT_ONCE = 250  # when something is sought
READS_MAX = 8  # of one look; the next page goes on from there


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    q: Annotated[str, Meta(max_length=200)] = ""  # in any of its words
    cursor: Annotated[str, Meta(max_length=CURSOR_MAX)] = ""


class AuditView(msgspec.Struct, frozen=True):
    now_ms: int
    sought: str
    entries: list[AuditEntry]
    cursor: str
    is_first: bool


@routes.page("/audit", "audit.html", section="audit", roles=ADMINS, query=AuditQuery)
async def audit(page: PageContext[AuditQuery]) -> AuditView:
    """Who did what."""
    asked = page.query
    page.now_ms = await page.service.now()
    sought = asked.q.strip().lower()
    if sought:
        entries, cursor = await _search(page.service, sought.split(), asked.cursor)
    else:
        result = await page.service.audits(most=SHOWN, cursor=asked.cursor)
        entries, cursor = result.entries, result.cursor
    return AuditView(page.now_ms, asked.q.strip(), entries, cursor, not asked.cursor)


async def _search(service: Service, words: Sequence[str], cursor: str) -> tuple[list[AuditEntry], str]:
    """A bounded part of the log, until a page is full."""
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
