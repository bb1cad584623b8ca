"""Helpers for the machines in which takers wait for wakeups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.operations import Filter
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.commands.take import filter_text


def answer_or_none(ask: Callable[[], Any], *codes: str) -> Any:
    """Return the answer, or None for an expected refusal."""
    try:
        return ask()
    except Refusal as refusal:
        if refusal.code not in codes:
            raise
    return None


def pass_wakeup(wakeup_list: str, queue: str, wanted: Filter) -> Flow[bool]:
    """End a wait with this filter; its other wakeups go to other takers."""
    return (yield maintenance.pass_wakeup(wakeup_list, queue, (filter_text(wanted),), 0))
