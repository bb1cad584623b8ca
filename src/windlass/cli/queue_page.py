"""Details of one queue, for `queues show`, and the note about a queue that does not exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windlass.core.explain.unknown_names import UnknownName
from windlass.core.limits.limit import LimitState
from windlass.core.queue import FOREVER_MS, Configuration, Minute, Pause, QueueStats, default_configuration
from windlass.core.text import humanize, limit_text
from windlass.core.text.durations import format_duration
from windlass.service import Service

from .output import format_brief, format_count, print_fields, print_heading, print_text, print_title

COUNTS = ("queued", "scheduled", "waiting", "suspended", "running", "failed", "cancelled", "finished", "history")
COUNTERS = ("enqueued", "taken", "finished", "failed", "retried", "cancelled", "recovered")
MINUTE_MS = 60_000


class Rates(NamedTuple):
    """Rates per minute, over the last sixty seconds."""

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
    unknown_names: list[UnknownName]


def read(service: Service, queue: str) -> QueuePage:
    (stats,) = service.stats([queue]).wait()
    minutes = service.history(queue).wait()
    now_ms = service.now().wait()
    return QueuePage(
        now_ms,
        stats,
        compute_rates(minutes, now_ms)._asdict(),
        {counter: sum(getattr(minute, counter) for minute in minutes) for counter in (*COUNTERS, "wait_ms", "run_ms")},
        service.pauses(queue).wait(),
        service.configuration(queue).wait(),
        service.set_weights(queue, {}).wait(),
        [state for state in service.limits().wait() if state.limit.matches.may_match_queue(queue)],
        service.unknown_names(queue).wait(),
    )


def compute_rates(minutes: Sequence[Minute], now_ms: int) -> Rates:
    """Compute rates over the last sixty seconds from counters per minute: the current minute, and a share of the
    previous minute."""
    this_ms = now_ms - now_ms % MINUTE_MS
    share = 1 - (now_ms - this_ms) / MINUTE_MS
    by_start = {minute.at_ms: minute for minute in minutes}
    nothing = Minute(at_ms=0)
    now, before = by_start.get(this_ms, nothing), by_start.get(this_ms - MINUTE_MS, nothing)
    return Rates(*(round(getattr(now, counter) + share * getattr(before, counter), 1) for counter in COUNTERS))


def show(page: QueuePage) -> None:
    stats = page.stats
    print_title(stats.queue, "paused" if stats.is_paused else "")
    for unknown in page.unknown_names:
        print_text(unknown.sentence)
    print_heading("Counts")
    print_fields(_count_fields(stats, page.now_ms))
    print_heading("Per minute, and in the last hour")
    print_fields((counter, f"{page.rates_per_minute[counter]:g}, {page.last_hour[counter]:,}") for counter in COUNTERS)
    print_fields(_mean_fields(page.last_hour))
    if page.pauses:
        print_heading("Paused")
        print_fields((_pause_target(pause), _describe_pause(pause, page.now_ms)) for pause in page.pauses)
    print_heading("Properties")
    print_fields(property_fields(page.stats.queue, page.configuration))
    print_fields((f"weight of {lane}", weight) for lane, weight in page.weights.items())
    if page.limits:
        print_heading("Limits")
        print_fields(
            (
                state.limit.name,
                f"{limit_text.describe_cap(state.limit)}, of {limit_text.describe_matcher(state.limit.matches)}",
            )
            for state in page.limits
        )


def _count_fields(stats: QueueStats, now_ms: int) -> Iterator[tuple[str, object]]:
    for count in COUNTS:
        later = f", and {format_count(stats.consequences, 'later step')} because of them" if stats.consequences else ""
        yield count, f"{stats.failures:,}{later}" if count == "failed" else f"{getattr(stats, count):,}"
    yield "bytes", f"{stats.bytes:,}"
    yield "oldest", "" if stats.oldest_age_ms is None else f"waiting for {format_brief(stats.oldest_age_ms)}"
    yield "next due", humanize.humanize_instant(stats.next_due_at_ms, now_ms) if stats.next_due_at_ms else ""
    yield "takers waiting", f"{stats.waiting_takers:,}"
    yield "lanes", f"{stats.lanes:,}" if stats.lanes else ""
    yield "lanes held back", f"{stats.blocked_lanes:,}" if stats.blocked_lanes else ""


def _mean_fields(last_hour: dict[str, int]) -> Iterator[tuple[str, object]]:
    taken, finished = last_hour["taken"], last_hour["finished"]
    yield "mean wait", format_brief(last_hour["wait_ms"] // taken) if taken else ""
    yield "mean run", format_brief(last_hour["run_ms"] // finished) if finished else ""


def _pause_target(pause: Pause) -> str:
    return f"lane {pause.lane}" if pause.lane else f"name {pause.name}" if pause.name else "the queue"


def _describe_pause(pause: Pause, now_ms: int) -> str:
    reason = f": {pause.reason}" if pause.reason else ""
    return f"since {humanize.humanize_since(pause.since_ms, now_ms)}{reason}"


def property_fields(queue: str, configuration: Configuration) -> Iterator[tuple[str, object]]:
    """Yield the properties as text, with a star if a value is not the default."""
    defaults = default_configuration(queue)
    for field in configuration.__struct_fields__:
        value = getattr(configuration, field)
        star = "" if value == getattr(defaults, field) else " *"
        yield field.removesuffix("_ms").replace("_", "-"), f"{_format_property(field, value)}{star}"


def _format_property(field: str, value: int | bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith("_ms"):
        return "forever" if value == FOREVER_MS else format_duration(value) if value else "none"
    return "no limit" if value == 0 and field.startswith("max") else f"{value:,}"
