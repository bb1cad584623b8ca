"""Queue names for lists. The engine forgets a queue that is empty for a while; the lists keep its row for a day, so
that rows do not vanish while a user looks at them."""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from windlass.web.app.app_state import AppState

REMEMBERED_S = 24 * 3600  # since the engine knew it last
REMEMBERED_MAX = 500

_seen: WeakKeyDictionary[AppState, dict[str, float]] = WeakKeyDictionary()


async def queue_names(state: AppState) -> list[str]:
    """Return the engine's queues and those that this server saw within a day, sorted."""
    now_s = time.monotonic()
    known = await state.service.queues()
    seen = _seen.setdefault(state, {})
    forgotten = [name for name, at_s in seen.items() if now_s - at_s > REMEMBERED_S]
    for name in forgotten:
        del seen[name]
    for name in known:
        if name in seen or len(seen) < REMEMBERED_MAX:
            seen[name] = now_s
    return sorted({*known, *seen})


def was_seen(state: AppState, name: str) -> bool:
    """Report whether the lists show a queue that the engine may have forgotten."""
    return name in _seen.get(state, {})


def forget_queue(state: AppState, name: str) -> None:
    """Drop the row of a queue that was removed."""
    _seen.get(state, {}).pop(name, None)
