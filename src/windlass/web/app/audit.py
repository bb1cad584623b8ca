"""An action of an admin is written down before it is answered. What was done is done, also when that fails: then it
stands in the log of the process."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from windlass.core.access.audit import AuditEntry
from windlass.core.errors import WindlassError

from .request_context import RequestContext

log = logging.getLogger("windlass.web")

WAIT_LIMIT_S = 5.0  # for an engine that is away: the caller waits for the answer


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
        log.error("This is missing in the audit log (%s): %s", str(error) or "the engine does not answer", entry)
