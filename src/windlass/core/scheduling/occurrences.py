"""Occurrences of a schedule, and the decision which due occurrences fire. Instants are arguments."""

from __future__ import annotations

from typing import NamedTuple

from windlass.core.text.durations import INSTANT_MAX

from . import cron, repeat
from .schedule import Schedule

LOOKED_AT = 200  # occurrences that one step examines when it fires only few of them
STEPS_MOST = 10_000  # steps of a repeat rule from its start to now


def first_at_ms(schedule: Schedule, now_ms: int) -> int | None:
    """Return the first occurrence of a new schedule. Occurrences before now do not count."""
    starts_at_ms = schedule.starts_at_ms
    if schedule.cron:
        parsed = cron.parse(schedule.cron, schedule.timezone)
        return _within(schedule, parsed.following_ms(max(starts_at_ms, now_ms) - 1))
    if starts_at_ms >= now_ms:
        return _within(schedule, starts_at_ms)
    if schedule.every_ms:
        first = now_ms + schedule.every_ms if not starts_at_ms else _advance(schedule, starts_at_ms, now_ms - 1)
        return _within(schedule, first)
    if not starts_at_ms:
        return following_at_ms(schedule, now_ms, now_ms)
    return resumed_at_ms(schedule, starts_at_ms, now_ms - 1)


def following_at_ms(schedule: Schedule, planned_at_ms: int, fired_at_ms: int) -> int | None:
    """Return the occurrence after an occurrence that was planned for `planned_at_ms` and fired at `fired_at_ms`."""
    found: int | None
    if schedule.cron:
        found = cron.parse(schedule.cron, schedule.timezone).following_ms(planned_at_ms)
    elif schedule.every_ms:
        found = planned_at_ms + schedule.every_ms
    else:
        found = repeat.parse(schedule.repeat).next_at_ms(planned_at_ms, fired_at_ms, fired_at_ms)
        if found is not None and found <= planned_at_ms:
            return None  # the rule does not advance
    return _within(schedule, found)


def upcoming_ms(schedule: Schedule, next_at_ms: int | None, most: int) -> list[int]:
    """Return at most `most` occurrences from `next_at_ms` on, as if each fired at the instant it is planned for."""
    found: list[int] = []
    while next_at_ms is not None and len(found) < most:
        found.append(next_at_ms)
        next_at_ms = following_at_ms(schedule, next_at_ms, next_at_ms)
    return found


def resumed_at_ms(schedule: Schedule, planned_at_ms: int, now_ms: int) -> int | None:
    """Return the first occurrence after now, without the occurrences between the planned one and now."""
    if planned_at_ms > now_ms:
        return _within(schedule, planned_at_ms)
    if schedule.cron:
        return _within(schedule, cron.parse(schedule.cron, schedule.timezone).following_ms(now_ms))
    if schedule.every_ms:
        return _within(schedule, _advance(schedule, planned_at_ms, now_ms))
    at_ms: int | None = planned_at_ms
    for _ in range(STEPS_MOST):
        if at_ms is None or at_ms > now_ms:
            return at_ms
        at_ms = following_at_ms(schedule, at_ms, now_ms)
    return following_at_ms(schedule, now_ms, now_ms)


def _advance(schedule: Schedule, from_at_ms: int, after_ms: int) -> int:
    """Return the first instant after `after_ms` that is a whole number of periods from `from_at_ms`."""
    return from_at_ms + ((after_ms - from_at_ms) // schedule.every_ms + 1) * schedule.every_ms


def _within(schedule: Schedule, at_ms: int | None) -> int | None:
    return None if at_ms is None or at_ms > (schedule.ends_at_ms or INSTANT_MAX) else at_ms


class Firing(NamedTuple):
    """Decision of one step about a schedule that is due."""

    planned: list[int]  # a job is created for each of these occurrences
    skipped: int
    missed: int
    next_at_ms: int | None


def plan_firing(schedule: Schedule, next_at_ms: int, now_ms: int, most: int) -> Firing:
    """Decide which due occurrences fire now. At most `most` fire; the others follow in the next step."""
    due, following = _due(schedule, next_at_ms, now_ms, most if schedule.misfire == "all" else LOOKED_AT)
    chosen = _choose(schedule, due, following, now_ms)
    if len(chosen) > most:
        following = chosen[most]
        due, chosen = [at for at in due if at < following], chosen[:most]
    fired = {"allow": chosen, "skip": chosen[:1], "replace": chosen[-1:]}[schedule.overlap]
    return Firing(fired, len(chosen) - len(fired), len(due) - len(chosen), following)


def _due(schedule: Schedule, next_at_ms: int, now_ms: int, most: int) -> tuple[list[int], int | None]:
    """Return at most `most` occurrences up to now, and the occurrence after them, which may be due as well."""
    due: list[int] = []
    at_ms: int | None = next_at_ms
    while at_ms is not None and at_ms <= now_ms and len(due) < most:
        due.append(at_ms)
        at_ms = following_at_ms(schedule, at_ms, now_ms)
    return due, at_ms


def _choose(schedule: Schedule, due: list[int], following: int | None, now_ms: int) -> list[int]:
    if schedule.misfire == "all":
        return due
    in_time = [at for at in due if now_ms - at <= schedule.misfire_after_ms]
    if schedule.misfire == "none" or in_time:
        return in_time
    # One run replaces all missed occurrences: the last of them, unless the following occurrence is already due.
    return due[-1:] if following is None or following > now_ms else []
