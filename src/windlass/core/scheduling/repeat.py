"""Repeat rules of jobs: a base instant and date modifiers, in whole seconds, UTC.

The modifiers have the meaning of SQLite's date modifiers; SQLite computes them.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from functools import lru_cache

import msgspec

from windlass.core.errors import BadInput
from windlass.core.text.durations import INSTANT_MAX

RULE_MAX = 255  # bytes; the length is stored in one byte
BASES = ("SCHEDULED", "STARTED", "FINISHED")
CANNED = {"HOURLY": "FINISHED, +1 HOUR", "DAILY": "FINISHED, +1 DAY", "WEEKLY": "FINISHED, +7 DAYS"}
_EXAMPLE = "write for example 'SCHEDULED, +1 DAY', 'FINISHED, +1 MONTH, START OF MONTH' or HOURLY"
_OFFSET = re.compile(r"([+-]) ?(\d{1,3}) (YEAR|MONTH|DAY|HOUR|MINUTE)S?|([+-]) ?(\d{1,8}) (SECOND)S?", re.ASCII)
_OTHER = re.compile(r"START OF (?:HOUR|DAY|MONTH|YEAR)|WEEKDAY [0-6]")
_START_OF_HOUR = "START OF HOUR"  # the only modifier that SQLite does not have
_HOUR_S = 3600
_UNIT_MS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}


class Modifiers(msgspec.Struct, frozen=True):
    """Date modifiers, applied from left to right. Each step yields whole seconds."""

    steps: tuple[str, ...]

    @property
    def fixed_ms(self) -> int | None:
        """Distance that the modifiers move any instant; None if it depends on the instant."""
        parts = [step.split(" ") for step in self.steps]
        if any(len(part) > 2 or part[-1] not in _UNIT_MS for part in parts):  # START OF DAY ends in a unit, too
            return None
        return sum(int(number) * _UNIT_MS[unit] for number, unit in parts)

    def apply_ms(self, at_ms: int) -> int | None:
        """Return the modified instant in whole seconds, or None if it cannot be represented."""
        # A new connection takes 20 µs, and is safe in every thread and after a fork.
        with contextlib.closing(sqlite3.connect(":memory:")) as calendar:
            at_s = at_ms // 1000
            for step in self.steps:
                moved_s = _apply_step(calendar, at_s, step)
                if moved_s is None:
                    return None
                at_s = moved_s
        return at_s * 1000 if 0 < at_s * 1000 <= INSTANT_MAX else None


class Rule(msgspec.Struct, frozen=True):
    """A repeat rule: its text, and its parsed base and modifiers."""

    text: str
    base: str
    modifiers: Modifiers

    def next_at_ms(self, scheduled_at_ms: int, started_at_ms: int, finished_at_ms: int) -> int | None:
        """Return the instant of the next run, which may be in the past, or None if it cannot be represented."""
        bases = {"SCHEDULED": scheduled_at_ms, "STARTED": started_at_ms, "FINISHED": finished_at_ms}
        return self.modifiers.apply_ms(bases[self.base])


def _apply_step(calendar: sqlite3.Connection, at_s: int, step: str) -> int | None:
    if step == _START_OF_HOUR:
        return at_s - at_s % _HOUR_S
    (moved,) = calendar.execute("SELECT strftime('%s', ?, 'unixepoch', ?)", (at_s, step)).fetchone()
    return None if moved is None else int(moved)


@lru_cache(1024)
def parse(text: str) -> Rule:
    """Parse a rule: `base, modifier, …`, or one of the words in `CANNED`. Raise BadInput for anything else."""
    _check_size(text)
    head, *rest = _parts(CANNED.get(text.lstrip(" ").upper(), text))
    if head not in BASES:
        raise BadInput(
            f"The repeat rule {text!r} must begin with {', '.join(BASES)} or be one of {', '.join(CANNED)}; {_EXAMPLE}."
        )
    if not rest:
        raise BadInput(f"The repeat rule {text!r} has no modifier; {_EXAMPLE}.")
    return Rule(text, head, Modifiers(tuple(_modifier(part, text) for part in rest)))


def is_same(rule: str, other: str) -> bool:
    """Return whether two rules are equal, ignoring case. Rules are stored as written; an empty text means no rule."""
    return rule.upper() == other.upper()


@lru_cache(1024)
def parse_modifiers(text: str) -> Modifiers:
    """Parse modifiers without a base: `+1 HOUR`, `+1 DAY, START OF DAY`."""
    _check_size(text)
    return Modifiers(tuple(_modifier(part, text) for part in _parts(text)))


def _check_size(text: str) -> None:
    if len(text) > RULE_MAX or not text.isascii():
        raise BadInput(f"A repeat rule is plain ASCII and has at most {RULE_MAX} characters; {_EXAMPLE}.")


def _parts(text: str) -> list[str]:
    return [part.lstrip(" ").upper() for part in text.split(",")]


def _modifier(part: str, text: str) -> str:
    offset = _OFFSET.fullmatch(part)
    if offset is not None:
        sign, number, unit = (found for found in offset.groups() if found is not None)
        return f"{sign}{number} {unit}"
    if _OTHER.fullmatch(part) is None:
        raise BadInput(
            f"{part!r} in the repeat rule {text!r} is not a modifier; write +N or -N with YEARS, MONTHS, DAYS, HOURS, "
            "MINUTES (N up to 999) or SECONDS, or START OF HOUR, DAY, MONTH or YEAR, or WEEKDAY 0 to 6."
        )
    return part
