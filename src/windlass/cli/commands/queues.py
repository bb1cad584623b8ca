"""windlass queues: list, show, scale, pause, resume, configure, purge and remove queues."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from windlass.cli import queue_page
from windlass.cli.bulk import BATCH_SIZE, accepted_yes_option, batches, confirm, run_in_batches, yes_option
from windlass.cli.connection import with_service
from windlass.cli.job_selection import JobSelection, find
from windlass.cli.names.suggestions import note_missing_queue
from windlass.cli.output import (
    Column,
    DurationCell,
    format_count,
    json_option,
    print_fields,
    print_json,
    print_json_line,
    print_note,
    print_table,
    print_text,
)
from windlass.cli.parameters import ASSIGNMENT, DURATION, DURATION_OR_FOREVER, SIZE
from windlass.cli.records import to_record
from windlass.core.errors import Refusal
from windlass.core.queue import Configuration, QueueStats
from windlass.core.scale import ScaleTarget
from windlass.core.states import PENDING
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

COLUMNS = (
    Column("queue", shrinks=16),
    Column("queued", is_right=True),
    Column("scheduled", is_right=True, rank=1),
    Column("waiting", is_right=True, rank=2),
    Column("running", is_right=True),
    Column("failed", is_right=True),
    Column("oldest", is_right=True),
    Column("paused"),
    Column("cancelled", is_right=True, rank=3),
    Column("finished", is_right=True, rank=4),
    Column("takers", is_right=True, rank=5),
    Column("bytes", is_right=True, rank=6),
    Column("suspended", is_right=True, rank=2),
)
ROWS_TOGETHER = 1_000
PURGED = ("scheduled", "waiting", "queued")  # in the order of a job's states, so that no job is missed
queue_argument = click.argument("queue")
lane_option = click.option("--lane", default="", help="Only this lane of the queue.")
name_option = click.option("--name", default="", help="Only jobs with this name (the queue needs --name-lanes).")


@click.group()
def queues() -> None:
    """Show, pause and configure queues."""


@queues.command("ls")
@json_option
@with_service
def ls(service: Service, as_json: bool) -> None:
    """List all queues with their job counts.

    With --json, one object per line. Many queues are printed in parts, as they are read.

    \b
    Example:
      windlass queues ls
    """
    for found in _parts(service):
        if as_json:
            for stats in found:
                print_json_line(to_record(stats))
        else:
            print_table(COLUMNS, (_row(stats) for stats in found), empty="No queues.")


def _parts(service: Service) -> Iterator[Sequence[QueueStats]]:
    """Yield the statistics of all queues, by name, in parts of many: a table has its columns for one part."""
    part: list[QueueStats] = []
    after, is_first = "", True
    while after or is_first:
        page = service.queues_page(after=after, most=PAGE_MAX).wait()
        part += page.stats
        after, is_first = page.after, False
        if len(part) >= ROWS_TOGETHER or not after:
            yield part
            part = []


def _row(stats: QueueStats) -> tuple[object, ...]:
    return (
        stats.queue,
        stats.queued,
        stats.scheduled,
        stats.waiting,
        stats.running,
        stats.failures,
        DurationCell(stats.oldest_age_ms),
        "paused" if stats.is_paused else "",
        stats.cancelled,
        stats.finished,
        stats.waiting_takers,
        stats.bytes,
        stats.suspended,
    )


@queues.command()
@queue_argument
@json_option
@with_service
def show(service: Service, queue: str, as_json: bool) -> None:
    """Show the job counts, rates and properties of a queue.

    Also its pauses, weights, and the limits that may apply.

    \b
    Example:
      windlass queues show mail
    """
    page = queue_page.read(service, queue)
    if as_json:
        print_json(to_record(page))
    else:
        queue_page.show(page)
    if note_missing_queue(service, queue):
        sys.exit(1)


@queues.command()
@queue_argument
@click.option("--slots", default=1, show_default=True, metavar="N", help="Jobs that a worker runs at once.")
@click.option("--target", default=0, metavar="N", help="Queued and running jobs per worker. Default: ten per slot.")
@click.option(
    "--target-age", "target_age_ms", type=DURATION, default=0, help="How long a job may wait. Default: any time."
)
@click.option("--min", default=0, show_default=True, metavar="N", help="The smallest answer.")
@click.option("--max", default=100, show_default=True, metavar="N", help="The largest answer.")
@json_option
@with_service
def scale(service: Service, queue: str, as_json: bool, **goal: int) -> None:
    """Print how many workers a queue needs now, for a scaler.

    \b
    Example:
      windlass queues scale mail --target 10 --max 20
    """
    note_missing_queue(service, queue)
    answer = service.scale(queue, ScaleTarget(**goal)).wait()
    if as_json:
        print_json(to_record(answer))
    else:
        click.echo(str(answer.workers))


@queues.command()
@queue_argument
@lane_option
@name_option
@click.option("--reason", default="", help="Shown by `jobs explain` and `queues show`.")
@accepted_yes_option
@with_service
def pause(service: Service, queue: str, lane: str, name: str, reason: str) -> None:
    """Stop takes from a queue. Running jobs continue.

    \b
    Example:
      windlass queues pause mail --reason "provider is down"
    """
    note_missing_queue(service, queue)
    is_new = service.pause(queue, lane=lane, name=name, reason=reason).wait()
    print_text(f"{_describe_target(queue, lane, name)} {'is paused' if is_new else 'was already paused'}.")


@queues.command()
@queue_argument
@lane_option
@name_option
@accepted_yes_option
@with_service
def resume(service: Service, queue: str, lane: str, name: str) -> None:
    """Allow takes from a queue again.

    \b
    Example:
      windlass queues resume mail
    """
    note_missing_queue(service, queue)
    was_paused = service.resume(queue, lane=lane, name=name).wait()
    print_text(f"{_describe_target(queue, lane, name)} {'is resumed' if was_paused else 'was not paused'}.")


def _describe_target(queue: str, lane: str, name: str) -> str:
    part = f"Lane {lane} of queue" if lane else f"The name {name} in queue" if name else "Queue"
    return f"{part} {queue}"


@queues.command()
@queue_argument
@click.option(
    "--state", "-s", "states", multiple=True, type=click.Choice(PURGED), help="State of the jobs. Default: all three."
)
@yes_option
@with_service
def purge(service: Service, queue: str, states: tuple[str, ...], yes: bool) -> None:
    """Delete the jobs of a queue that have not started.

    Running, failed and finished jobs are kept, and so are jobs that arrive during the purge.

    \b
    Example:
      windlass queues purge mail --yes
    """
    if note_missing_queue(service, queue):
        sys.exit(1)
    wanted = [state for state in PURGED if not states or state in states]
    (stats,) = service.stats([queue]).wait()
    total = sum(getattr(stats, state) for state in wanted)
    if total == 0:
        print_note(f"No jobs of queue {queue} to delete.")
        return
    confirm(f"Delete {format_count(total, 'job')} of queue {queue} permanently?", yes)
    until_ms = service.now().wait()
    run_in_batches("Deleted", _deleting(service), batches(_purgeable_ids(service, queue, wanted, until_ms)), total)


def _purgeable_ids(service: Service, queue: str, states: Sequence[str], until_ms: int) -> Iterator[bytes]:
    """Yield the ids page by page. Each page is deleted before the next is read."""
    for job in find(service, JobSelection([queue], states), BATCH_SIZE):
        if job.state in PENDING and job.created_at_ms <= until_ms:
            yield job.id


def _deleting(service: Service) -> Any:
    def delete(ids: Sequence[bytes]) -> list[str | Refusal]:
        return service.delete(ids).wait()

    return delete


@queues.command("rm")
@queue_argument
@click.option("--force", is_flag=True, help="Also if live workers serve the queue.")
@yes_option
@with_service
def rm(service: Service, queue: str, force: bool, yes: bool) -> None:
    """Remove a queue that holds no jobs.

    Its properties, pauses, weights and history go with its name. The next job creates the queue again, with the default
    properties. A queue that live workers serve is removed only with --force.

    \b
    Example:
      windlass queues rm mial --yes
    """
    if note_missing_queue(service, queue):
        sys.exit(1)
    confirm(f"Remove queue {queue} with its properties and history?", yes)
    service.remove_queue(queue, force=force).wait()
    print_text(f"Queue {queue} is removed.")


@queues.command()
@queue_argument
@click.option("--lease", "lease_ms", type=DURATION_OR_FOREVER, help="Duration of a lease without a heartbeat.")
@click.option("--max-length", type=click.IntRange(0), metavar="N", help="Maximum of waiting jobs; 0: no limit.")
@click.option("--max-bytes", type=SIZE, help="Maximum size of jobs that have not ended; 0: no limit.")
@click.option("--history-length", type=click.IntRange(0), metavar="N", help="Number of finished jobs to keep.")
@click.option("--history-bytes", type=SIZE, help="Maximum size of that history.")
@click.option(
    "--retention", "retention_ms", type=DURATION_OR_FOREVER, help="How long to keep failed and cancelled jobs."
)
@click.option(
    "--name-lanes/--no-name-lanes", default=None, help="One lane per job name, so that takes can select names."
)
@click.option("--aging", "aging_ms", type=DURATION, help="Waiting time that counts as one step of priority; 0s: none.")
@click.option("--fair-share/--no-fair-share", default=None, help="Lanes take turns, regardless of their length.")
@click.option(
    "--lease-renewal/--no-lease-renewal",
    default=None,
    help="Whether heartbeats extend leases; without, a worker has a fixed time for a job.",
)
@click.option(
    "--index",
    multiple=True,
    metavar="FIELD",
    help="Payload field by which later jobs are found, e.g. customer.email; repeatable. Replaces the former fields.",
)
@click.option(
    "--weight",
    "weights",
    type=ASSIGNMENT,
    multiple=True,
    metavar="LANE=N",
    help="Weight of a lane, 1 to 100; repeatable.",
)
@click.option(
    "--default", "defaults", multiple=True, metavar="PROPERTY", help="Reset a property, e.g. lease; repeatable."
)
@accepted_yes_option
@with_service
def configure(
    service: Service, queue: str, weights: tuple[tuple[str, str], ...], defaults: tuple[str, ...], **changes: Any
) -> None:
    """Change properties of a queue. Jobs can keep running.

    Prints all properties afterwards; a star marks a value that is not the default.

    \b
    Example:
      windlass queues configure mail --lease 1m --fair-share --weight gold=3
      windlass queues configure orders --index order_id --index customer.email
    """
    wanted = {field: value for field, value in changes.items() if value is not None and value != ()}
    wanted |= {_parse_property(name): None for name in defaults}
    lanes = {lane: _parse_weight(text) for lane, text in weights}
    if not wanted and not lanes:
        raise click.UsageError(
            "Give at least one change, e.g. --lease 1m; `windlass queues show` shows the properties."
        )
    note_missing_queue(service, queue)
    configuration = service.configure(queue, wanted).wait()
    if lanes:
        service.set_weights(queue, lanes).wait()
    print_fields(queue_page.property_fields(queue, configuration))


def _parse_property(name: str) -> str:
    field = name.replace("-", "_")
    for known in Configuration.__struct_fields__:
        if field in (known, known.removesuffix("_ms")):
            return known
    names = ", ".join(known.removesuffix("_ms").replace("_", "-") for known in Configuration.__struct_fields__)
    raise click.BadParameter(f"A queue has no property {name!r}; it has {names}.", param_hint="--default")


def _parse_weight(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"{text!r} is not a whole number; write LANE=3.", param_hint="--weight")
    return int(text)
