"""Files of lines: whole or absent when written, bounded lines when read, compressed by their name."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from windlass.cli.bulk import progress
from windlass.core.errors import BadInput, TooLarge, WindlassError
from windlass.core.export.lines import LINE_MAX

SHOWN_EVERY = 200  # lines


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
        _sync_directory(path.parent)
    except OSError as error:
        raise WindlassError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a crash of the machine."""
    with contextlib.suppress(OSError):  # not every file system can
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_compressed(path: Path, plain: IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.GzipFile(path.stem, "wb", fileobj=plain))
    return contextlib.nullcontext(plain)


@contextlib.contextmanager
def open_input(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as stream:
            yield cast("IO[bytes]", stream)
    except EOFError as error:
        raise BadInput(f"{file} is cut off: its compressed end is missing. Use a whole copy.") from error
    except zlib.error as error:
        raise BadInput(f"{file} is damaged: it cannot be decompressed ({error}). Use another copy.") from error
    except OSError as error:
        raise WindlassError(f"{file} cannot be read: {error.strerror or error}.") from error


def read_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Read lines of bounded length, so that an endless line does not fill the memory."""
    number = 0
    while line := stream.readline(LINE_MAX + 1):
        number += 1
        if len(line) > LINE_MAX:
            raise TooLarge(f"Line {number} is longer than {LINE_MAX} bytes.")
        yield line


def write_file(file: str, lines: Iterable[bytes], total: int) -> int:
    """Write lines to a file, or to standard output (-). Return their number."""
    if file == "-":
        return _write_lines(lines, sys.stdout.buffer, total)
    with _atomic_file(Path(file)) as stream:
        return _write_lines(lines, stream, total)


def _write_lines(lines: Iterable[bytes], stream: IO[bytes], total: int) -> int:
    count = 0
    try:
        for line in with_progress("Exported", lines, total):
            stream.write(line)
            count += 1
        stream.flush()
    except BrokenPipeError as error:
        raise WindlassError("The reader of the export closed the pipe before the end.") from error
    return count


def with_progress(verb: str, lines: Iterable[bytes], total: int | None) -> Iterator[bytes]:
    """Pass lines on, and show the progress on a terminal."""
    with progress(verb, total) as advance:
        for number, line in enumerate(lines, 1):
            yield line
            if number % SHOWN_EVERY == 0:
                advance(SHOWN_EVERY)


def count_lines(file: str) -> int | None:
    """Count the lines of a file for the progress bar. Return None without a terminal, and for standard input."""
    if file == "-" or not sys.stderr.isatty():
        return None
    with open_input(file) as stream:
        return sum(1 for _ in read_lines(stream))
