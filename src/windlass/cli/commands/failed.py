"""windlass failed: jobs that ended badly, found by what they say, retried or deleted together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import click

from windlass.cli.bulk import ask, carry_out, in_steps, progress, yes_option
from windlass.cli.connection import Command, connected
from windlass.cli.job_selection import Wanted, find, with_errors
from windlass.cli.output import ID, At, Column, counted, json_line, json_option, limit_option, note, table
from windlass.cli.parameters import DURATION_OR_INSTANT, When
from windlass.cli.records import record
from windlass.core.errors import Refusal
from windlass.core.job import Job
from windlass.core.stats.failure_groups import LOOKED_AT_MAX
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
)


class Sought(NamedTuple):
    """Which failed jobs are meant. Nothing given means all of them."""

    queues: tuple[str, ...]
    name: str
    error: str
    since: When | None

    @property
    def is_everything(self) -> bool:
        return self == Sought((), "", "", None)

    def words(self) -> str:
        narrowed = [f"of queue {', '.join(self.queues)}" if self.queues else ""]
        narrowed += [f"called {self.name}" if self.name else "", f"that say {self.error!r}" if self.error else ""]
        return " ".join(["", *filter(None, narrowed)])


def filters(command: Command) -> Command:
    @functools.wraps(command)
    def gathered(*args: Any, queues: tuple[str, ...], name: str, error: str, since: When | None, **rest: Any) -> Any:
        return command(*args, sought=Sought(queues, name, error, since), **rest)

    filtered: Command = gathered
    for option in reversed(_FILTERS):
        filtered = option(filtered)
    return filtered


_FILTERS: tuple[Callable[[Command], Command], ...] = (
    click.option("--queue", "-q", "queues", multiple=True, help="Of this queue; may be repeated. Default: all."),
    click.option("--name", default="", metavar="GLOB", help="With such a name, e.g. 'send_*'."),
    click.option("--error", default="", metavar="TEXT", help="Whose last error holds this text, in any case."),
    click.option("--since", type=DURATION_OR_INSTANT, help="That failed since, e.g. 1h or 2027-01-31T10:30Z."),
)


@click.group()
def failed() -> None:
    """Find failed jobs; retry or delete them."""


@failed.command("ls")
@filters
@limit_option
@json_option
@connected
def ls(service: Service, sought: Sought, limit: int, as_json: bool) -> None:
    """List failed jobs with what went wrong.

    Newest first within each queue. With --json, one object per line.

    \b
    Example:
      windlass failed ls --queue mail --error timeout --since 1h
    """
    now_ms = service.now().wait()
    found = search(service, sought)
    shown = islice(found, limit) if limit else found
    if as_json:
        for job, error in shown:
            json_line(record(job) | {"error": error})
    else:
        table(COLUMNS, (_row(job, error, now_ms) for job, error in shown), empty="No failed jobs.")
    if limit and next(found, None) is not None:
        note(f"The first {counted(limit, 'job')}; there are more: --limit 0 shows all.")


@failed.command("groups")
@click.option("--queue", "-q", default="", help="Of this queue. Default: all.")
@click.option("--name", default="", metavar="GLOB", help="With such a name, e.g. 'send_*'.")
@json_option
@connected
def groups(service: Service, queue: str, name: str, as_json: bool) -> None:
    """Group the last failed jobs by what went wrong.

    Ids, numbers and quoted texts of errors are masked. The largest group comes first. With --json, one object per line.

    \b
    Example:
      windlass failed groups --queue mail
    """
    found = service.failures(queue=queue, name=name, looked_at=LOOKED_AT_MAX).wait()
    now_ms = service.now().wait()
    if as_json:
        for group in found.groups:
            json_line(record(group))
    else:
        rows = ((one.count, one.queue, one.name, At(one.last_at_ms, now_ms), one.error_shape) for one in found.groups)
        table(GROUP_COLUMNS, rows, empty="No failed jobs.")
    if not found.is_all:
        note(f"Of the last {counted(found.looked_at, 'failed job')}; there are more.")


def _row(job: Job, error: str, now_ms: int) -> tuple[object, ...]:
    line = error.replace("\n", " ")
    return (job.key, job.queue, job.name, job.attempt, At(job.ended_at_ms, now_ms), line)


@failed.command()
@filters
@yes_option
@connected
def retry(service: Service, sought: Sought, yes: bool) -> None:
    """Send all failed jobs that match on their way again.

    \b
    Example:
      windlass failed retry --queue mail --error "connection refused"
    """
    ids = _collected(service, sought)
    if ids and sought.is_everything:
        ask(f"Retry {counted(len(ids), 'failed job')} of all queues?", yes)
    _carry_out("Retried", lambda step: service.retry(step).wait(), ids)


@failed.command()
@filters
@yes_option
@connected
def delete(service: Service, sought: Sought, yes: bool) -> None:
    """Delete all failed jobs that match.

    \b
    Example:
      windlass failed delete --name 'report_*' --yes
    """
    ids = _collected(service, sought)
    if ids:
        ask(f"Delete {counted(len(ids), 'failed job')}{sought.words()} for good?", yes)
    _carry_out("Deleted", lambda step: service.delete(step).wait(), ids)


def _carry_out(done: str, act: Callable[[Sequence[bytes]], list[str | Refusal]], ids: list[bytes]) -> None:
    if ids:
        carry_out(done, act, in_steps(ids), len(ids))
    else:
        note("No failed jobs match.")


def _collected(service: Service, sought: Sought) -> list[bytes]:
    """Known before anybody is asked, and what fails meanwhile is not touched. Only ids: there may be a million."""
    found = []
    with progress("Looking", None) as advance:
        for job in _candidates(service, sought):
            found.append(job.id)
            advance(1)
    return found


def _candidates(service: Service, sought: Sought) -> Iterator[Job]:
    """Errors are read only where they matter: pages of jobs do not carry them."""
    if sought.error:
        return (job for job, _ in search(service, sought))
    return _ended_in_time(service, sought)


def _ended_in_time(service: Service, sought: Sought) -> Iterator[Job]:
    wanted = Wanted(sought.queues, ("failed",), name=sought.name, newest_first=True)
    since_ms = sought.since.before_ms(service.now().wait()) if sought.since else 0
    return (job for job in find(service, wanted) if (job.ended_at_ms or 0) >= since_ms)


def search(service: Service, sought: Sought) -> Iterator[tuple[Job, str]]:
    """Jobs with their last error."""
    source = _ended_in_time(service, sought)
    while step := list(islice(source, READ_AT_ONCE)):
        for job, error in with_errors(service, step):
            if sought.error.casefold() in error.casefold():
                yield job, error
