"""windlass schedules: list, show, run, pause, resume and remove schedules; definitions.py adds and changes them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from windlass.cli.blobs import blob_text
from windlass.cli.bulk import accepted_yes_option, confirm, yes_option
from windlass.cli.commands.schedules import definitions
from windlass.cli.connection import with_service
from windlass.cli.output import (
    Column,
    InstantCell,
    json_option,
    print_block,
    print_fields,
    print_heading,
    print_json,
    print_json_line,
    print_table,
    print_text,
    print_title,
)
from windlass.cli.records import to_record
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
    """Show, add, run and pause schedules."""


for _command in definitions.COMMANDS:
    schedules.add_command(_command)


@schedules.command("ls")
@json_option
@with_service
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
            print_json_line(to_record(status))
    else:
        print_table(COLUMNS, (_row(status, now_ms) for status in found), empty="No schedules.")


def _row(status: ScheduleStatus, now_ms: int) -> tuple[object, ...]:
    schedule = status.schedule
    following = (
        "paused" if status.is_paused else InstantCell(status.next_at_ms, now_ms) if status.next_at_ms else "over"
    )
    last = InstantCell(status.last_fired_at_ms, now_ms)
    job = schedule.job
    return (
        schedule.name,
        format_recurrence(schedule),
        job.queue,
        job.name,
        following,
        last,
        status.fired,
        status.missed,
    )


@schedules.command()
@name_argument
@json_option
@with_service
def show(service: Service, name: str, as_json: bool) -> None:
    """Show a schedule and the job that it creates.

    \b
    Example:
      windlass schedules show nightly-report
    """
    status = service.schedule_of(name).wait()
    if as_json:
        print_json(to_record(status))
        return
    now_ms = service.now().wait()
    print_title(status.schedule.name, "paused" if status.is_paused else "", format_recurrence(status.schedule))
    print_heading("About")
    print_fields(_property_fields(status, now_ms))
    print_heading("Job")
    job = status.schedule.job
    print_fields([("queue", job.queue), ("name", job.name), ("priority", job.priority), ("tags", ", ".join(job.tags))])
    print_heading("Payload")
    print_block(blob_text(job.payload))


def _property_fields(status: ScheduleStatus, now_ms: int) -> Iterator[tuple[str, object]]:
    schedule = status.schedule

    def at(at_ms: int | None) -> str:
        return humanize.humanize_instant(at_ms, now_ms) if at_ms else ""

    yield "paused", (status.pause_reason or "yes") if status.is_paused else ""
    yield "next", at(status.next_at_ms) or ("" if status.is_paused else "none, the schedule has ended")
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
@accepted_yes_option
@with_service
def run(service: Service, name: str) -> None:
    """Create a job of a schedule now, and print its id.

    The next occurrence does not change. This also works while the schedule is paused.

    \b
    Example:
      windlass schedules run nightly-report
    """
    print_text(format_id(service.run_schedule(name).wait().id))


@schedules.command()
@name_argument
@click.option("--reason", default="", help="Shown with the schedule.")
@accepted_yes_option
@with_service
def pause(service: Service, name: str, reason: str) -> None:
    """Pause a schedule until it is resumed.

    \b
    Example:
      windlass schedules pause nightly-report --reason "year-end closing"
    """
    service.pause_schedule(name, reason=reason).wait()
    print_text(f"Schedule {name} is paused.")


@schedules.command()
@name_argument
@accepted_yes_option
@with_service
def resume(service: Service, name: str) -> None:
    """Resume a paused schedule.

    Occurrences during the pause are skipped.

    \b
    Example:
      windlass schedules resume nightly-report
    """
    status = service.resume_schedule(name).wait()
    at = (
        f": next {humanize.humanize_instant(status.next_at_ms, service.now().wait())}"
        if status.next_at_ms
        else ", but has ended"
    )
    print_text(f"Schedule {name} is resumed{at}.")


@schedules.command()
@name_argument
@yes_option
@with_service
def rm(service: Service, name: str, yes: bool) -> None:
    """Remove a schedule. The jobs that it created are kept.

    \b
    Example:
      windlass schedules rm nightly-report --yes
    """
    service.schedule_of(name).wait()  # report an unknown name before the confirmation
    confirm(f"Remove schedule {name} permanently?", yes)
    service.unschedule(name).wait()
    print_text(f"Schedule {name} is removed.")
