"""All that is known of one queue, read together and shown on one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windlass.core.limits.limit import LimitState
from windlass.core.queue import FOREVER_MS, Configuration, Minute, Pause, QueueStats
from windlass.core.text import humanize, limit_text
from windlass.core.text.durations import format_duration
from windlass.service import Service

from .output import brief, fields, heading, title

COUNTS = ("queued", "scheduled", "waiting", "running", "failed", "cancelled", "finished", "history")
HAPPENED = ("enqueued", "taken", "finished", "failed", "retried", "cancelled", "recovered")
MINUTE_MS = 60_000


class Rates(NamedTuple):
    """Per minute, over the last sixty seconds."""

    enqueued: float
    taken: float
    finished: float
    failed: float
    retried: float
    cancelled: float
    recovered: float


class QueuePage(NamedTuple):
    now_ms: int
    stats: QueueStats
    rates_per_minute: dict[str, float]
    last_hour: dict[str, int]
    pauses: list[Pause]
    configuration: Configuration
    weights: dict[str, int]
    limits: list[LimitState]


def read(service: Service, queue: str) -> QueuePage:
    (stats,) = service.stats([queue]).wait()
    minutes = service.history(queue).wait()
    now_ms = service.now().wait()
    return QueuePage(
        now_ms,
        stats,
        rates(minutes, now_ms)._asdict(),
        {what: sum(getattr(one, what) for one in minutes) for what in (*HAPPENED, "wait_ms", "run_ms")},
        service.pauses(queue).wait(),
        service.configuration(queue).wait(),
        service.set_weights(queue, {}).wait(),
        [one for one in service.limits().wait() if one.limit.matches.queue in ("", queue)],
    )


def rates(minutes: Sequence[Minute], now_ms: int) -> Rates:
    """What is counted by the minute, as of the last sixty seconds: this minute, and its share of the one before."""
    this_ms = now_ms - now_ms % MINUTE_MS
    share = 1 - (now_ms - this_ms) / MINUTE_MS
    by_start = {one.at_ms: one for one in minutes}
    nothing = Minute(at_ms=0)
    now, before = by_start.get(this_ms, nothing), by_start.get(this_ms - MINUTE_MS, nothing)
    return Rates(*(round(getattr(now, what) + share * getattr(before, what), 1) for what in HAPPENED))


def show(page: QueuePage) -> None:
    stats = page.stats
    title(stats.queue, "paused" if stats.is_paused else "")
    heading("Holds")
    fields(_holds(stats, page.now_ms))
    heading("Per minute, and in the last hour")
    fields((what, f"{page.rates_per_minute[what]:g}, {page.last_hour[what]:,}") for what in HAPPENED)
    fields(_means(page.last_hour))
    if page.pauses:
        heading("Paused")
        fields((_paused(one), _since(one, page.now_ms)) for one in page.pauses)
    heading("Properties")
    fields(properties(page.configuration))
    fields((f"weight of {lane}", weight) for lane, weight in page.weights.items())
    if page.limits:
        heading("Limits")
        fields(
            (one.limit.name, f"{limit_text.describe_cap(one.limit)}, of {limit_text.describe_matcher(one.limit.matches)}")
            for one in page.limits
        )


def _holds(stats: QueueStats, now_ms: int) -> Iterator[tuple[str, object]]:
    for what in COUNTS:
        yield what, f"{getattr(stats, what):,}"
    yield "bytes", f"{stats.bytes:,}"
    yield "oldest", "" if stats.oldest_age_ms is None else f"waits for {brief(stats.oldest_age_ms)}"
    yield "next due", humanize.humanize_instant(stats.next_due_at_ms, now_ms) if stats.next_due_at_ms else ""
    yield "takers waiting", f"{stats.waiting_takers:,}"
    yield "lanes", f"{stats.lanes:,}" if stats.lanes else ""
    yield "lanes held back", f"{stats.blocked_lanes:,}" if stats.blocked_lanes else ""


def _means(last_hour: dict[str, int]) -> Iterator[tuple[str, object]]:
    taken, finished = last_hour["taken"], last_hour["finished"]
    yield "mean wait", brief(last_hour["wait_ms"] // taken) if taken else ""
    yield "mean run", brief(last_hour["run_ms"] // finished) if finished else ""


def _paused(pause: Pause) -> str:
    return f"lane {pause.lane}" if pause.lane else f"name {pause.name}" if pause.name else "the queue"


def _since(pause: Pause, now_ms: int) -> str:
    reason = f": {pause.reason}" if pause.reason else ""
    return f"since {humanize.humanize_since(pause.since_ms, now_ms)}{reason}"


def properties(configuration: Configuration) -> Iterator[tuple[str, object]]:
    """Each as it is written, with a star when it is not the default."""
    usual = Configuration()
    for field in configuration.__struct_fields__:
        value = getattr(configuration, field)
        star = "" if value == getattr(usual, field) else " *"
        yield field.removesuffix("_ms").replace("_", "-"), f"{_property(field, value)}{star}"


def _property(field: str, value: int | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith("_ms"):
        return "for ever" if value == FOREVER_MS else format_duration(value) if value else "none"
    return "no bound" if value == 0 and field.startswith("max") else f"{value:,}"
