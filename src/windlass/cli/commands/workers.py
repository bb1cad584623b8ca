"""windlass workers: list and stop workers."""

from __future__ import annotations

from collections.abc import Iterator

import click

from windlass.cli.bulk import confirm, yes_option
from windlass.cli.connection import with_service
from windlass.cli.names.workers import all_workers, find_workers, label_of
from windlass.cli.output import (
    ID,
    Column,
    DurationCell,
    InstantCell,
    format_count,
    json_option,
    print_json_line,
    print_table,
    print_text,
)
from windlass.cli.records import to_record
from windlass.core.errors import WindlassError
from windlass.core.ids import format_id
from windlass.core.operations import Worker
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
@click.argument("worker", metavar="WORKER")
@click.option("--all", "all_of_them", is_flag=True, help="All workers with this name.")
@yes_option
@with_service
def stop(service: Service, worker: str, all_of_them: bool, yes: bool) -> None:
    """Ask a worker to stop gracefully. WORKER is its name, its id, or the beginning or end of its id.

    The worker receives the request with its next heartbeat. It then takes no more jobs, finishes its running jobs, and
    exits. A supervisor replaces its process. If several workers match, they are listed and none is stopped; --all stops
    all workers of a name, and asks first.

    \b
    Example:
      windlass workers stop mailer-1
      windlass workers stop 01890a5d-ac96-774b-bcce-b302099a8057
      windlass workers stop mailer --all --yes
    """
    found = find_workers(service, worker)
    if len(found) > 1 and not all_of_them:
        now_ms = service.now().wait()
        print_table(COLUMNS, (_row(match, now_ms) for match in found), empty="")
        raise WindlassError(f"{len(found)} workers match {worker!r}; give the id of one, or --all.")
    if all_of_them:
        confirm(f"Stop {format_count(len(found), 'worker')} called {worker}?", yes)
    for match in found:
        is_new = service.stop_worker(match.id).wait()
        will_stop = "will stop after its running jobs." if is_new else "was already asked to stop."
        print_text(f"Worker {format_id(match.id)} {will_stop}" if all_of_them else f"The worker {will_stop}")


def application_workers(service: Service) -> Iterator[Worker]:
    """Yield the workers of applications, without the parts of servers that take jobs."""
    return (worker for worker in all_workers(service) if not worker.info.component)


def _row(worker: Worker, now_ms: int) -> tuple[object, ...]:
    info = worker.info
    longest_ms = max((now_ms - job.since_ms for job in worker.running), default=None)
    return (
        format_id(worker.id),
        label_of(worker),
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
