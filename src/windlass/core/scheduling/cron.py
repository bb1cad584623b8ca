"""Cron expressions in a time zone, including clock changes.

cronsim finds the matching local times; this module maps them to instants. A fixed local time that a clock change skips
occurs right after the change; a fixed local time that occurs twice fires once. An expression with `*` in its minute or
hour follows the clock: a skipped time is left out, and a repeated time fires twice.
"""

from __future__ import annotations

import datetime
import zoneinfo
from functools import lru_cache

import cronsim

from windlass.core.errors import BadInput
from windlass.core.text.durations import INSTANT_MAX

CRON_MAX = 255
TIMEZONE_MAX = 64
_UTC = datetime.UTC
_SECOND = datetime.timedelta(seconds=1)
_LONGEST_CHANGE = datetime.timedelta(days=2)  # Samoa skipped a whole day


class Cron:
    """A cron expression in a time zone."""

    def __init__(self, expression: str, zone: zoneinfo.ZoneInfo) -> None:
        minute, hour = expression.split()[-5:-3]
        self._expression = expression
        self._zone = zone
        self._follows_the_clock = minute.startswith("*") or hour.startswith("*")

    def following_ms(self, after_ms: int) -> int | None:
        """Return the first matching instant after `after_ms`, or None if none can be represented."""
        try:
            after = datetime.datetime.fromtimestamp(after_ms // 1000, _UTC)
            found = self._following(after)
        except (OverflowError, ValueError):
            return None
        if found is None:
            return None
        at_ms = int(found.timestamp()) * 1000
        return at_ms if at_ms <= INSTANT_MAX else None

    def _following(self, after: datetime.datetime) -> datetime.datetime | None:
        local = after.astimezone(self._zone)
        found = self._first_after(local.replace(tzinfo=None, fold=0), after)
        if self._follows_the_clock and local.fold == 0 and self._offset(local, 0) > self._offset(local, 1):
            # In the hour before the clocks go back, local times repeat, maybe before the instant that was found.
            change = self._change_after(after, _LONGEST_CHANGE)
            start = change.astimezone(self._zone).replace(tzinfo=None, fold=0)
            again = self._first_after(start - _SECOND, change - _SECOND)
            found = again if found is None or (again is not None and again < found) else found
        return found

    def _first_after(self, time: datetime.datetime, after: datetime.datetime) -> datetime.datetime | None:
        """Return the first instant after `after` whose local time follows `time` and matches."""
        for matching in cronsim.CronSim(self._expression, time):
            later = [instant for instant in self._instants(matching) if instant > after]
            if later:
                return min(later)
        return None

    def _instants(self, time: datetime.datetime) -> list[datetime.datetime]:
        """Return the instants of a local time: one, two, or none."""
        both = [time.replace(tzinfo=self._zone, fold=fold).astimezone(_UTC) for fold in (0, 1)]
        exists = both[0].astimezone(self._zone).replace(tzinfo=None, fold=0) == time
        if exists:
            return both if self._follows_the_clock else both[:1]
        if self._follows_the_clock:
            return []
        return [self._change_after(min(both), max(both) - min(both))]

    def _offset(self, local: datetime.datetime, fold: int) -> datetime.timedelta:
        return local.replace(fold=fold).utcoffset() or datetime.timedelta()

    def _change_after(self, after: datetime.datetime, within: datetime.timedelta) -> datetime.datetime:
        """Return the first instant, to the second, at which the zone's offset differs from the offset at `after`."""
        before = after.astimezone(self._zone).utcoffset()
        low, high = 0, int(within.total_seconds())
        while low + 1 < high:
            middle = (low + high) // 2
            at = (after + middle * _SECOND).astimezone(self._zone)
            low, high = (middle, high) if at.utcoffset() == before else (low, middle)
        return after + high * _SECOND


@lru_cache(1024)
def parse(expression: str, timezone: str) -> Cron:
    """Parse a cron expression of five fields, or six with seconds first. `timezone` is an IANA name."""
    if len(expression) > CRON_MAX:
        raise BadInput(f"A cron expression has at most {CRON_MAX} characters.")
    try:
        cronsim.CronSim(expression, datetime.datetime(2000, 1, 1))
    except (cronsim.CronSimError, AssertionError) as error:
        raise BadInput(
            f"{expression!r} is not a cron expression ({error}); write minute, hour, day, month and weekday, "
            "as in '30 2 * * MON-FRI'."
        ) from error
    return Cron(expression, _zone(timezone))


def _zone(name: str) -> zoneinfo.ZoneInfo:
    if not name or len(name) > TIMEZONE_MAX:
        raise BadInput("timezone must be the name of a time zone, such as Europe/Berlin or UTC.")
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise BadInput(f"{name!r} is not a time zone; write a name such as Europe/Berlin or UTC.") from error
