"""Audit log operations: front ends record who did what; people read it, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.access.audit import AuditEntry, AuditPage
from windlass.core.validation.bounds import CURSOR_MAX, PAGE_MAX
from windlass.core.validation.tokens import check_audit_entries
from windlass.core.validation.values import check_integer, check_text
from windlass.service.facet import Facet, send
from windlass.store.commands.admin import audit
from windlass.store.commands.command import Flow
from windlass.store.operation import Operation


class AuditOperations(Facet):
    def audit(self, entries: Sequence[AuditEntry]) -> Operation[None]:
        """Append entries with the engine's time. The last 10,000 are kept. After a lost answer an entry may be stored
        twice, which is better than not at all."""
        check_audit_entries(entries)
        return Operation(self.store, lambda: self._audit_flow(entries))

    def _audit_flow(self, entries: Sequence[AuditEntry]) -> Flow[None]:
        if entries:
            yield audit.audit(entries)

    def audits(self, *, most: int = 50, cursor: str = "") -> Operation[AuditPage]:
        """Return one page, newest first. New entries do not shift the pages."""
        check_integer("most", most, 1, PAGE_MAX)
        check_text("cursor", cursor, CURSOR_MAX, may_be_empty=True)
        audit.check_cursor(cursor)
        return Operation(self.store, lambda: send(audit.audits(most, cursor)))
