"""windlass jobs: listed, shown, explained, changed, sent on their way again, ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import click

from windlass.cli import job_page
from windlass.cli.bulk import ask, tell_each, yes_option
from windlass.cli.connection import connected
from windlass.cli.job_selection import LISTS, Wanted, find, whole
from windlass.cli.output import (
    ID,
    SHOWN,
    At,
    Column,
    block,
    counted,
    json_document,
    json_line,
    json_option,
    limit_option,
    note,
    say,
    table,
)
from windlass.cli.parameters import DURATION, DURATION_OR_INSTANT, INSTANT, JOB_ID, PAYLOAD, When
from windlass.cli.records import record
from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id
from windlass.core.job import Blob, Job
from windlass.core.operations import Edit
from windlass.core.validation.bounds import INT32_MAX, INT32_MIN, UINT32_MAX
from windlass.service import Service

COLUMNS = (
    ID,
    Column("queue", rank=1, shrinks=10),
    Column("name", shrinks=12),
    Column("state"),
    Column("priority", is_right=True, rank=4),
    Column("attempt", is_right=True, rank=2),
    Column("created", rank=1),
    Column("run at", rank=3),
    Column("tags", rank=5, shrinks=12),
)
ids_argument = click.argument("ids", type=JOB_ID, nargs=-1, required=True, metavar="ID…")
id_argument = click.argument("job_id", type=JOB_ID, metavar="ID")


@click.group()
def jobs() -> None:
    """Look at jobs and act on them."""


@jobs.command("ls")
@click.option("--queue", "-q", "queues", multiple=True, help="Of this queue; may be repeated. Default: all.")
@click.option("--state", "-s", "states", multiple=True, type=click.Choice(LISTS), help="Default: all but history.")
@click.option("--tag", default="", help="With this tag.")
@click.option("--name", default="", metavar="GLOB", help="With such a name, e.g. 'send_*'.")
@click.option("--since", type=DURATION_OR_INSTANT, help="Created since, e.g. 1h or 2027-01-31T10:30Z.")
@click.option("--newest", is_flag=True, help="Newest first, within each queue and state.")
@limit_option
@json_option
@connected
def ls(
    service: Service,
    queues: tuple[str, ...],
    states: tuple[str, ...],
    tag: str,
    name: str,
    since: When | None,
    newest: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs, queue by queue and state by state.

    With --json, one object per line.

    \b
    Example:
      windlass jobs ls --queue mail --state running
      windlass jobs ls --tag shop --json | jq .payload
    """
    now_ms = service.now().wait()
    created_from_ms = since.before_ms(now_ms) if since else 0
    wanted = Wanted(queues, states, tag, name, created_from_ms, newest)
    found = find(service, wanted, limit + 1 if limit else SHOWN * 10)
    shown = islice(found, limit) if limit else found
    if as_json:
        _print_json(service, shown)
    else:
        table(COLUMNS, (_row(job, now_ms) for job in shown), empty="No jobs.")
    if limit and next(found, None) is not None:
        note(f"The first {counted(limit, 'job')}; there are more: --limit 0 shows all.")


def _print_json(service: Service, found: Iterator[Job]) -> None:
    while step := list(islice(found, SHOWN)):
        for job in whole(service, step):
            json_line(record(job))


def _row(job: Job, now_ms: int) -> tuple[object, ...]:
    tried = f"{job.attempt}/{job.retry.tries}" if job.retry.tries else str(job.attempt)
    created, run_at = At(job.created_at_ms, now_ms), At(job.run_at_ms, now_ms)
    tags = ",".join(job.tags)
    return (job.key, job.queue, job.name, job.state.label, job.priority, tried, created, run_at, tags)


@jobs.command()
@id_argument
@click.option("--errors", "all_errors", is_flag=True, help="The errors of all attempts, not only of the last.")
@json_option
@connected
def show(service: Service, job_id: bytes, all_errors: bool, as_json: bool) -> None:
    """Show all that is known of a job.

    \b
    Example:
      windlass jobs show 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    story = job_page.read(service, job_id)
    if as_json:
        json_document(job_page.as_record(story))
    else:
        job_page.show(story, all_errors)


@jobs.command()
@id_argument
@json_option
@connected
def explain(service: Service, job_id: bytes, as_json: bool) -> None:
    """Say why a job does not run, who has it, or how it ended.

    \b
    Example:
      windlass jobs explain 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    explanation = service.explain(job_id).wait()
    if as_json:
        json_document(explanation)
        return
    say(explanation.summary)
    for sentence in further_reasons(explanation):
        block(f"- {sentence}")


