"""windlass export and windlass import: everything out as a stream, and in again."""

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
from windlass.cli.connection import connected
from windlass.cli.output import note
from windlass.core.errors import BadInput, TooLarge, WindlassError
from windlass.core.export.lines import LINE_MAX, ImportReport
from windlass.service import Service

_COUNTED = ("queued", "scheduled", "waiting", "running", "finished", "failed", "cancelled", "history")
REASONS_SHOWN = 10
SHOWN_EVERY = 200  # lines


@click.command("export", short_help="Write everything to a file.")
@click.argument("file", default="-")
@connected
def export(service: Service, file: str) -> None:
    """Write all jobs, schedules, limits and queues to FILE (or standard output) as lines of JSON.

    A name that ends in .gz is compressed. FILE appears when it is complete: an export that is broken off leaves
    nothing behind.

    \b
    Example:
      windlass export backup.jsonl.gz
    """
    lines, total = service.export(), _expected(service)
    if file == "-":
        count = _written(lines, sys.stdout.buffer, total)
    else:
        with _appearing(Path(file)) as stream:
            count = _written(lines, stream, total)
    click.echo(f"Exported {count:,} lines.", err=True)


@click.command("import", short_help="Read an export back in.")
@click.argument("file")
@click.option("--merge", is_flag=True, help="Import though there is something already; what is there stays as it is.")
@connected
def import_jobs(service: Service, file: str, merge: bool) -> None:
    """Read an export from FILE (or standard input, -). Importing the same file again adds nothing twice.

    Start workers when it is done.

    \b
    Example:
      windlass import backup.jsonl.gz --url redis://elsewhere:6379
    """
    if not merge and _holds_something(service):
        raise BadInput("There is something in this deployment already: give --merge to import into it all the same.")
    total = _counted(file)
    with _reading(file) as stream:
        answer = service.import_jobs(_shown("Imported", _lines(stream), total)).wait()
    _report(answer)
    if answer.refused or answer.unknown_awaited:
        sys.exit(1)


def _holds_something(service: Service) -> bool:
    return bool(service.queues().wait() or service.limits().wait() or service.schedules().wait())


# Files


@contextlib.contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
    """Written beside its name, and put there when it is complete and on the disk. Only its owner may read it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with open(unfinished, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as plain:
            with _compressed(path, plain) as stream:
                yield stream
            plain.flush()
            os.fsync(plain.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise WindlassError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _compressed(path: Path, plain: IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.GzipFile(path.stem, "wb", fileobj=plain))
    return contextlib.nullcontext(plain)


@contextlib.contextmanager
def _reading(file: str) -> Iterator[IO[bytes]]:
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
    """Lines of bounded length: one that never ends must not fill the memory."""
    number = 0
    while line := stream.readline(LINE_MAX + 1):
        number += 1
        if len(line) > LINE_MAX:
            raise TooLarge(f"Line {number} is longer than {LINE_MAX} bytes.")
        yield line


# What is said


def _written(lines: Iterable[bytes], stream: IO[bytes], total: int) -> int:
    count = 0
    try:
        for line in _shown("Exported", lines, total):
            stream.write(line)
            count += 1
        stream.flush()
    except BrokenPipeError as error:
        raise WindlassError("Whoever read the export has gone before its end.") from error
    return count


def _shown(verb: str, lines: Iterable[bytes], total: int | None) -> Iterator[bytes]:
    """Counts on a terminal while lines go by."""
    with progress(verb, total) as advance:
        for number, line in enumerate(lines, 1):
            yield line
            if number % SHOWN_EVERY == 0:
                advance(SHOWN_EVERY)


def _expected(service: Service) -> int:
    """About how many lines an export will have: those of jobs, and of the rest too few to matter."""
    names = service.queues().wait()
    return sum(sum(getattr(one, state) for state in _COUNTED) for one in service.stats(names).wait())


def _counted(file: str) -> int | None:
    """The lines of a file, where somebody looks and it can be read twice; else None."""
    if file == "-" or not sys.stderr.isatty():
        return None
    with _reading(file) as stream:
        return sum(1 for _ in _lines(stream))


def _report(answer: ImportReport) -> None:
    rows = sorted({*answer.added, *answer.existing, *answer.refused})
    click.echo(f"{'':12}{'added':>10}{'there':>10}{'refused':>10}", err=True)
    for kind in rows:
        numbers = (answer.added[kind], answer.existing[kind], answer.refused[kind])
        click.echo(f"{kind:12}" + "".join(f"{number:>10,}" for number in numbers), err=True)
    if answer.remade_ids:
        click.echo(f"{answer.remade_ids:,} ids were made anew for the partitions of this deployment.", err=True)
    if answer.unknown_awaited:
        click.echo(f"{answer.unknown_awaited:,} jobs that others wait for are not here; wake those who wait.", err=True)
    _report_reasons(answer)


def _report_reasons(answer: ImportReport) -> None:
    for one in answer.reasons[:REASONS_SHOWN]:
        note(f"refused, line {one.line}: {one.what}: {one.reason}")
    more = sum(answer.refused.values()) - REASONS_SHOWN
    if more > 0:
        click.echo(f"… and {more:,} more.", err=True)
