"""windlass jobs steps, signal, signal-url, awaited, rewind and stream: the durable state of jobs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import islice

import click

from windlass.cli import step_page, stream_page
from windlass.cli.bulk import accepted_yes_option, confirm, report_each, yes_option
from windlass.cli.connection import with_service
from windlass.cli.job_selection import JobSelection, find
from windlass.cli.names.jobs import with_job
from windlass.cli.names.suggestions import note_missing_queue
from windlass.cli.output import (
    ID,
    Column,
    InstantCell,
    format_count,
    json_option,
    limit_option,
    print_json,
    print_json_line,
    print_note,
    print_table,
    print_text,
)
from windlass.cli.parameters import DURATION, PAYLOAD
from windlass.core.access.signal_links import EXPIRES_IN_MS
from windlass.core.callbacks.urls import is_base_url
from windlass.core.durable import OpenWaits, Rewind, Signal, Step, StepKind, StepStatus
from windlass.core.ids import format_id
from windlass.core.job import NULL_BLOB, Blob, Job
from windlass.core.states import State
from windlass.core.text.control_characters import printable
from windlass.service import Service
from windlass.settings import load

AWAITED_COLUMNS = (
    ID,
    Column("queue", rank=1, shrinks=10),
    Column("name", shrinks=12),
    Column("signal", shrinks=10),
    Column("since", rank=2),
    Column("times out", rank=1),
)
READ_AT_ONCE = 200  # jobs whose waits are read in one call


@click.command()
@json_option
@with_job
def steps(service: Service, job_id: bytes, as_json: bool) -> None:
    """Show the stored steps and signals of a job.

    Also the conditions on which a suspended job waits.

    \b
    Example:
      windlass jobs steps 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
    """
    details = step_page.read(service, job_id)
    if as_json:
        print_json(step_page.as_record(details))
    else:
        step_page.show(details)


@click.command()
@with_job
@click.argument("name")
@click.argument("value", type=PAYLOAD, required=False)
@accepted_yes_option
def signal(service: Service, job_id: bytes, name: str, value: Blob | None) -> None:
    """Send the signal NAME to a job. VALUE is JSON; - reads standard input, @FILE a file. Default: null.

    A job that waits for the signal continues (received). A signal that comes first is kept.

    \b
    Example:
      windlass jobs signal 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 approval '{"approved": true}'
    """
    request = Signal(id=job_id, name=name, value=value or NULL_BLOB, request_id=os.urandom(16))
    report_each([job_id], service.signal([request]).wait())


@click.command("signal-url")
@with_job
@click.argument("name")
@click.option("--expires", type=DURATION, default=EXPIRES_IN_MS, help="How long the URL is valid. Default: 7d.")
@click.option("--server", default="", help="Address of the server, e.g. https://jobs.example.com.")
@accepted_yes_option
def signal_url(service: Service, job_id: bytes, name: str, expires: int, server: str) -> None:
    """Create a URL that sends the signal NAME to a job.

    A person who has the URL needs no token. Opening it shows a form; the form sends the signal, once.
    --server is needed where neither --url nor the setting public_url names a server.

    \b
    Example:
      windlass jobs signal-url 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 approval --expires 3d
    """
    base = server or load({})[0].public_url
    if base and not is_base_url(base):
        raise click.UsageError(f"{base!r} is not the address of a server; write https://jobs.example.com.")
    if not base and not str(service.store.endpoint).startswith("http"):
        raise click.UsageError("Name the server with --server, or in the setting public_url.")
    link = service.signal_link(job_id, name, expires_in_ms=expires).wait()
    url = f"{base.rstrip('/')}/signals/{link.token}" if server or not link.url else link.url
    click.echo(printable(url))


@click.command()
@click.option("--step", default="", help="First step to drop; it and all later ones run again.")
@click.option("--all", "is_all", is_flag=True, help="Drop all steps.")
@click.option("--run", "runs", is_flag=True, help="Put the job back into its queue afterwards.")
@yes_option
@with_job
def rewind(service: Service, job_id: bytes, step: str, is_all: bool, runs: bool, yes: bool) -> None:
    """Drop a step of a job and all later steps.

    They run again. The job stays where it is; --run also puts it back into its queue. A job that a worker holds is
    refused.

    \b
    Example:
      windlass jobs rewind 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --step charge --run --yes
    """
    if bool(step) == is_all:
        raise click.UsageError("Give --step NAME or --all.")
    confirm(f"Drop {f'the step {step} and all later steps' if step else 'all steps'} permanently?", yes)
    dropped = service.rewind([Rewind(id=job_id, step=step)]).one().wait()
    print_text(f"{format_id(job_id)}  dropped {format_count(dropped, 'step')}")
    if runs:
        report_each([job_id], _run_again(service, job_id))


def _run_again(service: Service, job_id: bytes) -> list[str]:
    """Queue a job. Jobs that ended because of a failed job wait for it again."""
    state = service.job([job_id]).one().wait().job.state
    is_retried = state in (State.FAILED, State.CANCELLED)
    return [(service.retry if is_retried else service.requeue)([job_id]).one().wait()]


@click.command()
@click.option("--queue", "-q", "queues", multiple=True, help="Queue of the jobs; repeatable. Default: all.")
@click.option("--signal", "name", default="", help="Only this signal.")
@limit_option
@json_option
@with_service
def awaited(service: Service, queues: tuple[str, ...], name: str, limit: int, as_json: bool) -> None:
    """List the signals that suspended jobs wait for.

    These are what people and programs have to answer. With --json, one object per line.

    \b
    Example:
      windlass jobs awaited
      windlass jobs awaited --queue orders --signal approval
    """
    for queue in queues:
        note_missing_queue(service, queue)
    found = (wait for wait in _awaited(service, queues) if name in ("", wait[1].signal))
    shown = islice(found, limit) if limit else found
    now_ms = service.now().wait()
    if as_json:
        for job, step in shown:
            print_json_line(_awaited_record(job, step))
    else:
        rows = (_awaited_row(job, step, now_ms) for job, step in shown)
        print_table(AWAITED_COLUMNS, rows, empty="No job waits for a signal.")
    if limit and next(found, None) is not None:
        print_note(f"Only the first {format_count(limit, 'signal')}: --limit 0 shows all.")


def _awaited(service: Service, queues: tuple[str, ...]) -> Iterator[tuple[Job, Step]]:
    """Yield suspended jobs, each with a wait for a signal. Jobs that were woken since are left out."""
    source = find(service, JobSelection(queues, ("suspended",)))
    while jobs := list(islice(source, READ_AT_ONCE)):
        answers = service.open_waits([job.id for job in jobs]).wait()
        for job, answer in zip(jobs, answers, strict=True):
            for step in answer.steps if isinstance(answer, OpenWaits) else ():
                if step.kind is StepKind.SIGNAL and step.status is StepStatus.WAITING:
                    yield job, step


def _awaited_row(job: Job, step: Step, now_ms: int) -> tuple[object, ...]:
    since, until = InstantCell(step.begun_at_ms, now_ms), InstantCell(step.wake_at_ms, now_ms)
    return job.key, job.queue, job.name, step.signal, since, until


def _awaited_record(job: Job, step: Step) -> dict[str, object]:
    return {
        "id": job.key,
        "queue": job.queue,
        "name": job.name,
        "signal": step.signal,
        "step": step.name,
        "since_ms": step.begun_at_ms,
        "times_out_at_ms": step.wake_at_ms,
    }


@click.command()
@click.option("--from", "after", type=click.IntRange(min=0), default=0, help="Show the entries after this position.")
@click.option("--follow", "-f", "follows", is_flag=True, help="Wait for further entries until the job ends.")
@json_option
@with_job
def stream(service: Service, job_id: bytes, after: int, follows: bool, as_json: bool) -> None:
    """Show the values that a job has written to its stream.

    One value per line, as JSON. With --json, one object per line, with the position and the marks of new attempts.

    \b
    Example:
      windlass jobs stream 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --follow
      windlass jobs stream 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --from 100 --json
    """
    show = stream_page.show_record if as_json else stream_page.show
    if not follows:
        for item in stream_page.read(service, job_id, after):
            show(item)
        return
    with contextlib.suppress(KeyboardInterrupt):
        print_note(f"The job has {stream_page.follow(service, job_id, after, show).label}.")


COMMANDS = (steps, signal, signal_url, rewind, awaited, stream)
