"""windlass schedules add and edit: definitions of schedules from the command line."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click
from msgspec import structs

from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import CommandFunction, with_service
from windlass.cli.names.suggestions import note_misspelt_queue, note_unknown_task
from windlass.cli.output import print_fields, print_text
from windlass.cli.parameters import DURATION, DURATION_OR_FOREVER, INSTANT, PAYLOAD
from windlass.core.errors import BadInput, UnknownSchedule
from windlass.core.job import Blob, NewJob
from windlass.core.retry import Backoff
from windlass.core.scheduling.occurrences import first_at_ms, following_at_ms
from windlass.core.scheduling.schedule import Schedule, ScheduleStatus
from windlass.core.text import humanize
from windlass.core.text.durations import parse_duration_ms
from windlass.core.text.schedule_text import describe_recurrence
from windlass.core.validation.bounds import INT32_MAX, INT32_MIN, UINT32_MAX
from windlass.service import Service

SHOWN = 3  # occurrences
# The defaults of `windlass enqueue` and of tasks.
TRIES, TIMEOUT, KEEP_RESULT = 3, "15m", "1h"
_OPTIONS = (
    click.option("--cron", help="Cron expression of five fields, or six with seconds first, e.g. '30 2 * * MON-FRI'."),
    click.option("--zone", "timezone", help="Time zone of --cron, e.g. Europe/Berlin. Default: UTC."),
    click.option("--every", "every_ms", type=DURATION, help="Period instead of --cron, e.g. 10m."),
    click.option("--repeat", help="Rule instead of --cron, e.g. 'STARTED, +1 DAY' (docs/schedules.md)."),
    click.option("--queue", "-q", help="Queue of the jobs."),
    click.option("--job", "name", help="Name of the jobs: that of a task."),
    click.option("--payload", type=PAYLOAD, help="Payload as JSON; - reads standard input, @FILE a file."),
    click.option(
        "--priority", type=click.IntRange(INT32_MIN, INT32_MAX), metavar="N", help="Smaller numbers run first."
    ),
    click.option("--lane", help="Lane within the queue."),
    click.option("--unique", metavar="KEY", help="Create no job while a job with this key exists."),
    click.option("--tag", "tags", multiple=True, help="Tag of the jobs; repeatable."),
    click.option(
        "--tries", type=click.IntRange(0, UINT32_MAX), metavar="N", help=f"Maximum of attempts. Default: {TRIES}."
    ),
    click.option("--timeout", "timeout_ms", type=DURATION, help=f"Time limit of an attempt. Default: {TIMEOUT}."),
    click.option(
        "--keep-result",
        "result_ttl_ms",
        type=DURATION_OR_FOREVER,
        help=f"How long to keep results. Default: {KEEP_RESULT}.",
    ),
    click.option(
        "--overlap",
        type=click.Choice(["allow", "skip", "replace"]),
        help="What to do while an earlier job has not ended. Default: allow.",
    ),
    click.option(
        "--misfire",
        type=click.Choice(["all", "latest", "none"]),
        help="Which missed occurrences fire later. Default: latest.",
    ),
    click.option("--starts", "starts_at_ms", type=INSTANT, help="No occurrence before, e.g. 2027-01-31T10:30Z."),
    click.option("--ends", "ends_at_ms", type=INSTANT, help="No occurrence after."),
    click.option("--dry-run", is_flag=True, help="Show the next occurrences, and change nothing."),
)
_TIMING = ("cron", "timezone", "every_ms", "repeat", "overlap", "misfire", "starts_at_ms", "ends_at_ms")
_RECURRENCES = ("cron", "every_ms", "repeat")


def definition_options(command: CommandFunction) -> CommandFunction:
    """Add the options of a definition, as the argument `given`: only those that the person wrote."""

    @functools.wraps(command)
    def wrapper(service: Service, schedule_name: str, dry_run: bool, **options: Any) -> Any:
        given = {name: value for name, value in options.items() if value is not None and value != ()}
        return command(service, schedule_name, given=given, dry_run=dry_run)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), wrapper)


@click.command()
@click.argument("schedule_name", metavar="SCHEDULE")
@with_service
@accepted_yes_option
@definition_options
def add(service: Service, schedule_name: str, given: dict[str, Any], dry_run: bool) -> None:
    """Add a schedule, and print its next occurrences.

    Give --queue, --job, and one of --cron, --every and --repeat. A schedule in the code of an application is better
    declared there (docs/schedules.md).

    \b
    Example:
      windlass schedules add nightly --cron '30 2 * * MON-FRI' --zone Europe/Berlin --queue reports --job build
      windlass schedules add poll --every 10m --queue mail --job fetch --dry-run
    """
    if "queue" not in given or "name" not in given:
        raise click.UsageError("Give --queue and --job: where the jobs go, and what they are called.")
    if not any(field in given for field in _RECURRENCES):
        raise click.UsageError("Give one of --cron, --every and --repeat.")
    _refuse_existing(service, schedule_name)
    job = NewJob(
        queue=given["queue"],
        name=given["name"],
        payload=Blob(b"{}"),
        retry=Backoff(tries=TRIES),
        timeout_ms=parse_duration_ms(TIMEOUT),
        result_ttl_ms=parse_duration_ms(KEEP_RESULT),
    )
    wanted = _changed(Schedule(name=schedule_name, job=job), given)
    setting = service.schedule(wanted)  # validates it
    is_misspelt = note_misspelt_queue(service, wanted.job.queue)
    status = None if dry_run else setting.wait()
    _report(service, wanted, status, f"{'would be' if dry_run else 'is'} added")
    if not is_misspelt:
        note_unknown_task(service, wanted.job.queue, wanted.job.name)


def _refuse_existing(service: Service, name: str) -> None:
    try:
        service.schedule_of(name).wait()
    except UnknownSchedule:
        return
    raise BadInput(f"There is a schedule {name!r} already; `windlass schedules edit` changes it.")


@click.command()
@click.argument("schedule_name", metavar="SCHEDULE")
@with_service
@accepted_yes_option
@definition_options
def edit(service: Service, schedule_name: str, given: dict[str, Any], dry_run: bool) -> None:
    """Change a schedule: only what is given. Print its next occurrences.

    Nothing changes if another person changed the schedule at the same time. An application that declares the schedule
    sets its own definition again when it starts.

    \b
    Example:
      windlass schedules edit nightly --cron '0 3 * * *'
      windlass schedules edit nightly --priority -5 --overlap skip --dry-run
    """
    if not given:
        raise click.UsageError(
            "Give at least one change, e.g. --cron '0 3 * * *'; `schedules show` shows the schedule."
        )
    status = service.schedule_of(schedule_name).wait()
    wanted = _changed(status.schedule, given)
    setting = service.schedule(wanted, if_revision=status.revision)  # validates it
    _report(service, wanted, status if dry_run else setting.wait(), f"{'would be' if dry_run else 'is'} changed")
    if ("queue" in given and note_misspelt_queue(service, wanted.job.queue)) or "name" not in given:
        return
    note_unknown_task(service, wanted.job.queue, wanted.job.name)


def _changed(schedule: Schedule, given: dict[str, Any]) -> Schedule:
    """Return the schedule with the given fields. A new recurrence replaces the one before."""
    timing = {field: given[field] for field in _TIMING if field in given}
    recurrences = [field for field in _RECURRENCES if given.get(field)]
    if len(recurrences) > 1:
        raise click.UsageError("Give one of --cron, --every and --repeat.")
    if recurrences:
        timing = {"cron": "", "every_ms": 0, "repeat": ""} | timing
        if recurrences != ["cron"]:
            timing = {"timezone": "UTC"} | timing
    job = {field: value for field, value in given.items() if field not in _TIMING}
    if "tries" in job:
        job["retry"] = structs.replace(schedule.job.retry, tries=job.pop("tries"))
    return structs.replace(schedule, job=structs.replace(schedule.job, **job), **timing)


def _report(service: Service, schedule: Schedule, known: ScheduleStatus | None, what: str) -> None:
    """Print the schedule in words, and its next occurrences. `known`: the status that has its next occurrence, if its
    recurrence stays."""
    now_ms = service.now().wait()
    stays = known is not None and schedule.has_same_recurrence(known.schedule)
    first = known.planned_at_ms if known is not None and stays else first_at_ms(schedule, now_ms)
    instants = [humanize.humanize_instant(at_ms, now_ms) for at_ms in islice(_occurrences(schedule, first), SHOWN)]
    if not instants:
        raise BadInput("This schedule would never fire: check its recurrence, --starts and --ends.")
    paused = "; it is paused" if known is not None and known.is_paused else ""
    print_text(f"Schedule {schedule.name} {what}: {describe_recurrence(schedule)}{paused}.")
    print_fields([("next" if number == 0 else "then", at) for number, at in enumerate(instants)])


def _occurrences(schedule: Schedule, first: int | None) -> Iterator[int]:
    at_ms = first
    while at_ms is not None:
        yield at_ms
        at_ms = following_at_ms(schedule, at_ms, at_ms)


COMMANDS = (add, edit)
