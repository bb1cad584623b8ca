"""windlass workers: list and stop workers."""

from __future__ import annotations

from collections.abc import Iterator

import click

from windlass.cli.connection import with_service
from windlass.cli.output import (
    ID,
    Column,
    DurationCell,
    InstantCell,
    json_option,
    print_json_line,
    print_table,
    print_text,
)
from windlass.cli.parameters import JOB_ID
from windlass.cli.records import to_record
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
    """List and stop workers."""


@workers.command("ls")
@json_option
@with_service
def ls(service: Service, as_json: bool) -> None:
    """List registered workers and how busy they are.

    With --json, one object per line, with the ids of the running jobs, and with versions and memory. This list also has
    the parts of servers that take jobs, each with its `component`.

    \b
    Example:
      windlass workers ls
    """
    now_ms = service.now().wait()
    if as_json:
        for worker in all_workers(service):
            print_json_line(to_record(worker))
    else:
        print_table(
            COLUMNS,
            (_row(worker, now_ms) for worker in application_workers(service)),
            empty="No workers are registered.",
        )


@workers.command()
@click.argument("worker", type=JOB_ID)
@with_service
def stop(service: Service, worker: bytes) -> None:
    """Ask a worker to stop gracefully.

    The worker receives the request with its next heartbeat. It then takes no more jobs, finishes its running jobs, and
    exits. A supervisor replaces its process.

    \b
    Example:
      windlass workers stop 01890a5d-ac96-774b-bcce-b302099a8057
    """
    is_new = service.stop_worker(worker).wait()
    print_text("The worker will stop after its running jobs." if is_new else "The worker was already asked to stop.")


def all_workers(service: Service) -> Iterator[Worker]:
    start = 0
    while page := service.workers(start=start, most=PAGE_MAX).wait():
        yield from page
        start += len(page)


def application_workers(service: Service) -> Iterator[Worker]:
    """Yield the workers of applications, without the parts of servers that take jobs."""
    return (worker for worker in all_workers(service) if not worker.info.component)


def _row(worker: Worker, now_ms: int) -> tuple[object, ...]:
    info = worker.info
    longest_ms = max((now_ms - job.since_ms for job in worker.running), default=None)
    return (
        format_id(worker.id),
        info.name,
        info.host,
        str(info.pid) if info.pid else "",
        ",".join(info.queues),
        f"{worker.running_count} of {info.slots}",
        DurationCell(longest_ms),
        InstantCell(worker.started_at_ms, now_ms),
        InstantCell(worker.beat_at_ms, now_ms),
        _heartbeat_state(worker, now_ms),
    )


def _heartbeat_state(worker: Worker, now_ms: int) -> str:
    if worker.silent_at_ms <= now_ms:
        return "silent"
    return "stopping" if worker.stopping_since_ms else "in time"
