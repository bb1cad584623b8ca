"""windlass migrate: move jobs in from the Redis of another job queue."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from windlass.cli.bulk import accepted_yes_option, progress
from windlass.cli.connection import (
    EngineOptions,
    engine_options,
    make_audited_service,
    notify_if_slow,
    open_or_report,
)
from windlass.cli.output import Column, format_count, json_option, print_json, print_note, print_table, print_text
from windlass.cli.records import to_record
from windlass.downloads.startup import download_base
from windlass.migration.downloader import DownloaderReader
from windlass.migration.entries import Reader
from windlass.migration.jobber import JobberReader
from windlass.migration.mover import Mover
from windlass.migration.processor import ProcessorReader
from windlass.migration.report import MigrationReport
from windlass.sdk.deployment import is_server, make_store
from windlass.sdk.remote.address import parse_server_url
from windlass.settings import Settings
from windlass.store.job_source import JobSource

MakeReader = Callable[[JobSource], Reader]
COLUMNS = (Column("queue", shrinks=16), Column("jobs", is_right=True))

_OPTIONS = (
    click.option(
        "--from", "source_url", required=True, help="URL of the Redis that has the jobs, e.g. redis://old:6379/0."
    ),
    click.option("--dry-run", is_flag=True, help="Count the jobs and change nothing, neither there nor here."),
    json_option,
    accepted_yes_option,
)


class MigrateOptions(NamedTuple):
    source_url: str
    is_dry_run: bool
    as_json: bool
    engine: EngineOptions


def migrate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --from, --dry-run, --json and the engine options to a command, as its argument `options`."""

    @engine_options
    @functools.wraps(command)
    def wrapper(*, source_url: str, dry_run: bool, as_json: bool, engine: EngineOptions, **more: Any) -> Any:
        return command(MigrateOptions(source_url, dry_run, as_json, engine), **more)

    return functools.reduce(lambda function, option: option(function), reversed(_OPTIONS), wrapper)


@click.group()
def migrate() -> None:
    """Move jobs in from the Redis of another queue.

    Stop the producers and the workers of the source first. Each job is moved once: repeat a command that was
    interrupted, at any time. docs/migrate.md describes what is moved, and what is left in the source.
    """


@migrate.command()
@click.option("--include-running", is_flag=True, help="Also move jobs that a worker has locked.")
@migrate_options
def jobber(options: MigrateOptions, include_running: bool) -> None:
    """Move jobs in from Jobber.

    \b
    Example:
      windlass migrate jobber --from redis://old:6379/0 --dry-run
    """
    _migrate("jobber", options, lambda source: JobberReader(source, includes_running=include_running))


@migrate.command()
@migrate_options
def processor(options: MigrateOptions) -> None:
    """Move jobs in from processor-job-queue.

    \b
    Example:
      windlass migrate processor --from redis://old:6379/0
    """
    _migrate("processor", options, ProcessorReader)


@migrate.command(short_help="Move downloads and callbacks in.")
@click.option("--download-url", help="Base of the URLs of downloaded files. Default: WINDLASS_DOWNLOAD_URL.")
@migrate_options
def downloader(options: MigrateOptions, download_url: str | None) -> None:
    """Move downloads and pending callbacks in from skroutz's downloader.

    \b
    Example:
      windlass migrate downloader --from redis://old:6379/0 --download-url https://files.example.org
    """
    base = (download_url or "").rstrip("/") or _download_base(options.engine.settings())
    _migrate("downloader", options, lambda source: DownloaderReader(source, base))


def _download_base(settings: Settings) -> str:
    """Return the base of file URLs that the settings name, by default the files of their server."""
    return download_base(settings, str(parse_server_url(settings.url)) if is_server(settings.url) else "")


def _migrate(dialect: str, options: MigrateOptions, make: MakeReader) -> None:
    with JobSource(options.source_url, dialect) as source:
        report = MigrationReport(dialect=dialect, source=str(source), is_dry_run=options.is_dry_run)
        reader = make(source)
        mover = Mover(source, reader, report)
        with progress("Read" if options.is_dry_run else "Moved", reader.count()) as advance:
            if options.is_dry_run:
                mover.count_all(advance)
            else:
                asyncio.run(_move(mover, options.engine, advance))
    if options.as_json:
        print_json(to_record(report))
    else:
        _print(report)
    if not report.is_complete:
        raise click.exceptions.Exit(1)


async def _move(mover: Mover, engine: EngineOptions, advance: Callable[[int], None]) -> None:
    logging.getLogger("windlass").addHandler(logging.NullHandler())
    store = make_store(engine.settings())
    try:
        with notify_if_slow(store):
            await asyncio.to_thread(open_or_report, store)
        await mover.move_all(make_audited_service(store), advance)
    finally:
        await store.close()


def _print(report: MigrationReport) -> None:
    print_table(COLUMNS, sorted(report.queues.items()), empty="No jobs.")
    verb = "Would move" if report.is_dry_run else "Moved"
    print_text(f"{verb} {format_count(report.moved, 'job')} from {report.source}.")
    for line in _details(report):
        print_note(line)
    if report.is_dry_run and report.sample:
        print_note(f"The first: {', '.join(report.sample)}.")
    for problem in report.reasons:
        print_note(f"windlass: left in {problem.key}: {problem.entry}: {problem.reason}")
    if report.problems > len(report.reasons):
        print_note(f"windlass: … and {format_count(report.problems - len(report.reasons), 'more entry')} left.")


def _details(report: MigrationReport) -> Iterator[str]:
    """Yield a sentence for each fact that is not as usual."""
    jobs = functools.partial(format_count, what="job")
    facts = (
        (report.callbacks, f"{jobs(report.callbacks)} had ended, and Windlass delivers the callback."),
        (report.in_flight, f"{jobs(report.in_flight)} had been given to a worker, and will run again first."),
        (report.moved_before, f"{jobs(report.moved_before)} had been moved before, or occurred twice in the lists."),
        (report.existing, f"{jobs(report.existing)} existed here already."),
        (report.changed_ids, f"{jobs(report.changed_ids)} got another id, to fit the partitions of this deployment."),
        (report.done, f"{jobs(report.done)} had ended, with nothing left to do."),
        (report.files, f"Delete {format_count(report.files, 'file')} in the source yourself: it had planned to."),
        (sum(report.workers.values()), "Workers are not moved; they announce themselves again."),
        (report.running, f"{jobs(report.running)} left: a worker has each of them. Stop it, and repeat the command."),
    )
    yield from (text for count, text in facts if count)
    yield from (f"Progress of {job}: {done:.0%}. It starts again." for job, done in report.progress.items())
