"""Was every promise kept? One rule a file, each a pure function of the history, the final state and what was
promised. A rule says nothing where the history leaves room for doubt
(docs/decisions/0047-report-only-proven-violations.md)."""

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
    ended_twice,
    left_behind,
    limits,
    lost,
    made_twice,
    order,
    run_again,
    schedules,
    stale_token,
)
from .final import Final, read_final
from .finding import Finding, Promises
from .indexed import Indexed

__all__ = ["Final", "Finding", "Indexed", "Promises", "judge", "judge_entries", "read_final"]

Rule: TypeAlias = Callable[[Indexed, Final, Promises], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    lost.check,
    left_behind.check,
    made_twice.check,
    double_lease.check,
    stale_token.check,
    ended_twice.check,
    run_again.check,
    limits.check,
    schedules.check,
    callbacks.check,
    order.check,
    attempts.check,
    doctor.check,
)


def judge(histories: Sequence[Path], final: Final, promises: Promises) -> list[Finding]:
    return judge_entries(read_history(histories), final, promises)


def judge_entries(entries: Iterable[Entry], final: Final, promises: Promises) -> list[Finding]:
    history = Indexed(entries)
    return [finding for rule in RULES for finding in rule(history, final, promises)]
