"""An action of an admin is written down before it is answered. What was done is done, also when that fails: then it
stands in the log of the process."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from windlass.core.access.audit import AuditEntry
from windlass.core.errors import WindlassError

from .router import Ask

log = logging.getLogger("windlass.web")

WAIT_LIMIT_S = 5.0  # for an engine that is away: the caller waits for the answer


async def write_down(ask: Ask[Any, Any], operation: str, outcome: str) -> None:
    entry = AuditEntry(
        who=ask.who.name,
        what=operation,
        target=ask.target,
        detail=ask.detail,
        outcome=outcome,
        peer=ask.request.head.peer,
    ).fitted()
    try:
        async with asyncio.timeout(WAIT_LIMIT_S):
            await ask.service.audit([entry])
    except (WindlassError, TimeoutError) as error:
        log.error("This is missing in the audit log (%s): %s", str(error) or "the engine does not answer", entry)
