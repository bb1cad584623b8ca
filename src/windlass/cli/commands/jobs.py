"""windlass jobs: list, show, explain, edit, retry, requeue, wake, cancel and delete jobs; durable.py adds steps and
signals, live/ what follows a running job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import click

from windlass.cli import job_page
from windlass.cli.bulk import accepted_yes_option, confirm, report_each, yes_option
from windlass.cli.commands import durable, live
from windlass.cli.connection import with_service
from windlass.cli.job_cause import with_cause
from windlass.cli.job_selection import LISTS, JobSelection, Recent, with_saved_filter, with_whole_payloads
from windlass.cli.names.jobs import with_job, with_jobs
from windlass.cli.names.suggestions import note_missing_queue
from windlass.cli.output import (
    DEFAULT_LIMIT,
    ID,
    Column,
    InstantCell,
    format_count,
    json_option,
    limit_option,
    print_block,
    print_json,
    print_json_line,
    print_note,
    print_table,
    print_text,
)
from windlass.cli.parameters import DURATION, DURATION_OR_INSTANT, INSTANT, PAYLOAD, DurationOrInstant
from windlass.cli.records import to_record
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

where_option = click.option(
    "--where",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Value of an indexed payload field; repeatable.",
)


@click.group()
def jobs() -> None:
    """Show jobs and act on them.

    An ID is any name of a job: its id, or at least 4 digits of its beginning or end; a Bedrock job number, a download
    id, or a unique key such as the uuid of a processor.
    """


for _command in (*live.COMMANDS, *durable.COMMANDS):
    jobs.add_command(_command)


@jobs.command("ls")
@click.option("--queue", "-q", "queues", multiple=True, help="Queue of the jobs; repeatable. Default: all.")
@click.option(
    "--state",
    "-s",
    "states",
    multiple=True,
    type=click.Choice(LISTS),
    help="State of the jobs. Default: all but history.",
)
@click.option("--tag", default="", help="Tag of the jobs.")
@where_option
@click.option("--name", default="", metavar="GLOB", help="Pattern of the job name, e.g. 'send_*'.")
@click.option("--since", type=DURATION_OR_INSTANT, help="Created since, e.g. 1h or 2027-01-31T10:30Z.")
@click.option("--text", default="", help="Text in the payload, as compact JSON; case is ignored.")
@click.option("--oldest", is_flag=True, help="Oldest first.")
@click.option("--newest", is_flag=True, hidden=True, help="Newest first: the default.")
@click.option(
    "--filter", "saved", default="", metavar="NAME", help="Saved filter of the dashboard; other options change it."
)
@limit_option
@json_option
@with_service
def ls(
    service: Service,
    queues: tuple[str, ...],
    states: tuple[str, ...],
    tag: str,
    where: tuple[str, ...],
    name: str,
    since: DurationOrInstant | None,
    text: str,
    oldest: bool,
    newest: bool,
    saved: str,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs of all queues and states, the newest first.

    Running and failed jobs are on top, at most a third of the rows each, unless --state, --tag, --text or --oldest is
    given. With --json, one object per line.

    \b
    Example:
      windlass jobs ls --queue mail --state running
      windlass jobs ls --text '"order_id":4711' --since 1h
      windlass jobs ls --tag shop --json | jq .payload
      windlass jobs ls --where order_id=4711
      windlass jobs ls --filter 'late mail'
    """
    if oldest and newest:
        raise click.UsageError("Give --oldest or --newest, not both.")
    for queue in queues:
        note_missing_queue(service, queue)
    now_ms = service.now().wait()
    created_from_ms = since.before_ms(now_ms) if since else 0
    selection = JobSelection(queues, states, tag, name, created_from_ms, not oldest, text, where)
    if saved:
        selection = with_saved_filter(service, selection, saved, now_ms)
    _list_jobs(service, selection, limit, as_json, now_ms)


def _list_jobs(service: Service, selection: JobSelection, limit: int, as_json: bool, now_ms: int) -> None:
    recent = Recent(service, selection, limit)
    found = recent.jobs()
    shown = islice(found, limit) if limit else found
    if as_json:
        _print_json(service, shown)
    else:
        print_table(COLUMNS, (_row(job, now_ms) for job in shown), empty="No jobs.")
    if limit and next(found, None) is not None:
        print_note(f"Only the first {format_count(limit, 'job')}: --limit 0 shows all.")
    elif recent.is_cut:
        looked_at, order = format_count(recent.looked_at, "job"), "newest" if selection.newest_first else "oldest"
        print_note(f"Looked at the {order} {looked_at} only: --limit 0 looks at all.")
    if not recent.is_complete:
        print_note("Not all queues were read, because so many have such jobs: name some with --queue.")


def _print_json(service: Service, found: Iterator[Job]) -> None:
    while batch := list(islice(found, DEFAULT_LIMIT)):
        for job in with_whole_payloads(service, batch):
            print_json_line(to_record(job))


def _row(job: Job, now_ms: int) -> tuple[object, ...]:
    tried = f"{job.attempt}/{job.retry.tries}" if job.retry.tries else str(job.attempt)
    created, run_at = InstantCell(job.created_at_ms, now_ms), InstantCell(job.run_at_ms, now_ms)
    tags = ",".join(job.tags)
    return (job.key, job.queue, job.name, job.state.label, job.priority, tried, created, run_at, tags)