def further_reasons(explanation: Explanation) -> list[str]:
    """What the summary does not say already."""
    return [one.sentence for one in explanation.reasons if one.sentence[1:].rstrip(".") not in explanation.summary]


@jobs.command()
@ids_argument
@connected
def retry(service: Service, ids: tuple[bytes, ...]) -> None:
    """Send failed or cancelled jobs on their way again.

    \b
    Example:
      windlass jobs retry 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    tell_each(ids, service.retry(ids).wait())


@jobs.command()
@ids_argument
@click.option("--give-back", is_flag=True, help="The attempt under way does not count.")
@connected
def requeue(service: Service, ids: tuple[bytes, ...], give_back: bool) -> None:
    """Put jobs back into their queues from any state.

    Whoever works on one loses it: its report is refused. For jobs that hang in a lease without an end.

    \b
    Example:
      windlass jobs requeue 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    tell_each(ids, service.requeue(ids, gives_attempt_back=give_back).wait())


@jobs.command()
@ids_argument
@connected
def wake(service: Service, ids: tuple[bytes, ...]) -> None:
    """End the wait of jobs for other jobs.

    \b
    Example:
      windlass jobs wake 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    tell_each(ids, service.wake(ids).wait())


@jobs.command()
@ids_argument
@click.option("--reason", default="cancelled", help="Kept with the job.")
@connected
def cancel(service: Service, ids: tuple[bytes, ...], reason: str) -> None:
    """Cancel jobs.

    Those that wait end at once; those that run are asked to stop.

    \b
    Example:
      windlass jobs cancel 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --reason "order withdrawn"
    """
    tell_each(ids, service.cancel(ids, reason=reason).wait())


@jobs.command()
@ids_argument
@click.option("--even-running", is_flag=True, help="Also those that somebody works on; their results are refused.")
@yes_option
@connected
def delete(service: Service, ids: tuple[bytes, ...], even_running: bool, yes: bool) -> None:
    """Delete jobs and all that belongs to them.

    \b
    Example:
      windlass jobs delete 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --yes
    """
    ask(f"Delete {counted(len(ids), 'job')} for good?", yes)
    tell_each(ids, service.delete(ids, even_leased=even_running).wait())


@jobs.command()
@id_argument
@click.option("--name", default="", help="Another name.")
@click.option("--priority", type=click.IntRange(INT32_MIN, INT32_MAX), metavar="N", help="Smaller first.")
@click.option("--run-at", type=INSTANT, help="Start not before, e.g. 2027-01-31T10:30Z.")
@click.option("--delay", type=DURATION, help="Start not before this long from now.")
@click.option("--payload", type=PAYLOAD, help="JSON; - from standard input, @FILE from a file.")
@click.option("--repeat", help="Rule for the next run, e.g. 'FINISHED, +1 DAY'; '' repeats no more.")
@click.option(
    "--if-revision", type=click.IntRange(0, UINT32_MAX), metavar="N", default=0, help="Only when it has this revision."
)
@connected
def edit(
    service: Service,
    job_id: bytes,
    name: str,
    priority: int | None,
    run_at: int | None,
    delay: int | None,
    payload: Blob | None,
    repeat: str | None,
    if_revision: int,
) -> None:
    """Change a job that has not started.

    \b
    Example:
      windlass jobs edit 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --priority -5 --delay 0s
    """
    _check_change((name or None, priority, run_at, delay, payload, repeat), run_at, delay)
    if delay is not None:
        run_at = service.now().wait() + delay
    request = Edit(
        id=job_id,
        name=name,
        priority=priority,
        run_at_ms=run_at,
        payload=payload,
        repeat=repeat,
        if_revision=if_revision,
    )
    answer = service.edit([request]).one().wait()
    say(f"{format_id(job_id)}  changed, revision {answer.revision}")


def _check_change(given: Sequence[object], run_at: int | None, delay: int | None) -> None:
    if all(one is None for one in given):
        raise click.UsageError("Say what to change: --name, --priority, --run-at, --delay, --payload or --repeat.")
    if run_at is not None and delay is not None:
        raise click.UsageError("Give --delay or --run-at, not both.")
