"""windlass workers: who works, on what."""

from __future__ import annotations

from collections.abc import Iterator

import click

from windlass.cli.connection import connected
from windlass.cli.output import ID, At, Column, Span, json_line, json_option, say, table
from windlass.cli.parameters import JOB_ID
from windlass.cli.records import record
from windlass.core.ids import format_id
from windlass.core.operations import Worker
from windlass.core.validation.bounds import PAGE_MAX
from windlass.service import Service

COLUMNS = (
    ID._replace(rank=5),
    Column("name", shrinks=12),
    Column("host", rank=3, shrinks=12),
    Column("pid", is_right=True, rank=4),
    Column("queues", shrinks=12),
    Column("running"),
    Column("longest", is_right=True, rank=2),
    Column("started", rank=1),
    Column("seen", rank=6),
    Column("heartbeat"),
)


@click.group()
def workers() -> None:
    """Look at workers, and stop them."""


@workers.command("ls")
@json_option
@connected
def ls(service: Service, as_json: bool) -> None:
    """List registered workers and how busy they are.

    With --json, one object per line, with the ids of the jobs that each runs.

    \b
    Example:
      windlass workers ls
    """
    now_ms = service.now().wait()
    if as_json:
        for worker in everyone(service):
            json_line(record(worker))
    else:
        table(COLUMNS, (_row(worker, now_ms) for worker in everyone(service)), empty="No workers are registered.")


@workers.command()
@click.argument("worker", type=JOB_ID)
@connected
def stop(service: Service, worker: bytes) -> None:
    """Ask a worker to end gently.

    It hears so with its next heartbeat: it takes no more, ends what it runs, and leaves. A process that has a
    supervisor is replaced by another.

    \b
    Example:
      windlass workers stop 01890a5d-ac96-774b-bcce-b302099a8057
    """
    is_new = service.stop_worker(worker).wait()
    say("It ends when its jobs have ended." if is_new else "It was asked already.")


def everyone(service: Service) -> Iterator[Worker]:
    start = 0
    while page := service.workers(start=start, most=PAGE_MAX).wait():
        yield from page
        start += len(page)


def _row(worker: Worker, now_ms: int) -> tuple[object, ...]:
    info = worker.info
    longest_ms = max((now_ms - one.since_ms for one in worker.running), default=None)
    return (
        format_id(worker.id),
        info.name,
        info.host,
        str(info.pid) if info.pid else "",
        ",".join(info.queues),
        f"{worker.running_count} of {info.slots}",
        Span(longest_ms),
        At(worker.started_at_ms, now_ms),
        At(worker.beat_at_ms, now_ms),
        _life(worker, now_ms),
    )


def _life(worker: Worker, now_ms: int) -> str:
    if worker.silent_at_ms <= now_ms:
        return "silent"
    return "stopping" if worker.stopping_since_ms else "in time"
