"""The audit log: who did what, when, from where, and how it went; newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.core.access.audit import AuditEntry
from windlass.core.validation.bounds import CURSOR_MAX
from windlass.dashboard.page_context import Visit
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


@routes.page("/audit", "audit.html", page="audit", roles=ADMINS, query=AuditQuery)
async def audit(visit: Visit[AuditQuery]) -> AuditView:
    """Who did what."""
    asked = visit.query
    visit.now_ms = await visit.service.now()
    sought = asked.q.strip().lower()
    if sought:
        entries, cursor = await _seek(visit.service, sought.split(), asked.cursor)
    else:
        page = await visit.service.audits(most=SHOWN, cursor=asked.cursor)
        entries, cursor = page.entries, page.cursor
    return AuditView(visit.now_ms, asked.q.strip(), entries, cursor, not asked.cursor)


async def _seek(service: Service, words: Sequence[str], cursor: str) -> tuple[list[AuditEntry], str]:
    """A bounded part of the log, until a page is full."""
    found: list[AuditEntry] = []
    for _ in range(READS_MAX):
        page = await service.audits(most=READ_AT_ONCE, cursor=cursor)
        found += [entry for entry in page.entries if _has(entry, words)]
        cursor = page.cursor
        if not cursor or len(found) >= SHOWN:
            break
    return found, cursor


def _has(entry: AuditEntry, words: Sequence[str]) -> bool:
    text = f"{entry.who} {entry.what} {entry.target} {entry.detail} {entry.outcome} {entry.peer}".lower()
    return all(word in text for word in words)
