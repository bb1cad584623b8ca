"""Open incidents at the top of the overview."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.alerts.incident import Alerts
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.response_cache import cached
from windlass.web.app.app_state import AppState

from .rows import AlertRow, make_row, visible_rules

TTL_S = 2.0  # one read serves all viewers
ROWS_MAX = 5


class AttentionView(msgspec.Struct, frozen=True):
    rows: list[AlertRow]
    more: int  # open incidents that are not among the rows


async def _read(state: AppState) -> Alerts:
    return await state.service.alerts(past=0)


async def read_attention(page: PageContext[Any]) -> AttentionView:
    """Return the open incidents that the viewer may see."""
    state: AppState = page.context.state
    found = await cached(state, "alerts", lambda: _read(state), TTL_S)
    rows = [make_row(page, one, found.now_ms) for one in visible_rules(page, found) if one.state.phase == "open"]
    return AttentionView(rows[:ROWS_MAX], max(0, len(rows) - ROWS_MAX))
