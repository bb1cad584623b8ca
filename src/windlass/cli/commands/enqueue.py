"""windlass enqueue: enqueue a job, and optionally wait for its result."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from windlass.cli.blobs import blob_text, error_text
from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import with_service
from windlass.cli.names.suggestions import note_unknown_task
from windlass.cli.output import is_for_people, json_option, print_json, print_note, print_text
from windlass.cli.parameters import (
    DURATION,
    DURATION_OR_FOREVER,
    DURATION_OR_INSTANT,
    INSTANT,
    JOB_ID,
    PAYLOAD,
    DurationOrInstant,
)
from windlass.cli.records import blob_fields, to_record
from windlass.core.errors import Refusal, WindlassError
from windlass.core.ids import format_id
from windlass.core.job import Blob, Ending, NewJob
from windlass.core.operations import Enqueued
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.core.text.control_characters import printable
from windlass.core.text.durations import format_duration
from windlass.core.text.error_text import blob_line
from windlass.core.text.humanize import quote_text
from windlass.core.text.similar_names import describe_missing_queue
from windlass.core.validation.bounds import INT32_MAX, INT32_MIN, UINT32_MAX
from windlass.service import Service

# The same defaults as in the SDK.
TRIES, TIMEOUT, KEEP_RESULT = 3, "15m", "1h"
NO_ARGUMENTS = Blob(b"{}")
WAIT_STEP_MS = 3_600_000
TRY_AGAIN = 75


@click.command(short_help="Put a job into a queue.")
@click.argument("queue")
@click.argument("name")
@click.argument("payload", type=PAYLOAD, required=False)
@click.option("--delay", type=DURATION, help="Earliest start, from now.")
@click.option("--run-at", type=INSTANT, help="Earliest start, e.g. 2027-01-31T10:30Z.")
@click.option(
    "--priority",
    type=click.IntRange(INT32_MIN, INT32_MAX),
    metavar="N",
    default=0,
    help="Smaller numbers run first. Default: 0.",
)
@click.option("--unique", default="", metavar="KEY", help="Add nothing while a job with this key exists.")
@click.option("--tag", "tags", multiple=True, help="Tag of the job; repeatable.")
@click.option("--expires", type=DURATION_OR_INSTANT, help="Fail the job unless it has started by then.")
@click.option(
    "--tries",
    type=click.IntRange(0, UINT32_MAX),
    metavar="N",
    default=TRIES,
    help=f"Maximum number of attempts; 0: unlimited. Default: {TRIES}.",
)
@click.option(
    "--timeout", type=DURATION, default=TIMEOUT, help=f"Time limit of an attempt; 0s: none. Default: {TIMEOUT}."
)
@click.option(
    "--keep-result",
    type=DURATION_OR_FOREVER,
    default=KEEP_RESULT,
    help=f"How long to keep the result; 0s: not at all. Default: {KEEP_RESULT}.",
)
@click.option("--lane", "--tenant", "lane", default="", help="Lane within the queue.")
@click.option("--id", "job_id", type=JOB_ID, help="Id of the job; a repeated command then adds it only once.")
@click.option("--wait", is_flag=True, help="Wait for the end of the job and print its result.")
@click.option("--wait-limit", type=DURATION, help="Wait at most this long, then exit with 75. The job continues.")
@json_option
@accepted_yes_option
@with_service
def enqueue(
    service: Service,
    queue: str,
    name: str,
    payload: Blob | None,
    wait: bool,
    wait_limit: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Put a job named NAME into QUEUE and print its id.

    PAYLOAD is JSON: an object becomes the task's keyword arguments, any other value its only argument. - reads it from
    standard input, @FILE from a file. Without a payload, the task is called without arguments.

    \b
    Example:
      windlass enqueue mail send_mail '{"order_id": 7}' --delay 10m --tag shop
      windlass enqueue mail send_mail @order.json --wait
    """
    if options["delay"] is not None and options["run_at"] is not None:
        raise click.UsageError("Give --delay or --run-at, not both.")
    job = _make_job(queue, name, payload or NO_ARGUMENTS, options)
    misspelt = _misspelt_queue(service, queue)
    answer = service.enqueue([job]).one().wait()
    if wait or wait_limit is not None:
        _warn_of_names(service, job, misspelt)
        _print_end(answer.id, _wait_for_end(service, answer.id, wait_limit), as_json)
    else:
        _print_accepted(answer, queue, as_json)
        _warn_of_names(service, job, misspelt)


