"""Details of one task, for `tasks show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from windlass.cli.output import (
    Column,
    InstantCell,
    format_brief,
    format_count,
    format_distance,
    print_fields,
    print_heading,
    print_note,
    print_table,
    print_title,
)
from windlass.core.ids import format_id
from windlass.core.stats.task_figures import TaskPage
from windlass.core.text.similar_names import describe_missing_task

WindowName: TypeAlias = Literal["15m", "1h", "1d"]
GROUPS_SHOWN = 10
GROUP_COLUMNS = (
    Column("jobs", is_right=True),
    Column("queue", rank=2, shrinks=10),
    Column("last", rank=1),
    Column("newest job", rank=3),
    Column("error", shrinks=30),
)


class Window(NamedTuple):
    title: str
    step_minutes: int
    steps: int


WINDOWS: dict[WindowName, Window] = {
    "15m": Window("the last 15 minutes", 1, 15),
    "1h": Window("the last hour", 1, 60),
    "1d": Window("the last day", 15, 96),
}


def show(page: TaskPage, window: Window) -> None:
    if not page.is_known:
        print_note(describe_missing_task("No worker has a", page.name, page.suggestion))
        return
    print_title(page.name, "")
    print_fields(_place_fields(page))
    print_heading(f"In {window.title}, measured by workers of the SDK")
    print_fields(_figure_fields(page, window))
    print_heading("Failed jobs that are kept")
    rows = (
        (
            group.count,
            group.queue,
            InstantCell(group.last_at_ms, page.at_ms),
            format_id(group.sample),
            group.sample_error,
        )
        for group in page.failures[:GROUPS_SHOWN]
    )
    print_table(GROUP_COLUMNS, rows, empty="None.")
    if not page.has_all_failures:
        print_note(f"Only the newest {format_count(page.failures_looked_at, 'failed job')} of this task were examined.")


def _place_fields(page: TaskPage) -> Iterator[tuple[str, object]]:
    yield "queues", ", ".join(page.queues)
    yield "workers", ", ".join(worker.name or worker.host or format_id(worker.id) for worker in page.workers) or "none"
    yield "reported", format_distance(page.reported_at_ms, page.at_ms) if page.reported_at_ms else "never"


def _figure_fields(page: TaskPage, window: Window) -> Iterator[tuple[str, object]]:
    figures, minutes = page.figures, window.step_minutes * window.steps
    yield "finished", f"{figures.finished:,}, {figures.finished / minutes:.1f} per minute"
    attempts = figures.failed_attempts
    yield (
        "failed attempts",
        f"{attempts:,}, {attempts / minutes:.1f} per minute; {figures.retried:,} of them are retried",
    )
    yield "cancelled", f"{figures.cancelled:,}" if figures.cancelled else ""
    for title, run_ms in (("p50", figures.run_p50_ms), ("p95", figures.run_p95_ms), ("p99", figures.run_p99_ms)):
        yield f"run time {title}", "" if run_ms is None else format_brief(run_ms)
