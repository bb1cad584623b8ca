"""Which jobs a list shows: what stands in its address, read and written. An address can be shared: it says all."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from windlass.core.errors import BadInput
from windlass.core.operations import Listing
from windlass.core.text.durations import INSTANT_MAX, parse_duration_ms

LISTS = ("queued", "running", "scheduled", "waiting", "failed", "finished", "cancelled", "history")
ENDED_LISTS = ("failed", "finished", "cancelled", "history")
WITH_ERRORS = ("failed", "cancelled", "scheduled", "")
ROWS = 50
TRAIL_MAX = 12  # pages that can be gone back one by one; then to the first
_BETWEEN = "~"  # in no cursor
_SPECIAL = re.compile(r"[*?\[]")


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Field by field what stands behind the question mark."""

    state: str = ""
    queue: str = ""
    name: str = ""
    tag: str = ""
    error: str = ""
    shape: str = ""  # of errors, as the page of failures groups them
    since: str = ""
    before: str = ""

    @property
    def listed(self) -> str:
        """A tag goes over all states; else there is one."""
        if self.state and self.state not in LISTS:
            raise BadInput(f"There is no list {self.state!r}; there are {', '.join(LISTS)}.")
        return self.state or ("" if self.tag else "queued")

    @property
    def is_narrow(self) -> bool:
        return any((self.queue, self.name, self.tag, self.error, self.shape, self.since, self.before))

    @property
    def is_plain(self) -> bool:
        """Nothing but a queue narrows it: how many there are is known."""
        return not any((self.name, self.tag, self.error, self.shape, self.since, self.before))

    @property
    def fields(self) -> dict[str, str]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value and name in _FIELDS}

    def times(self, now_ms: int) -> dict[str, Any]:
        """By the time of the end in lists of what has ended: they are in that order."""
        since_ms, before_ms = (_parse_time_ms(text, now_ms) for text in (self.since, self.before))
        what = "ended" if self.listed in ENDED_LISTS else "created"
        return {f"{what}_from_ms": since_ms, f"{what}_before_ms": before_ms}

    def listing(self, now_ms: int) -> Listing:
        return Listing(
            queue=self.queue.strip(),
            state=self.listed,
            tag=self.tag.strip(),
            name=name_pattern(self.name),
            error=self.error.strip(),
            error_shape=self.shape,
            with_errors=self.listed in WITH_ERRORS,
            newest_first=self.listed in ENDED_LISTS or not self.listed,
            most=ROWS,
            **self.times(now_ms),
        )


_FIELDS = JobFilter.__struct_fields__


class JobsQuery(JobFilter, frozen=True, kw_only=True):
    """... and the page of the list."""

    order: str = ""  # newest, oldest; empty: as the list is
    cursor: str = ""
    trail: str = ""  # the cursors of the pages before, oldest first

    @property
    def is_newest_first(self) -> bool:
        return self.order == "newest" or (not self.order and (self.listed in ENDED_LISTS or not self.listed))

    @property
    def pages_before(self) -> list[str]:
        return self.trail.split(_BETWEEN) if self.trail else []

    def next_page(self, cursor: str) -> dict[str, Any]:
        """What the address of the next page says; `-` stands for the first page, which has no cursor."""
        before = [*self.pages_before, self.cursor or "-"][-TRAIL_MAX:]
        return {**self.fields, "order": self.order, "cursor": cursor, "trail": _BETWEEN.join(before)}

    def previous_page(self) -> dict[str, Any]:
        *before, last = self.pages_before
        cursor = "" if last == "-" else last
        return {**self.fields, "order": self.order, "cursor": cursor, "trail": _BETWEEN.join(before)}


def name_pattern(text: str) -> str:
    """A name as people type it: a part of it is enough, * and ? are as in GLOB, = means exactly this one."""
    text = text.strip()
    if text.startswith("="):
        return _SPECIAL.sub(r"[\g<0>]", text[1:])
    return text if not text or _SPECIAL.search(text) else f"*{text}*"


def exact_name(name: str) -> str:
    return f"={name}"


def _parse_time_ms(text: str, now_ms: int) -> int:
    """1h (ago), or an instant."""
    text = text.strip()
    if not text:
        return 0
    try:
        return max(1, now_ms - parse_duration_ms(text))
    except BadInput:
        return parse_instant_ms(text)


def parse_instant_ms(text: str) -> int:
    """Without an offset it is UTC."""
    try:
        at = datetime.fromisoformat(text)
        at_ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{text!r} is no time; write 30m, 6h or 7d, or 2026-01-31 08:00 (UTC).") from error
    return min(max(at_ms, 1), INSTANT_MAX)