@jobs.command()
@click.option("--errors", "all_errors", is_flag=True, help="Show the errors of all attempts, not only of the last.")
@json_option
@with_job
def show(service: Service, job_id: bytes, all_errors: bool, as_json: bool) -> None:
    """Show the details of a job.

    \b
    Example:
      windlass jobs show 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
      windlass jobs show 4711
      windlass jobs show order-7 --queue mail
    """
    details = job_page.read(service, job_id)
    if as_json:
        print_json(job_page.as_record(details))
    else:
        job_page.show(details, all_errors)


@jobs.command()
@json_option
@with_job
def explain(service: Service, job_id: bytes, as_json: bool) -> None:
    """Explain the state of a job: why it waits, runs or ended.

    \b
    Example:
      windlass jobs explain 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    explanation = service.explain(job_id).wait()
    if as_json:
        print_json(explanation)
        return
    print_text(explanation.summary)
    for sentence in further_reasons(explanation):
        print_block(f"- {sentence}")


def further_reasons(explanation: Explanation) -> list[str]:
    """Return the reasons that the summary does not contain."""
    sentences = [reason.sentence for reason in explanation.reasons]
    return [sentence for sentence in sentences if sentence[1:].rstrip(".") not in explanation.summary]


@jobs.command()
@click.option("--fresh", is_flag=True, help="Drop all stored steps, so that the jobs start from the beginning.")
@accepted_yes_option
@with_jobs
def retry(service: Service, ids: tuple[bytes, ...], fresh: bool) -> None:
    """Put failed or cancelled jobs back into their queues.

    Later steps of a flow that did not run because of such a job wait for it again. Stored steps are kept, except those
    that failed.

    \b
    Example:
      windlass jobs retry 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
      windlass jobs retry 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --fresh
    """
    answers = service.retry(ids, fresh=fresh).wait()
    report_each(ids, [with_cause(service, *pair) for pair in zip(ids, answers, strict=True)])


@jobs.command()
@click.option("--give-back", is_flag=True, help="Do not count the current attempt.")
@accepted_yes_option
@with_jobs
def requeue(service: Service, ids: tuple[bytes, ...], give_back: bool) -> None:
    """Put jobs back into their queues from any state.

    A worker that holds such a job loses its lease, and its report is refused. Use it for jobs whose lease does not end.

    \b
    Example:
      windlass jobs requeue 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    report_each(ids, service.requeue(ids, gives_attempt_back=give_back).wait())


@jobs.command()
@accepted_yes_option
@with_jobs
def wake(service: Service, ids: tuple[bytes, ...]) -> None:
    """End the wait of jobs for other jobs.

    \b
    Example:
      windlass jobs wake 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    report_each(ids, service.wake(ids).wait())


@jobs.command()
@click.option("--reason", default="cancelled", help="Stored with the job.")
@accepted_yes_option
@with_jobs
def cancel(service: Service, ids: tuple[bytes, ...], reason: str) -> None:
    """Cancel jobs.

    Waiting jobs end at once; running jobs are asked to stop.

    \b
    Example:
      windlass jobs cancel 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --reason "order withdrawn"
    """
    report_each(ids, service.cancel(ids, reason=reason).wait())


@jobs.command()
@click.option("--even-running", is_flag=True, help="Also running jobs; the reports of their workers are refused.")
@yes_option
@with_jobs
def delete(service: Service, ids: tuple[bytes, ...], even_running: bool, yes: bool) -> None:
    """Delete jobs with all their data.

    \b
    Example:
      windlass jobs delete 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --yes
    """
    confirm(f"Delete {format_count(len(ids), 'job')} permanently?", yes)
    report_each(ids, service.delete(ids, even_leased=even_running).wait())


@jobs.command()
@click.option("--name", default="", help="New name.")
@click.option(
    "--priority",
    type=click.IntRange(INT32_MIN, INT32_MAX),
    metavar="N",
    help="New priority; smaller numbers run first.",
)
@click.option("--run-at", type=INSTANT, help="Start not before, e.g. 2027-01-31T10:30Z.")
@click.option("--delay", type=DURATION, help="Start not before this long from now.")
@click.option("--payload", type=PAYLOAD, help="New payload as JSON; - reads standard input, @FILE a file.")
@click.option("--repeat", help="Rule for the next run, e.g. 'FINISHED, +1 DAY'; '' ends the repetition.")
@click.option(
    "--if-revision",
    type=click.IntRange(0, UINT32_MAX),
    metavar="N",
    default=0,
    help="Only if the job has this revision.",
)
@accepted_yes_option
@with_job
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
    print_text(f"{format_id(job_id)}  changed, revision {answer.revision}")


def _check_change(given: Sequence[object], run_at: int | None, delay: int | None) -> None:
    if all(value is None for value in given):
        raise click.UsageError(
            "Give at least one change: --name, --priority, --run-at, --delay, --payload or --repeat."
        )
    if run_at is not None and delay is not None:
        raise click.UsageError("Give --delay or --run-at, not both.")
