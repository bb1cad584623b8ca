"""The names of queues as people know them: the engine forgets one that is empty for a while, but a row that was there a
moment ago must not vanish under whoever looks at it."""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from windlass.web.app.app_state import AppState

REMEMBERED_S = 24 * 3600  # since it was there last
REMEMBERED_MAX = 500

_seen: WeakKeyDictionary[AppState, dict[str, float]] = WeakKeyDictionary()


async def queue_names(state: AppState) -> list[str]:
    """Those of the engine, and those that somebody saw here within a day; in order."""
    now_s = time.monotonic()
    there = await state.service.queues()
    seen = _seen.setdefault(state, {})
    gone = [name for name, at_s in seen.items() if now_s - at_s > REMEMBERED_S]
    for name in gone:
        del seen[name]
    for name in there:
        if name in seen or len(seen) < REMEMBERED_MAX:
            seen[name] = now_s
    return sorted({*there, *seen})
