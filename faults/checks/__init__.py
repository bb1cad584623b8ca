"""Checks of a run: one rule per file, each a pure function of the history, the final state and the guarantees.

A rule reports only proven violations (docs/decisions/0047-report-only-proven-violations.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from ..history import Entry, read_history
from . import (
    attempts,
    callbacks,
    doctor,
    double_lease,
    duplicate_jobs,
    durable,
    ended_twice,
    flows,
    left_behind,
    limits,
    lost,
    order,
    run_after_end,
    schedules,
    stale_token,
)
from .final_state import FinalState, read_final_state
from .finding import Finding, Guarantees
from .history_index import HistoryIndex

__all__ = [
    "FinalState",
    "Finding",
    "Guarantees",
    "HistoryIndex",
    "check_entries",
    "check_histories",
    "read_final_state",
]

Rule: TypeAlias = Callable[[HistoryIndex, FinalState, Guarantees], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    lost.check,
    left_behind.check,
    duplicate_jobs.check,
    double_lease.check,
    stale_token.check,
    ended_twice.check,
    run_after_end.check,
    limits.check,
    schedules.check,
    callbacks.check,
    order.check,
    attempts.check,
    flows.check,
    durable.check,
    doctor.check,
)


def check_histories(histories: Sequence[Path], final: FinalState, guarantees: Guarantees) -> list[Finding]:
    return check_entries(read_history(histories), final, guarantees)


def check_entries(entries: Iterable[Entry], final: FinalState, guarantees: Guarantees) -> list[Finding]:
    history = HistoryIndex(entries)
    return [finding for rule in RULES for finding in rule(history, final, guarantees)]
