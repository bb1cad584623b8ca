"""windlass jobs logs: the log lines of a job, also while it runs."""

from __future__ import annotations

import asyncio
import contextlib

import click

from windlass.cli.job_page import log_line
from windlass.cli.names.jobs import with_job
from windlass.cli.output import format_count, json_option, print_json_line, print_note
from windlass.cli.records import to_record
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.log import KeptLine, Logs
from windlass.core.text.control_characters import printable
from windlass.sdk.deployment import AnyStore, make_service
from windlass.sdk.job_events import follow_job
from windlass.service import Service


@click.command()
@click.option("--follow", "-f", "follows", is_flag=True, help="Wait for further lines until the job ends.")
@json_option
@with_job
def logs(service: Service, job_id: bytes, follows: bool, as_json: bool) -> None:
    """Show the lines that a job has logged.

    The last 200 lines of a job are kept with it. With --json, one object per line.

    \b
    Example:
      windlass jobs logs 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
      windlass jobs logs 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --follow
    """
    printer = LogPrinter(as_json)
    if not follows:
        printer.show(service.logs(job_id).wait())
        return
    with contextlib.suppress(KeyboardInterrupt):
        print_note(f"The job has {asyncio.run(_follow(service.store.clone(), job_id, printer))}.")


class LogPrinter:
    """Prints each line once. The stored lines are numbered from the first line of the job."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._next = 0  # number of the next line

    def show(self, found: Logs) -> None:
        if found.dropped > self._next:
            dropped = format_count(found.dropped - self._next, "line")
            print_note(f"{dropped} {'is' if found.dropped - self._next == 1 else 'are'} no longer kept.")
        for line in found.lines[max(0, self._next - found.dropped) :]:
            self._print(line)
        self._next = found.dropped + len(found.lines)

    def _print(self, line: KeptLine) -> None:
        if self._as_json:
            print_json_line(to_record(line))
        else:
            click.echo(printable(log_line(line), keeps_lines=True))


async def _follow(store: AnyStore, job_id: bytes, printer: LogPrinter) -> str:
    """Print lines until the job ends, and return how it ended."""
    async with store:
        service = make_service(store)
        how = ""
        async for event in follow_job(service, job_id):
            if event.kind == "snapshot" and not how:
                printer.show(await service.logs(job_id))  # a job of which nothing is kept is an error here
            elif event.kind in ("logged", "snapshot") or event.is_last:
                await _show_rest(service, job_id, printer)
            how = event.kind
        return how


async def _show_rest(service: Service, job_id: bytes, printer: LogPrinter) -> None:
    try:
        printer.show(await service.logs(job_id))
    except (AlreadyEnded, UnknownJob):  # it kept no result, so its log was removed at its end
        return
