"""windlass tasks: list tasks and show one."""

from __future__ import annotations

import sys

import click

from windlass.cli.connection import with_service
from windlass.cli.output import Column, DurationCell, InstantCell, json_option, print_json, print_json_line, print_table
from windlass.cli.records import to_record
from windlass.core.stats.task_figures import TaskSummary
from windlass.service import Service
from windlass.wire.workers import task_shape, task_summary_shape

from . import page as task_page

COLUMNS = (
    Column("task", shrinks=16),
    Column("finished", is_right=True),
    Column("failed", is_right=True),
    Column("retried", is_right=True, rank=2),
    Column("p50", is_right=True, rank=1),
    Column("p95", is_right=True),
    Column("p99", is_right=True, rank=3),
    Column("workers", is_right=True),
    Column("kept failures", is_right=True, rank=4),
    Column("queues", rank=5, shrinks=10),
    Column("reported", rank=6),
)


@click.group()
def tasks() -> None:
    """Show how tasks ran, and how they failed."""


@tasks.command("ls")
@json_option
@with_service
def ls(service: Service, as_json: bool) -> None:
    """List tasks with their figures of the last hour.

    These are the tasks that workers know or have run within two days. The workers of the SDK measure the figures, and
    report them every few seconds. Failed counts attempts after which the job failed, retried those after which it is
    tried again. With --json, one object per line.

    \b
    Example:
      windlass tasks ls
    """
    found = service.tasks().wait()
    if as_json:
        for task in found:
            print_json_line(to_record(task_summary_shape(task)))
        return
    now_ms = service.now().wait()
    print_table(COLUMNS, (_row(task, now_ms) for task in found), empty="No tasks are known.")


def _row(task: TaskSummary, now_ms: int) -> tuple[object, ...]:
    figures = task.figures
    return (
        task.name,
        figures.finished,
        figures.failed,
        figures.retried,
        DurationCell(figures.run_p50_ms),
        DurationCell(figures.run_p95_ms),
        DurationCell(figures.run_p99_ms),
        task.workers,
        task.failures,
        ",".join(task.queues),
        InstantCell(task.reported_at_ms, now_ms),
    )


@tasks.command()
@click.argument("name")
@click.option(
    "--last", type=click.Choice(list(task_page.WINDOWS)), default="1h", show_default=True, help="Range of the figures."
)
@json_option
@with_service
def show(service: Service, name: str, last: task_page.WindowName, as_json: bool) -> None:
    """Show the rates, run times, workers and errors of a task.

    \b
    Example:
      windlass tasks show send_mail
      windlass tasks show send_mail --last 1d
    """
    window = task_page.WINDOWS[last]
    found = service.task(name, step_minutes=window.step_minutes, steps=window.steps).wait()
    if as_json:
        print_json(to_record(task_shape(found)))
    else:
        task_page.show(found, window)
    if not found.is_known:
        sys.exit(1)
