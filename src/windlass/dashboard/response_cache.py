"""Short-lived cache for data that several viewers of a page share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from windlass.web.app.app_state import AppState

T = TypeVar("T")
TTL_S = 0.5


class _Entry:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.at_s = float("-inf")
        self.value: Any = None


_entries: WeakKeyDictionary[AppState, dict[str, _Entry]] = WeakKeyDictionary()


async def cached(state: AppState, key: str, read: Callable[[], Awaitable[T]], ttl_s: float = TTL_S) -> T:
    """Return the cached value of `key`, or call `read` if the value is older than `ttl_s`. There must be only a few
    keys, and the value must not depend on the viewer."""
    entry = _entries.setdefault(state, {}).setdefault(key, _Entry())
    async with entry.lock:
        if time.monotonic() - entry.at_s > ttl_s:
            entry.value = await read()
            entry.at_s = time.monotonic()
        return entry.value  # type: ignore[no-any-return]


def clear_cache(state: AppState) -> None:
    """Drop all values after an action, so that its result is visible on the next page."""
    _entries.pop(state, None)
