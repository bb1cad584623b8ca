"""windlass schedules: what fires when; run by hand, paused, removed. Programs make them (docs/schedules.md)."""

from __future__ import annotations

from collections.abc import Iterator

import click

from windlass.cli.blobs import as_text
from windlass.cli.bulk import ask, yes_option
from windlass.cli.connection import connected
from windlass.cli.output import (
    At,
    Column,
    block,
    fields,
    heading,
    json_document,
    json_line,
    json_option,
    say,
    table,
    title,
)
from windlass.cli.records import record
from windlass.core.ids import format_id
from windlass.core.scheduling.schedule import ScheduleStatus
from windlass.core.text import humanize
from windlass.core.text.durations import format_duration
from windlass.core.text.schedule_text import format_recurrence
from windlass.service import Service

COLUMNS = (
    Column("schedule", shrinks=16),
    Column("when", shrinks=14),
    Column("queue", rank=3, shrinks=10),
    Column("job", rank=1, shrinks=12),
    Column("next"),
    Column("last", rank=2),
    Column("fired", is_right=True, rank=4),
    Column("missed", is_right=True, rank=5),
)
name_argument = click.argument("name", metavar="SCHEDULE")


@click.group()
def schedules() -> None:
    """Look at schedules, run and pause them."""


@schedules.command("ls")
@json_option
@connected
def ls(service: Service, as_json: bool) -> None:
    """List schedules with their next and last occurrence.

    With --json, one object per line.

    \b
    Example:
      windlass schedules ls
    """
    now_ms = service.now().wait()
    found = service.schedules().wait()
    if as_json:
        for status in found:
            json_line(record(status))
    else:
        table(COLUMNS, (_row(status, now_ms) for status in found), empty="No schedules.")


def _row(status: ScheduleStatus, now_ms: int) -> tuple[object, ...]:
    schedule = status.schedule
    following = "paused" if status.is_paused else At(status.next_at_ms, now_ms) if status.next_at_ms else "over"
    last = At(status.last_fired_at_ms, now_ms)
    job = schedule.job
    return (schedule.name, format_recurrence(schedule), job.queue, job.name, following, last, status.fired, status.missed)


@schedules.command()
@name_argument
@json_option
@connected
def show(service: Service, name: str, as_json: bool) -> None:
    """Show a schedule and the job that it makes.

    \b
    Example:
      windlass schedules show nightly-report
    """
    status = service.schedule_of(name).wait()
    if as_json:
        json_document(record(status))
        return
    now_ms = service.now().wait()
    title(status.schedule.name, "paused" if status.is_paused else "", format_recurrence(status.schedule))
    heading("About")
    fields(_about(status, now_ms))
    heading("Job")
    job = status.schedule.job
    fields([("queue", job.queue), ("name", job.name), ("priority", job.priority), ("tags", ", ".join(job.tags))])
    heading("Payload")
    block(as_text(job.payload))


def _about(status: ScheduleStatus, now_ms: int) -> Iterator[tuple[str, object]]:
    schedule = status.schedule

    def at(at_ms: int | None) -> str:
        return humanize.humanize_instant(at_ms, now_ms) if at_ms else ""

    yield "paused", (status.pause_reason or "yes") if status.is_paused else ""
    yield "next", at(status.next_at_ms) or ("" if status.is_paused else "it is over")
    yield "last", at(status.last_fired_at_ms)
    yield "last job", format_id(status.last_job) if status.last_job else ""
    yield "fired", f"{status.fired:,} (skipped {status.skipped:,}, missed {status.missed:,})"
    yield "overlap", schedule.overlap
    yield "misfire", f"{schedule.misfire}, after {format_duration(schedule.misfire_after_ms)}"
    yield "starts", at(schedule.starts_at_ms)
    yield "ends", at(schedule.ends_at_ms)
    yield "created", at(status.created_at_ms)
    yield "revision", status.revision


@schedules.command()
@name_argument
@connected
def run(service: Service, name: str) -> None:
    """Make the job of a schedule now, and print its id.

    Its rhythm is not touched; it works while the schedule is paused, too.

    \b
    Example:
      windlass schedules run nightly-report
    """
    say(format_id(service.run_schedule(name).wait().id))


@schedules.command()
@name_argument
@click.option("--reason", default="", help="Shown with the schedule.")
@connected
def pause(service: Service, name: str, reason: str) -> None:
    """Let a schedule fire no more until it is resumed.

    \b
    Example:
      windlass schedules pause nightly-report --reason "year-end closing"
    """
    service.pause_schedule(name, reason=reason).wait()
    say(f"Schedule {name} is paused.")


@schedules.command()
@name_argument
@connected
def resume(service: Service, name: str) -> None:
    """Let a paused schedule go on.

    What came while it was paused is passed over.

    \b
    Example:
      windlass schedules resume nightly-report
    """
    status = service.resume_schedule(name).wait()
    at = (
        f": next {humanize.humanize_instant(status.next_at_ms, service.now().wait())}"
        if status.next_at_ms
        else ", but it is over"
    )
    say(f"Schedule {name} goes on{at}.")


@schedules.command()
@name_argument
@yes_option
@connected
def rm(service: Service, name: str, yes: bool) -> None:
    """Remove a schedule; the jobs that it made stay.

    \b
    Example:
      windlass schedules rm nightly-report --yes
    """
    service.schedule_of(name).wait()  # an unknown name is said before anybody is asked
    ask(f"Remove schedule {name} for good?", yes)
    service.unschedule(name).wait()
    say(f"Schedule {name} is gone.")
