"""Filters of job lists, read from and written to the address of the page, so that an address can be shared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.core.errors import BadInput
from windlass.core.operations import Listing
from windlass.core.text.durations import INSTANT_MAX, parse_duration_ms
from windlass.core.text.name_patterns import name_pattern
from windlass.core.validation.listings import ALL

LISTS = ("queued", "running", "scheduled", "suspended", "waiting", "failed", "finished", "cancelled", "history")
ENDED_LISTS = ("failed", "finished", "cancelled", "history")
WITH_ERRORS = ("failed", "cancelled", "scheduled", "")
ROWS = 50
TRAIL_MAX = 12  # pages that "back" can return to one by one; then the first page
TRAIL_LENGTH_MAX = 4_000  # characters of an address
_SEPARATOR = "~"  # in no cursor


class ListFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Query parameters of a job list."""

    state: str = ""
    queue: str = ""
    name: str = ""
    tag: str = ""
    where: str = ""  # value of an indexed payload field: field=value
    error: str = ""
    shape: str = ""  # of errors, as the failures page groups them
    since: str = ""
    before: str = ""
    text: str = ""  # in the payload

    @property
    def list_name(self) -> str:
        """Name of the list; empty: all states, which only a tag, a payload field or a text can select."""
        if self.state and self.state not in LISTS:
            raise BadInput(f"The list {self.state!r} does not exist. Use one of {', '.join(LISTS)}.")
        return self.state or ("" if self.is_by_label or self.text else "queued")

    @property
    def is_by_label(self) -> bool:
        """Whether the list is that of a tag or of a payload field, over all states."""
        return bool(self.tag or self.where)

    @property
    def is_narrow(self) -> bool:
        return bool(self.queue) or not self.has_known_count

    @property
    def has_known_count(self) -> bool:
        """Whether at most a queue narrows the list: the number of its jobs is then known."""
        return not any((self.name, self.tag, self.where, self.error, self.shape, self.since, self.before, self.text))

    @property
    def fields(self) -> dict[str, str]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value and name in _FIELDS}

    def time_bounds(self, now_ms: int) -> dict[str, Any]:
        """Return the time bounds of the listing. Lists of ended jobs are ordered by their end, others by creation."""
        since_ms, before_ms = (_parse_time_ms(text, now_ms) for text in (self.since, self.before))
        prefix = "ended" if self.list_name in ENDED_LISTS else "created"
        return {f"{prefix}_from_ms": since_ms, f"{prefix}_before_ms": before_ms}

    def listing(self, now_ms: int) -> Listing:
        return Listing(
            queue=self.queue.strip(),
            state=self.list_name or ("" if self.is_by_label else ALL),
            tag=self.tag.strip(),
            where=(self.where.strip(),) if self.where.strip() else (),
            name=name_pattern(self.name),
            error=self.error.strip(),
            error_shape=self.shape,
            with_errors=self.list_name in WITH_ERRORS,
            newest_first=self.list_name in ENDED_LISTS or not self.list_name,
            most=ROWS,
            text=self.text.strip(),
            **self.time_bounds(now_ms),
        )


_FIELDS = ListFilter.__struct_fields__


class JobsQuery(ListFilter, frozen=True, kw_only=True):
    """Filters, order and position of a job list."""

    order: str = ""  # newest, oldest; empty: the default of the list
    cursor: str = ""
    trail: str = ""  # cursors of the previous pages, oldest first

    @property
    def is_newest_first(self) -> bool:
        return self.order == "newest" or (not self.order and (self.list_name in ENDED_LISTS or not self.list_name))

    @property
    def pages_before(self) -> list[str]:
        return self.trail.split(_SEPARATOR) if self.trail else []

    def next_page(self, cursor: str) -> dict[str, Any]:
        """Return the query of the next page. In the trail, `-` stands for the first page, which has no cursor."""
        before = [*self.pages_before, self.cursor or "-"][-TRAIL_MAX:]
        while sum(map(len, before)) > TRAIL_LENGTH_MAX:
            before.pop(0)
        return {**self.fields, "order": self.order, "cursor": cursor, "trail": _SEPARATOR.join(before)}

    def previous_page(self) -> dict[str, Any]:
        *before, last = self.pages_before
        cursor = "" if last == "-" else last
        return {**self.fields, "order": self.order, "cursor": cursor, "trail": _SEPARATOR.join(before)}


def exact_name(name: str) -> str:
    return f"={name}"


def _parse_time_ms(text: str, now_ms: int) -> int:
    """Parse a duration before now (1h) or an instant."""
    text = text.strip()
    if not text:
        return 0
    try:
        return max(1, now_ms - parse_duration_ms(text))
    except BadInput:
        return parse_instant_ms(text)


def parse_instant_ms(text: str) -> int:
    """Parse an ISO instant. Without an offset it is UTC."""
    try:
        at = datetime.fromisoformat(text)
        at_ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{text!r} is not a time; write 30m, 6h or 7d, or 2026-01-31 08:00 (UTC).") from error
    return min(max(at_ms, 1), INSTANT_MAX)
