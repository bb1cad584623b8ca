"""Shared by the machines in which takers wait under bells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.operations import Filter
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.commands.take import filter_text


def said(ask: Callable[[], Any], *codes: str) -> Any:
    """The answer; None for one of the refusals that are no surprise."""
    try:
        return ask()
    except Refusal as refusal:
        if refusal.code not in codes:
            raise
    return None


def pass_ring(bell: str, queue: str, wanted: Filter) -> Flow[bool]:
    """It no longer waits with this filter; what it was rung for besides goes on to the others."""
    return (yield maintenance.pass_wakeup(bell, queue, (filter_text(wanted),), 0))
