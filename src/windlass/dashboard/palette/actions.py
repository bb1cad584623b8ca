"""Actions of the palette: forms of the dashboard that a few typed words find. A role that may not send a form does not
get it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from windlass.core.queue import QueueStats
from windlass.core.scheduling.schedule import ScheduleStatus
from windlass.dashboard.page_context import PageContext

from .entries import Entry
from .snapshot import Snapshot


def actions(page: PageContext[Any], snapshot: Snapshot) -> Iterator[Entry]:
    if page.may("produce"):
        yield Entry(kind="Action", title="Enqueue a job", icon="add", href=page.link("jobs", "new"), words="new")
    for name, stats in snapshot.stats.items():
        if page.may_use(name):
            yield from _of_queue(page, name, stats)
    if page.may("admin"):
        if not page.principal.queues:
            yield Entry(kind="Action", title="New schedule", icon="add", href=page.link("new-schedule"), words="create")
        for status in snapshot.schedules:
            yield from _of_schedule(page, status)


def _of_queue(page: PageContext[Any], name: str, stats: QueueStats) -> Iterator[Entry]:
    if page.may("produce"):
        yield Entry(
            kind="Action",
            title=f"Enqueue a job in {name}",
            icon="add",
            href=page.link("jobs", "new", queue=name),
            words="new",
        )
    if not page.may("admin"):
        return
    verb, title, icon = ("resume-queue", "Resume", "resume") if stats.is_paused else ("pause-queue", "Pause", "pause")
    yield _form(page, f"{title} the queue {name}", icon, verb, queue=name)
    if stats.failed:
        title = f"Retry {stats.failed:,} failed job{'' if stats.failed == 1 else 's'} of {name}"
        yield _form(page, title, "retry", "retry-matching", state="failed", queue=name)


def _of_schedule(page: PageContext[Any], status: ScheduleStatus) -> Iterator[Entry]:
    name = status.schedule.name
    if not page.may_use(status.schedule.job.queue):
        return
    yield _form(page, f"Run the schedule {name} now", "schedules", "run-schedule", name=name)
    if not status.is_paused:
        yield _form(page, f"Pause the schedule {name}", "pause", "pause-schedule", name=name)
    else:
        yield _form(page, f"Resume the schedule {name}", "resume", "resume-schedule", name=name)


def _form(page: PageContext[Any], title: str, icon: str, verb: str, **fields: str) -> Entry:
    return Entry(kind="Action", title=title, icon=icon, action=page.action_path(verb), fields=fields)
