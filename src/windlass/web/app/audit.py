"""Audit log of admin actions, written before the answer. The action is not undone if writing fails; the entry then goes
to the log of the process."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from windlass.core.access.audit import AuditEntry
from windlass.core.errors import WindlassError

from .request_context import RequestContext

log = logging.getLogger("windlass.web")

WAIT_LIMIT_S = 5.0  # for the engine; the client waits during this time


async def write_audit_entry(context: RequestContext[Any, Any], operation: str, outcome: str) -> None:
    entry = AuditEntry(
        who=context.principal.name,
        what=operation,
        target=context.audit_target,
        detail=context.audit_detail,
        outcome=outcome,
        peer=context.request.head.peer,
    ).sanitize()
    try:
        async with asyncio.timeout(WAIT_LIMIT_S):
            await context.service.audit([entry])
    except (WindlassError, TimeoutError) as error:
        reason = str(error) or f"the engine did not answer within {WAIT_LIMIT_S:g} s"
        log.error("Could not write %s to the audit log; this line is its only record: %s", entry, reason)
