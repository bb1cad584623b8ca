"""windlass queues: what waits where, pauses, properties, purges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from windlass.cli import queue_page
from windlass.cli.bulk import STEP, ask, carry_out, in_steps, yes_option
from windlass.cli.connection import connected
from windlass.cli.job_selection import Wanted, find
from windlass.cli.output import Column, Span, counted, fields, json_document, json_line, json_option, note, say, table
from windlass.cli.parameters import ASSIGNMENT, DURATION, DURATION_OR_FOREVER, SIZE
from windlass.cli.records import record
from windlass.core.errors import Refusal
from windlass.core.queue import Configuration, QueueStats
from windlass.core.states import PENDING
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
)
PURGED = ("scheduled", "waiting", "queued")  # in the order in which jobs move on, so that none slips through
queue_argument = click.argument("queue")
lane_option = click.option("--lane", default="", help="Only this lane of the queue.")
name_option = click.option("--name", default="", help="Only jobs of this name (the queue needs --name-lanes).")


@click.group()
def queues() -> None:
    """Look at queues, pause and configure them."""


@queues.command("ls")
@json_option
@connected
def ls(service: Service, as_json: bool) -> None:
    """List all queues with what they hold.

    With --json, one object per line.

    \b
    Example:
      windlass queues ls
    """
    found = service.stats(service.queues().wait()).wait()
    if as_json:
        for stats in found:
            json_line(record(stats))
    else:
        table(COLUMNS, (_row(stats) for stats in found), empty="No queues.")


def _row(stats: QueueStats) -> tuple[object, ...]:
    return (
        stats.queue,
        stats.queued,
        stats.scheduled,
        stats.waiting,
        stats.running,
        stats.failed,
        Span(stats.oldest_age_ms),
        "paused" if stats.is_paused else "",
        stats.cancelled,
        stats.finished,
        stats.waiting_takers,
        stats.bytes,
    )


@queues.command()
@queue_argument
@json_option
@connected
def show(service: Service, queue: str, as_json: bool) -> None:
    """Show what a queue holds, its rates and its properties.

    With pauses, weights, and the limits that may concern it.

    \b
    Example:
      windlass queues show mail
    """
    page = queue_page.read(service, queue)
    if as_json:
        json_document(record(page))
    else:
        queue_page.show(page)


@queues.command()
@queue_argument
@lane_option
@name_option
@click.option("--reason", default="", help="Shown to whoever asks why nothing runs.")
@connected
def pause(service: Service, queue: str, lane: str, name: str, reason: str) -> None:
    """Let nothing be taken from a queue; what runs goes on.

    \b
    Example:
      windlass queues pause mail --reason "provider is down"
    """
    is_new = service.pause(queue, lane=lane, name=name, reason=reason).wait()
    say(f"{_what(queue, lane, name)} {'is paused' if is_new else 'was paused already'}.")


@queues.command()
@queue_argument
@lane_option
@name_option
@connected
def resume(service: Service, queue: str, lane: str, name: str) -> None:
    """Let jobs be taken from a queue again, at once.

    \b
    Example:
      windlass queues resume mail
    """
    was_paused = service.resume(queue, lane=lane, name=name).wait()
    say(f"{_what(queue, lane, name)} {'goes on' if was_paused else 'was not paused'}.")


def _what(queue: str, lane: str, name: str) -> str:
    part = f"Lane {lane} of queue" if lane else f"The name {name} in queue" if name else "Queue"
    return f"{part} {queue}"


@queues.command()
@queue_argument
@click.option(
    "--state", "-s", "states", multiple=True, type=click.Choice(PURGED), help="Only these. Default: all three."
)
@yes_option
@connected
def purge(service: Service, queue: str, states: tuple[str, ...], yes: bool) -> None:
    """Delete the jobs of a queue that have not started.

    What runs, failed or finished stays, and so do jobs that come in meanwhile.

    \b
    Example:
      windlass queues purge mail --yes
    """
    wanted = [state for state in PURGED if not states or state in states]
    (stats,) = service.stats([queue]).wait()
    total = sum(getattr(stats, state) for state in wanted)
    if total == 0:
        note(f"Nothing of queue {queue} waits.")
        return
    ask(f"Delete {counted(total, 'job')} of queue {queue} for good?", yes)
    until_ms = service.now().wait()
    carry_out("Deleted", _deleting(service), in_steps(_waiting(service, queue, wanted, until_ms)), total)


def _waiting(service: Service, queue: str, states: Sequence[str], until_ms: int) -> Iterator[bytes]:
    """Page by page, each deleted before the next is read."""
    for job in find(service, Wanted([queue], states), STEP):
        if job.state in PENDING and job.created_at_ms <= until_ms:
            yield job.id


def _deleting(service: Service) -> Any:
    def delete(ids: Sequence[bytes]) -> list[str | Refusal]:
        return service.delete(ids).wait()

    return delete


@queues.command()
@queue_argument
@click.option("--lease", "lease_ms", type=DURATION_OR_FOREVER, help="How long a lease holds without a heartbeat.")
@click.option("--max-length", type=click.IntRange(0), metavar="N", help="Waiting jobs; 0: no bound.")
@click.option("--max-bytes", type=SIZE, help="Bytes of jobs that have not ended; 0: no bound.")
@click.option("--history-length", type=click.IntRange(0), metavar="N", help="Finished jobs kept to be looked at.")
@click.option("--history-bytes", type=SIZE, help="Bytes of that history.")
@click.option("--retention", "retention_ms", type=DURATION_OR_FOREVER, help="Of failed and cancelled jobs.")
@click.option("--name-lanes/--no-name-lanes", default=None, help="One lane per name, so that names can be chosen.")
@click.option("--aging", "aging_ms", type=DURATION, help="Waiting that is worth one step of priority; 0s: none.")
@click.option("--fair-share/--no-fair-share", default=None, help="Lanes take turns, however long each is.")
@click.option(
    "--weight", "weights", type=ASSIGNMENT, multiple=True, metavar="LANE=N", help="Turns of a lane, 1 to 100."
)
@click.option("--default", "defaults", multiple=True, metavar="PROPERTY", help="Set back, e.g. lease; may be repeated.")
@connected
def configure(
    service: Service, queue: str, weights: tuple[tuple[str, str], ...], defaults: tuple[str, ...], **changes: Any
) -> None:
    """Change properties of a queue while jobs flow.

    All of them are shown then; a star marks what is not the default.

    \b
    Example:
      windlass queues configure mail --lease 1m --fair-share --weight gold=3
    """
    wanted = {field: value for field, value in changes.items() if value is not None}
    wanted |= {_field(name): None for name in defaults}
    lanes = {lane: _weight(text) for lane, text in weights}
    if not wanted and not lanes:
        raise click.UsageError("Say what to change, e.g. --lease 1m; `windlass queues show` shows what is set.")
    configuration = service.configure(queue, wanted).wait()
    if lanes:
        service.set_weights(queue, lanes).wait()
    fields(queue_page.properties(configuration))


def _field(name: str) -> str:
    field = name.replace("-", "_")
    for known in Configuration.__struct_fields__:
        if field in (known, known.removesuffix("_ms")):
            return known
    names = ", ".join(known.removesuffix("_ms").replace("_", "-") for known in Configuration.__struct_fields__)
    raise click.BadParameter(f"A queue has no property {name!r}; it has {names}.", param_hint="--default")


def _weight(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise click.BadParameter(f"{text!r} is not a whole number; write LANE=3.", param_hint="--weight")
    return int(text)