def _misspelt_queue(service: Service, queue: str) -> str:
    """Return a sentence if no queue of this name exists but one with a similar name. Ask before the job creates it."""
    with contextlib.suppress(Refusal):  # a token to produce jobs may not read queues
        presence = service.queue_presence(queue).wait()
        if presence.suggestion:
            return describe_missing_queue(f"No worker takes from queue {quote_text(queue)}", presence.suggestion)
    return ""


def _warn_of_names(service: Service, job: NewJob, misspelt: str) -> None:
    """Print why no worker will run the job, if its queue or its name looks misspelt."""
    if misspelt:
        print_note(misspelt)
        return
    note_unknown_task(service, job.queue, job.name)


def _make_job(queue: str, name: str, payload: Blob, options: dict[str, Any]) -> NewJob:
    expires = options["expires"] or DurationOrInstant()
    return NewJob(
        queue=queue,
        name=name,
        payload=payload,
        id=options["job_id"] or b"",
        delay_ms=options["delay"] or 0,
        run_at_ms=options["run_at"] or 0,
        priority=options["priority"],
        unique=options["unique"],
        tags=options["tags"],
        expires_at_ms=expires.at_ms,
        expires_in_ms=expires.span_ms,
        retry=Backoff(tries=options["tries"]),
        timeout_ms=options["timeout"],
        result_ttl_ms=options["keep_result"],
        lane=options["lane"],
    )


def _print_accepted(answer: Enqueued, queue: str, as_json: bool) -> None:
    """Print only the id to stdout, for scripts; notes go to stderr."""
    if as_json:
        print_json(to_record(answer))
        return
    key = format_id(answer.id)
    print_text(f"{key}  {answer.status} in {queue}" if is_for_people() and answer.status != "existing" else key)
    if answer.status == "existing":
        print_note("A job with this id or unique key exists already; nothing was added.")
    elif answer.status == "ended":
        print_note("A job with this id has ended already; nothing was added.")
    if not answer.is_durable:
        print_note("Accepted, but the requested durability was not confirmed in time.")


# Waiting


def _wait_for_end(service: Service, job_id: bytes, limit_ms: int | None) -> Ending:
    key = format_id(job_id)
    if is_for_people():
        print_note(f"Waiting for {key}. Ctrl-C ends the wait; the job continues.")
    left_ms = limit_ms
    while left_ms is None or left_ms > 0:
        step_ms = WAIT_STEP_MS if left_ms is None else min(left_ms, WAIT_STEP_MS)
        ending = service.result(job_id, wait_ms=step_ms).wait()
        if ending is not None:
            return ending
        left_ms = None if left_ms is None else left_ms - step_ms
    print_note(f"windlass: {key} has not ended within {format_duration(limit_ms or 0)}; it continues.")
    sys.exit(TRY_AGAIN)


def _print_end(job_id: bytes, ending: Ending, as_json: bool) -> None:
    last = ending.last_attempt
    if as_json:
        result = blob_fields("result", ending.result) if ending.result else {"result": None}
        end = {"id": format_id(job_id), "state": ending.state.label, **result}
        print_json(end | ({"last_attempt": to_record(last)} if last else {}))
    elif ending.result is not None:
        text = blob_text(ending.result) if is_for_people() else blob_line(ending.result)
        click.echo(printable(text, keeps_lines=True))
    if ending.state is State.FINISHED:
        return
    if last is not None and last.error is not None and not as_json:
        click.echo(printable(error_text(last.error), keeps_lines=True), err=True)
    reason = f": {last.reason}" if last is not None else ""
    raise WindlassError(f"{format_id(job_id)} {ending.state.label}{reason}.")
