"""windlass export and windlass import: all data as a stream of JSON lines."""

from __future__ import annotations

import sys

import click

from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import with_service
from windlass.cli.output import print_note
from windlass.core.errors import BadInput
from windlass.core.export.import_report import ImportReport
from windlass.service import Service

from .files import count_lines, open_input, read_lines, with_progress, write_file

_COUNTED_STATES = (
    "queued", "scheduled", "waiting", "suspended", "running", "finished", "failed", "cancelled", "history",
)  # fmt: skip
REASONS_SHOWN = 10


@click.command("export", short_help="Export all data to a file.")
@click.argument("file", default="-")
@with_service
def export(service: Service, file: str) -> None:
    """Write all jobs, schedules, limits and queues to FILE (or standard output) as JSON lines.

    A file whose name ends in .gz is compressed. FILE is created when the export is complete: an interrupted export
    leaves no file.

    \b
    Example:
      windlass export backup.jsonl.gz
    """
    count = write_file(file, service.export(), sum(count_jobs(service).values()))
    click.echo(f"Exported {count:,} lines.", err=True)


@click.command("import", short_help="Import an export.")
@click.argument("file")
@click.option("--merge", is_flag=True, help="Import into a deployment with data. Existing data is not changed.")
@accepted_yes_option
@with_service
def import_jobs(service: Service, file: str, merge: bool) -> None:
    """Read an export from FILE (or standard input, -). Importing a file again adds nothing twice.

    Start workers after the import.

    \b
    Example:
      windlass import backup.jsonl.gz --url redis://elsewhere:6379
    """
    if not merge and has_data(service):
        raise BadInput("This deployment contains data already: use --merge to import into it.")
    if not import_file(service, file, count_lines(file)):
        sys.exit(1)


def import_file(service: Service, file: str, total: int | None) -> bool:
    """Import a file, and report. Return whether everything was imported."""
    with open_input(file) as stream:
        answer = service.import_jobs(with_progress("Imported", read_lines(stream), total)).wait()
    _report(answer)
    return not answer.refused and not answer.unknown_awaited


def has_data(service: Service) -> bool:
    return bool(service.queues().wait() or service.limits().wait() or service.schedules().wait())


# Report


def count_jobs(service: Service) -> dict[str, int]:
    """Count the jobs in each state. Lines of an export that are not jobs are few."""
    stats = service.stats(service.queues().wait()).wait()
    return {state: sum(getattr(queue, state) for queue in stats) for state in _COUNTED_STATES}


def _report(answer: ImportReport) -> None:
    rows = sorted({*answer.added, *answer.existing, *answer.refused})
    click.echo(f"{'':12}{'added':>10}{'there':>10}{'refused':>10}", err=True)
    for kind in rows:
        numbers = (answer.added[kind], answer.existing[kind], answer.refused[kind])
        click.echo(f"{kind:12}" + "".join(f"{number:>10,}" for number in numbers), err=True)
    if answer.remade_ids:
        click.echo(f"{answer.remade_ids:,} ids were replaced to fit the partitions of this deployment.", err=True)
    if answer.unknown_awaited:
        click.echo(
            f"{answer.unknown_awaited:,} jobs that other jobs wait for are missing; wake the waiting jobs.", err=True
        )
    _report_reasons(answer)


def _report_reasons(answer: ImportReport) -> None:
    for refusal in answer.reasons[:REASONS_SHOWN]:
        print_note(f"refused, line {refusal.line}: {refusal.what}: {refusal.reason}")
    more = sum(answer.refused.values()) - REASONS_SHOWN
    if more > 0:
        click.echo(f"… and {more:,} more.", err=True)
