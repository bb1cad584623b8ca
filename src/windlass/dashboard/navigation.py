"""Entries of the navigation that appear once the deployment uses them: downloads and callbacks.

The check is cheap and rare: at most four calls in half a minute for each server process, and none for what it has found
in use. An entry stays until the process ends, so that it does not vanish when the last callback is delivered."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Set
from weakref import WeakKeyDictionary

from windlass.core.errors import UnknownLimit, WindlassError
from windlass.downloads.worker.order import AGGREGATIONS
from windlass.service import Service
from windlass.web.app.app_state import AppState

CHECK_EVERY_S = 30.0
_NOTIFIER = "notifier"
_DELIVERIES = ("successfulCallbacks", "failedCallbacks")


class _Usage:
    def __init__(self) -> None:
        self.sections: set[str] = set()
        self.checked_at_s = float("-inf")


_usages: WeakKeyDictionary[AppState, _Usage] = WeakKeyDictionary()


def used_sections(state: AppState) -> Set[str]:
    """Return the sections that were in use at some check."""
    usage = _usages.get(state)
    return usage.sections if usage else frozenset()


async def check_usage(state: AppState) -> None:
    """Look for sections that have come into use. While the engine is unavailable, the known ones stay."""
    usage = _usages.setdefault(state, _Usage())
    if time.monotonic() - usage.checked_at_s < CHECK_EVERY_S:
        return
    usage.checked_at_s = time.monotonic()
    with contextlib.suppress(WindlassError):
        if "aggregations" not in usage.sections and await _has_downloads(state.service):
            usage.sections.add("aggregations")
        if "callbacks" not in usage.sections and await _has_callbacks(state.service):
            usage.sections.add("callbacks")


async def _has_downloads(service: Service) -> bool:
    """Tell whether there was a download: the first one creates the limit of all aggregations."""
    try:
        await service.aggregations(AGGREGATIONS, most=1)
    except UnknownLimit:
        return False
    return True


async def _has_callbacks(service: Service) -> bool:
    """Tell whether a callback is pending or given up, or was delivered since the start of a notifier."""
    for given_up in (False, True):
        if (await service.callbacks(given_up=given_up, most=1)).callbacks:
            return True
    counters = (await service.stats_of(_NOTIFIER)).values()
    return any(numbers.get(name) for numbers in counters for name in _DELIVERIES)
