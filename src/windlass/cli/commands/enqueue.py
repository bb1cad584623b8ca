"""windlass enqueue: one job, and if wanted its result."""

from __future__ import annotations

import sys
from typing import Any

import click

from windlass.cli.blobs import as_text, error_text
from windlass.cli.connection import connected
from windlass.cli.output import is_for_people, json_document, json_option, note, printable, say
from windlass.cli.parameters import DURATION, DURATION_OR_FOREVER, DURATION_OR_INSTANT, INSTANT, JOB_ID, PAYLOAD, When
from windlass.cli.records import blob_fields, record
from windlass.core.errors import WindlassError
from windlass.core.ids import format_id
from windlass.core.job import Blob, Ending, NewJob
from windlass.core.operations import Enqueued
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.core.text.durations import format_duration
from windlass.core.text.error_text import blob_line
from windlass.core.validation.bounds import INT32_MAX, INT32_MIN, UINT32_MAX
from windlass.service import Service

# A job typed by hand is treated as one that the SDK sends.
TRIES, TIMEOUT, KEEP_RESULT = 3, "15m", "1h"
NO_ARGUMENTS = Blob(b"{}")
WAITED_AT_ONCE_MS = 3_600_000
TRY_AGAIN = 75


@click.command(short_help="Put a job into a queue.")
@click.argument("queue")
@click.argument("name")
@click.argument("payload", type=PAYLOAD, required=False)
@click.option("--delay", type=DURATION, help="Start not before this long from now.")
@click.option("--run-at", type=INSTANT, help="Start not before, e.g. 2027-01-31T10:30Z.")
@click.option(
    "--priority", type=click.IntRange(INT32_MIN, INT32_MAX), metavar="N", default=0, help="Smaller first. Default: 0."
)
@click.option("--unique", default="", metavar="KEY", help="Nothing is added while a job with this key is there.")
@click.option("--tag", "tags", multiple=True, help="Label it; may be repeated.")
@click.option("--expires", type=DURATION_OR_INSTANT, help="Fail it unless it has started by then.")
@click.option(
    "--tries",
    type=click.IntRange(0, UINT32_MAX),
    metavar="N",
    default=TRIES,
    help=f"Attempts; 0: any number. Default: {TRIES}.",
)
@click.option("--timeout", type=DURATION, default=TIMEOUT, help=f"Of an attempt; 0s: none. Default: {TIMEOUT}.")
@click.option(
    "--keep-result", type=DURATION_OR_FOREVER, default=KEEP_RESULT, help=f"0s: not at all. Default: {KEEP_RESULT}."
)
@click.option("--lane", "--tenant", "lane", default="", help="Line within the queue that it stands in.")
@click.option("--id", "job_id", type=JOB_ID, help="Its id: the same command again adds nothing twice.")
@click.option("--wait", is_flag=True, help="Wait for its end and print its result.")
@click.option("--wait-limit", type=DURATION, help="Wait at most this long, then end with 75; the job goes on.")
@json_option
@connected
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
    """Put a job called NAME into QUEUE and print its id.

    PAYLOAD is JSON: an object becomes the task's keyword arguments, anything else its one argument. - reads it from
    standard input, @FILE from a file. Without one, the task is called without arguments.

    \b
    Example:
      windlass enqueue mail send_mail '{"order_id": 7}' --delay 10m --tag shop
      windlass enqueue mail send_mail @order.json --wait
    """
    if options["delay"] is not None and options["run_at"] is not None:
        raise click.UsageError("Give --delay or --run-at, not both.")
    job = _job(queue, name, payload or NO_ARGUMENTS, options)
    answer = service.enqueue([job]).one().wait()
    if wait or wait_limit is not None:
        _print_end(answer.id, _end_of(service, answer.id, wait_limit), as_json)
    else:
        _print_accepted(answer, queue, as_json)


def _job(queue: str, name: str, payload: Blob, options: dict[str, Any]) -> NewJob:
    expires = options["expires"] or When()
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
    """The id alone for scripts; what is worth knowing besides goes to stderr."""
    if as_json:
        json_document(record(answer))
        return
    key = format_id(answer.id)
    say(f"{key}  {answer.status} in {queue}" if is_for_people() and answer.status != "existing" else key)
    if answer.status == "existing":
        note("A job with this id or unique key is there already; nothing was added.")
    elif answer.status == "ended":
        note("A job with this id has ended already; nothing was added.")
    if not answer.is_durable:
        note("Accepted, but the durability that was asked for was not confirmed in time.")


# Waiting


def _end_of(service: Service, job_id: bytes, limit_ms: int | None) -> Ending:
    key = format_id(job_id)
    if is_for_people():
        note(f"Waiting for {key}; Ctrl-C leaves it to itself.")
    left_ms = limit_ms
    while left_ms is None or left_ms > 0:
        step_ms = WAITED_AT_ONCE_MS if left_ms is None else min(left_ms, WAITED_AT_ONCE_MS)
        ending = service.result(job_id, wait_ms=step_ms).wait()
        if ending is not None:
            return ending
        left_ms = None if left_ms is None else left_ms - step_ms
    note(f"windlass: {key} has not ended within {format_duration(limit_ms or 0)}; it goes on.")
    sys.exit(TRY_AGAIN)


def _print_end(job_id: bytes, ending: Ending, as_json: bool) -> None:
    last = ending.last_attempt
    if as_json:
        result = blob_fields("result", ending.result) if ending.result else {"result": None}
        end = {"id": format_id(job_id), "state": ending.state.label, **result}
        json_document(end | ({"last_attempt": record(last)} if last else {}))
    elif ending.result is not None:
        text = as_text(ending.result) if is_for_people() else blob_line(ending.result)
        click.echo(printable(text, keeps_lines=True))
    if ending.state is State.FINISHED:
        return
    if last is not None and last.error is not None and not as_json:
        click.echo(printable(error_text(last.error), keeps_lines=True), err=True)
    reason = f": {last.reason}" if last is not None else ""
    raise WindlassError(f"{format_id(job_id)} {ending.state.label}{reason}.")
