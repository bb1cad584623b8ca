"""Names of jobs on the command line: an id, or any other name that a dialect gives a job."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import click

from windlass.cli.bulk import batches
from windlass.cli.connection import CommandFunction, with_service
from windlass.cli.output import ID, Column, format_count, print_note, print_table
from windlass.core.errors import BadInput, Forbidden
from windlass.core.ids import PART_DIGITS_MIN, id_part, parse_id, without_cut_marks
from windlass.core.job import Job, Timeline
from windlass.core.job_aliases import ALIASES_TRIED, AliasMatches
from windlass.service import Service

READ_AT_ONCE = 100  # jobs with their payloads
_FEW_DIGITS = re.compile(r"[0-9a-fA-F]{1,3}")  # fewer than PART_DIGITS_MIN
CERTAIN_DIGITS = 12  # of an id: that another job has the same is not expected, so not all jobs need to be examined
_CANDIDATES = (ID, Column("queue", rank=1, shrinks=10), Column("name", shrinks=12), Column("state"))
queue_option = click.option("--queue", "-q", default="", help="Queue of the jobs, for a key that several queues use.")


def with_jobs(command: CommandFunction) -> CommandFunction:
    """Add the service and the argument ID… to a command; it gets the ids of the named jobs as `ids`."""

    @click.argument("ids", nargs=-1, required=True, metavar="ID…")
    @queue_option
    @with_service
    @functools.wraps(command)
    def wrapper(service: Service, ids: tuple[str, ...], queue: str, **options: Any) -> Any:
        return command(service, ids=find_jobs(service, ids, queue), **options)

    return wrapper


def with_job(command: CommandFunction) -> CommandFunction:
    """Add the service and the argument ID to a command; it gets the id of the named job as `job_id`."""

    @click.argument("job_id", metavar="ID")
    @queue_option
    @with_service
    @functools.wraps(command)
    def wrapper(service: Service, job_id: str, queue: str, **options: Any) -> Any:
        return command(service, job_id=find_jobs(service, (job_id,), queue)[0], **options)

    return wrapper


def find_jobs(service: Service, names: Sequence[str], queue: str = "") -> tuple[bytes, ...]:
    """Return the ids of the named jobs. If a name means no job or several, say so for each such name and exit with
    code 1; no job is changed then."""
    known = _read_by_id(service, names, queue)
    found = [known[name] if name in known else _find(service, name, queue) for name in names]
    ids = [job_id for job_id in found if job_id is not None]
    if len(ids) < len(names):
        raise click.exceptions.Exit(1)
    return tuple(ids)


def _read_by_id(service: Service, names: Sequence[str], queue: str) -> dict[str, bytes]:
    """Return the names that are ids of existing jobs. An id is preferred to other meanings of the same text."""
    ids = {name: job_id for name in names if (job_id := parse_job_id(name)) is not None}
    found: set[bytes] = set()
    for batch in batches(ids.values(), READ_AT_ONCE):
        timelines = [answer for answer in service.job(batch).wait() if isinstance(answer, Timeline)]
        found |= {timeline.job.id for timeline in timelines if queue in ("", timeline.job.queue)}
    return {name: job_id for name, job_id in ids.items() if job_id in found}


def _find(service: Service, name: str, queue: str) -> bytes | None:
    try:
        matches = service.find(name, queue=queue).wait()
    except Forbidden as error:
        raise Forbidden(f"Without the role read only a whole id finds a job, not {name!r}. {error}") from error
    if len(matches.jobs) == 1 and (matches.is_complete or is_certain(name)):
        return matches.jobs[0].id
    if not matches.jobs and not queue and (job_id := parse_job_id(name)) is not None:
        return job_id  # the command reports why there is no such job, or no more
    if matches.jobs:
        _print_candidates(name, matches.jobs)
    else:
        print_note(f"windlass: {name}: no job has this {ALIASES_TRIED}{f' in {queue}' if queue else ''}{_part(name)}.")
    if not matches.is_complete:
        print_note(f"windlass: {describe_limit(matches)}")
    return None


def _part(name: str) -> str:
    """Say how a part of an id was looked for, if the name may be one."""
    if id_part(name) is not None and parse_job_id(name) is None:
        return ", and no id begins or ends with it"
    is_short = bool(_FEW_DIGITS.fullmatch(without_cut_marks(name)))
    return f"; a part of an id needs {PART_DIGITS_MIN} digits or more" if is_short else ""


def is_certain(name: str) -> bool:
    """Return whether a name is such a long part of an id that it means one job."""
    part = id_part(name)
    return part is not None and len(part.digits) >= CERTAIN_DIGITS


def describe_limit(matches: AliasMatches) -> str:
    """Say how far an incomplete look-up went, and what helps."""
    if not matches.looked_at:
        return "Not all queues or jobs were examined: name the queue with --queue."
    looked_at = format_count(matches.looked_at, "job")
    return f"Looked at the newest {looked_at}: give the whole id, or name the queue with --queue."


def parse_job_id(name: str) -> bytes | None:
    """Return the id that a name is, or None if it is another name."""
    try:
        return parse_id(without_cut_marks(name))
    except BadInput:
        return None


def _print_candidates(name: str, jobs: Sequence[Job]) -> None:
    print_note(f"windlass: {name} may mean one of these jobs. Use an id, or name the queue with --queue.")
    print_table(_CANDIDATES, ((job.key, job.queue, job.name, job.state.label) for job in jobs), empty="")
