"""Queue names for lists. The engine forgets a queue that is empty for a while; the lists keep its row for a day, so
that rows do not vanish while a user looks at them. In a deployment with very many queues they do not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from windlass.core.access.tokens import is_queue_allowed
from windlass.dashboard.page_context import PageContext
from windlass.web.app.app_state import AppState

REMEMBERED_S = 24 * 3600  # since the engine knew it last
REMEMBERED_MAX = 500
QUEUES_OFFERED = 200
EXACT_MAX = 1_000  # with more queues, pages do not read the statistics of all

_seen: WeakKeyDictionary[AppState, dict[str, float]] = WeakKeyDictionary()


async def queue_names(state: AppState, patterns: tuple[str, ...] = ()) -> Sequence[str]:
    """Return the engine's queues and those that this server saw within a day, sorted, as far as they match these
    patterns (none: all)."""
    known = await state.service.queues()
    names = known if len(known) > EXACT_MAX else _with_remembered(state, known)
    return [name for name in names if is_queue_allowed(name, patterns)] if patterns else names


def _with_remembered(state: AppState, known: Sequence[str]) -> list[str]:
    now_s = time.monotonic()
    seen = _seen.setdefault(state, {})
    forgotten = [name for name, at_s in seen.items() if now_s - at_s > REMEMBERED_S]
    for name in forgotten:
        del seen[name]
    for name in known:
        if name in seen or len(seen) < REMEMBERED_MAX:
            seen[name] = now_s
    return sorted({*known, *seen})


async def offered_queues(page: PageContext[Any]) -> list[str]:
    """Return the first queues that the principal may use, as suggestions of a form."""
    names = await page.service.queues()
    return list(islice((name for name in names if page.may_use(name)), QUEUES_OFFERED))


def names_containing(names: Sequence[str], text: str, most: int) -> list[str]:
    """Return the first names that contain a text, regardless of case."""
    wanted = text.casefold()
    return list(islice((name for name in names if wanted in name.casefold()), most))


def was_seen(state: AppState, name: str) -> bool:
    """Report whether the lists show a queue that the engine may have forgotten."""
    return name in _seen.get(state, {})


def forget_queue(state: AppState, name: str) -> None:
    """Drop the row of a queue that was removed."""
    _seen.get(state, {}).pop(name, None)
