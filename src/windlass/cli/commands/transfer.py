"""windlass export and windlass import: all data as a stream of JSON lines."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

import click

from windlass.cli.bulk import progress
from windlass.cli.connection import with_service
from windlass.cli.output import print_note
from windlass.core.errors import BadInput, TooLarge, WindlassError
from windlass.core.export.lines import LINE_MAX, ImportReport
from windlass.service import Service

_COUNTED_STATES = (
    "queued", "scheduled", "waiting", "suspended", "running", "finished", "failed", "cancelled", "history",
)  # fmt: skip
REASONS_SHOWN = 10
SHOWN_EVERY = 200  # lines


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
    lines, total = service.export(), _estimate_lines(service)
    if file == "-":
        count = _write_lines(lines, sys.stdout.buffer, total)
    else:
        with _atomic_file(Path(file)) as stream:
            count = _write_lines(lines, stream, total)
    click.echo(f"Exported {count:,} lines.", err=True)


@click.command("import", short_help="Import an export.")
@click.argument("file")
@click.option("--merge", is_flag=True, help="Import into a deployment with data. Existing data is not changed.")
@with_service
def import_jobs(service: Service, file: str, merge: bool) -> None:
    """Read an export from FILE (or standard input, -). Importing a file again adds nothing twice.

    Start workers after the import.

    \b
    Example:
      windlass import backup.jsonl.gz --url redis://elsewhere:6379
    """
    if not merge and _has_data(service):
        raise BadInput("This deployment contains data already: use --merge to import into it.")
    total = _count_lines(file)
    with _open_input(file) as stream:
        answer = service.import_jobs(_with_progress("Imported", _lines(stream), total)).wait()
    _report(answer)
    if answer.refused or answer.unknown_awaited:
        sys.exit(1)


def _has_data(service: Service) -> bool:
    return bool(service.queues().wait() or service.limits().wait() or service.schedules().wait())


# Files


@contextlib.contextmanager
def _atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a temporary file, and rename it when it is complete and synced to disk. Only the owner may read it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with open(unfinished, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as plain:
            with _open_compressed(path, plain) as stream:
                yield stream
            plain.flush()
            os.fsync(plain.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise WindlassError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _open_compressed(path: Path, plain: IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.GzipFile(path.stem, "wb", fileobj=plain))
    return contextlib.nullcontext(plain)


@contextlib.contextmanager
def _open_input(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as stream:
            yield cast("IO[bytes]", stream)
    except EOFError as error:
        raise BadInput(f"{file} is cut off: its compressed end is missing. Import the whole file again.") from error
    except OSError as error:
        raise WindlassError(f"{file} cannot be read: {error.strerror or error}.") from error


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Read lines of bounded length, so that an endless line does not fill the memory."""
    number = 0
    while line := stream.readline(LINE_MAX + 1):
        number += 1
        if len(line) > LINE_MAX:
            raise TooLarge(f"Line {number} is longer than {LINE_MAX} bytes.")
        yield line


# Progress and report


def _write_lines(lines: Iterable[bytes], stream: IO[bytes], total: int) -> int:
    count = 0
    try:
        for line in _with_progress("Exported", lines, total):
            stream.write(line)
            count += 1
        stream.flush()
    except BrokenPipeError as error:
        raise WindlassError("The reader of the export closed the pipe before the end.") from error
    return count


def _with_progress(verb: str, lines: Iterable[bytes], total: int | None) -> Iterator[bytes]:
    """Pass lines on, and show the progress on a terminal."""
    with progress(verb, total) as advance:
        for number, line in enumerate(lines, 1):
            yield line
            if number % SHOWN_EVERY == 0:
                advance(SHOWN_EVERY)


def _estimate_lines(service: Service) -> int:
    """Estimate the number of lines of an export by the number of jobs. Other lines are few."""
    names = service.queues().wait()
    return sum(sum(getattr(queue, state) for state in _COUNTED_STATES) for queue in service.stats(names).wait())


def _count_lines(file: str) -> int | None:
    """Count the lines of a file for the progress bar. Return None without a terminal, and for standard input."""
    if file == "-" or not sys.stderr.isatty():
        return None
    with _open_input(file) as stream:
        return sum(1 for _ in _lines(stream))


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
