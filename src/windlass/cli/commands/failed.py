"""windlass failed: search failed jobs by their errors; retry or delete them together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import click

from windlass.cli.bulk import batches, confirm, progress, run_in_batches, yes_option
from windlass.cli.connection import CommandFunction, with_service
from windlass.cli.job_selection import JobSelection, find, with_errors
from windlass.cli.names.suggestions import note_missing_queue
from windlass.cli.output import (
    ID,
    Column,
    InstantCell,
    format_count,
    json_option,
    limit_option,
    print_json_line,
    print_note,
    print_table,
)
from windlass.cli.parameters import DURATION_OR_INSTANT, DurationOrInstant
from windlass.cli.records import to_record
from windlass.core.errors import Refusal
from windlass.core.job import Job
from windlass.core.stats.failure_groups import LOOKED_AT_MAX, FailureGroup, Failures
from windlass.service import Service

READ_AT_ONCE = 100
COLUMNS = (
    ID,
    Column("queue", rank=2, shrinks=10),
    Column("name", rank=1, shrinks=12),
    Column("attempt", is_right=True, rank=4),
    Column("failed", rank=3),
    Column("error", shrinks=30),
)


GROUP_COLUMNS = (
    Column("jobs", is_right=True),
    Column("queue", rank=2, shrinks=10),
    Column("name", rank=1, shrinks=12),
    Column("last", rank=3),
    Column("error", shrinks=30),
    Column("later steps", is_right=True, rank=4),
)


class FailedFilter(NamedTuple):
    """Filters of failed jobs. Empty fields match every job."""

    queues: tuple[str, ...]
    name: str
    error: str
    since: DurationOrInstant | None

    @property
    def is_everything(self) -> bool:
        return self == FailedFilter((), "", "", None)

    def describe(self) -> str:
        parts = [f"of queue {', '.join(self.queues)}" if self.queues else ""]
        parts += [f"named {self.name}" if self.name else "", f"with the error {self.error!r}" if self.error else ""]
        return " ".join(["", *filter(None, parts)])


def filter_options(command: CommandFunction) -> CommandFunction:
    @functools.wraps(command)
    def wrapper(
        *args: Any, queues: tuple[str, ...], name: str, error: str, since: DurationOrInstant | None, **rest: Any
    ) -> Any:
        return command(*args, job_filter=FailedFilter(queues, name, error, since), **rest)

    filtered: CommandFunction = wrapper
    for option in reversed(_FILTERS):
        filtered = option(filtered)
    return filtered


_FILTERS: tuple[Callable[[CommandFunction], CommandFunction], ...] = (
    click.option("--queue", "-q", "queues", multiple=True, help="Queue of the jobs; repeatable. Default: all."),
    click.option("--name", default="", metavar="GLOB", help="Pattern of the job name, e.g. 'send_*'."),
    click.option("--error", default="", metavar="TEXT", help="Text in the last error; case is ignored."),
    click.option("--since", type=DURATION_OR_INSTANT, help="Failed since, e.g. 1h or 2027-01-31T10:30Z."),
)


@click.group()
def failed() -> None:
    """Find failed jobs; retry or delete them."""


class _Skipper:
    """Filter of jobs that failed only because of another job. It remembers whether there was one."""

    def __init__(self) -> None:
        self.has_skipped = False

    def skip_consequences(self, found: Iterator[tuple[Job, str]]) -> Iterator[tuple[Job, str]]:
        for job, error in found:
            if job.is_consequence:
                self.has_skipped = True
            else:
                yield job, error


@failed.command("ls")
@filter_options
@click.option("--later", is_flag=True, help="Also list later steps, which failed only because of another job.")
@limit_option
@json_option
@with_service
def ls(service: Service, job_filter: FailedFilter, later: bool, limit: int, as_json: bool) -> None:
    """List failed jobs with their errors.

    Newest first within each queue. With --json, one object per line.

    \b
    Example:
      windlass failed ls --queue mail --error timeout --since 1h
    """
    for queue in job_filter.queues:
        note_missing_queue(service, queue)
    now_ms = service.now().wait()
    skipper = _Skipper()
    found = search(service, job_filter)
    found = found if later else skipper.skip_consequences(found)
    shown = islice(found, limit) if limit else found
    if as_json:
        for job, error in shown:
            print_json_line(to_record(job) | {"error": error})
    else:
        print_table(COLUMNS, (_row(job, error, now_ms) for job, error in shown), empty="No failed jobs.")
    if limit and next(found, None) is not None:
        print_note(f"Only the first {format_count(limit, 'job')}: --limit 0 shows all.")
    if skipper.has_skipped:
        print_note("Later steps, which failed only because of another job, are left out: --later shows them.")


@failed.command("groups")
@click.option("--queue", "-q", default="", help="Queue of the jobs. Default: all.")
@click.option("--name", default="", metavar="GLOB", help="Pattern of the job name, e.g. 'send_*'.")
@json_option
@with_service
def groups(service: Service, queue: str, name: str, as_json: bool) -> None:
    """Group the newest failed jobs by error.

    Ids, numbers and quoted texts in errors are masked. Later steps failed because of jobs of the group. The largest
    group comes first. With --json, one object per line.

    \b
    Example:
      windlass failed groups --queue mail
    """
    if queue:
        note_missing_queue(service, queue)
    found = service.failures(queue=queue, name=name, looked_at=LOOKED_AT_MAX).wait()
    now_ms = service.now().wait()
    if as_json:
        for group in found.groups:
            print_json_line(to_record(group))
    else:
        rows = (_group_row(group, now_ms) for group in found.groups)
        print_table(GROUP_COLUMNS, rows, empty="No failed jobs.")
        if consequences := _describe_consequences(found):
            print_note(consequences)
    if not found.is_all:
        print_note(f"Only the newest {format_count(found.looked_at, 'failed job')} were grouped.")


def _group_row(group: FailureGroup, now_ms: int) -> tuple[object, ...]:
    last = InstantCell(group.last_at_ms, now_ms)
    return group.count, group.queue, group.name, last, group.error_shape, group.consequences or ""


def _describe_consequences(found: Failures) -> str:
    """Return a sentence about the jobs that are in no group, or nothing."""
    later = sum(group.consequences for group in found.groups)
    failed = sum(group.count for group in found.groups)
    parts = [f"{failed:,} failed, {format_count(later, 'later step')} failed because of them."] if later else []
    if found.other_consequences:
        parts.append(f"{format_count(found.other_consequences, 'job')} failed because of jobs that are not shown here.")
    return " ".join(parts)


def _row(job: Job, error: str, now_ms: int) -> tuple[object, ...]:
    line = error.replace("\n", " ")
    return (job.key, job.queue, job.name, job.attempt, InstantCell(job.ended_at_ms, now_ms), line)


@failed.command()
@filter_options
@yes_option
@with_service
def retry(service: Service, job_filter: FailedFilter, yes: bool) -> None:
    """Put all matching failed jobs back into their queues.

    Jobs that failed because of another job are left out: they wait again when that job is retried.

    \b
    Example:
      windlass failed retry --queue mail --error "connection refused"
    """
    ids, skipped = _collect_causes(service, job_filter)
    if ids and job_filter.is_everything:
        confirm(f"Retry {format_count(len(ids), 'failed job')} of all queues?", yes)
    _run("Retried", lambda step: service.retry(step).wait(), ids, skipped)


@failed.command()
@filter_options
@yes_option
@with_service
def delete(service: Service, job_filter: FailedFilter, yes: bool) -> None:
    """Delete all matching failed jobs.

    \b
    Example:
      windlass failed delete --name 'report_*' --yes
    """
    ids = _collect_ids(service, job_filter)
    if ids:
        confirm(f"Delete {format_count(len(ids), 'failed job')}{job_filter.describe()} permanently?", yes)
    _run("Deleted", lambda step: service.delete(step).wait(), ids)


def _run(done: str, act: Callable[[Sequence[bytes]], list[str | Refusal]], ids: list[bytes], skipped: int = 0) -> None:
    if ids or skipped:
        run_in_batches(done, act, batches(ids), len(ids), skipped=skipped)
    else:
        print_note("No failed jobs match.")


def _collect_ids(service: Service, job_filter: FailedFilter) -> list[bytes]:
    causes, consequences = _collect(service, job_filter)
    return causes + consequences


def _collect_causes(service: Service, job_filter: FailedFilter) -> tuple[list[bytes], int]:
    """Return the ids of jobs that failed by themselves, and the number of the others."""
    causes, consequences = _collect(service, job_filter)
    return causes, len(consequences)


def _collect(service: Service, job_filter: FailedFilter) -> tuple[list[bytes], list[bytes]]:
    """Collect the ids before the confirmation, so that its number is exact and later failures are not touched. Only
    ids, because there may be a million jobs. Returns jobs that failed by themselves, and jobs that failed because of
    another job."""
    for queue in job_filter.queues:
        note_missing_queue(service, queue)
    causes: list[bytes] = []
    consequences: list[bytes] = []
    with progress("Searching", None) as advance:
        for job in _candidates(service, job_filter):
            (consequences if job.is_consequence else causes).append(job.id)
            advance(1)
    return causes, consequences


def _candidates(service: Service, job_filter: FailedFilter) -> Iterator[Job]:
    """Find the jobs. Errors are read only if the filter needs them, because lists of jobs do not contain them."""
    if job_filter.error:
        return (job for job, _ in search(service, job_filter))
    return _ended_in_time(service, job_filter)


def _ended_in_time(service: Service, job_filter: FailedFilter) -> Iterator[Job]:
    selection = JobSelection(job_filter.queues, ("failed",), name=job_filter.name, newest_first=True)
    since_ms = job_filter.since.before_ms(service.now().wait()) if job_filter.since else 0
    return (job for job in find(service, selection) if (job.ended_at_ms or 0) >= since_ms)


def search(service: Service, job_filter: FailedFilter) -> Iterator[tuple[Job, str]]:
    """Find jobs with their last errors."""
    source = _ended_in_time(service, job_filter)
    while batch := list(islice(source, READ_AT_ONCE)):
        for job, error in with_errors(service, [job.id for job in batch], with_causes=True):
            if job_filter.error.casefold() in error.casefold():
                yield job, error
