"""windlass backup: all data of one instant in a file; verify and restore it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import EngineOptions, engine_options, with_service
from windlass.core.errors import BadInput, BadSetting
from windlass.core.export.backup import VerifiedBackup, seal, verify
from windlass.core.export.backup_point import BackupPoint
from windlass.core.export.lines import decode_header
from windlass.sdk.deployment import make_service
from windlass.service import Service
from windlass.store.snapshot.frozen_copy import frozen_copy
from windlass.store.store import Store

from .backup_report import describe_running, print_point, print_problems
from .exports import count_jobs, has_data, import_file
from .files import count_lines, open_input, read_lines, with_progress, write_file
from .rehearsal import rehearse
from .rotation import new_backup, remove_old_backups


class BackupGroup(click.Group):
    """Group whose command `create` may be left out: `windlass backup FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_command(ctx, args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, self._with_command(ctx, args))

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return args if is_named else ["create", *args]


@click.group(cls=BackupGroup)
def backup() -> None:
    """Back up all data of one instant, verify and restore. `windlass backup FILE` is `windlass backup create FILE`."""


@backup.command("create", short_help="Write a backup, while jobs run.")
@click.argument("file", required=False)
@click.option("--to", "folder", metavar="DIR", help="Write to this folder instead, to a file named by the time.")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="With --to: remove all but the newest N backups.")
@click.option("--live", is_flag=True, help="Read the running engine: less memory, any service, not of one instant.")
@engine_options
def create(file: str | None, folder: str | None, keep: int | None, live: bool, engine: EngineOptions) -> None:
    """Write all data of one instant to FILE (or standard output, -), while jobs are added and run.

    Copies the data into a private engine on this machine, which needs as much memory as the engine uses. A file whose
    name ends in .gz is compressed. FILE is created when the backup is complete.

    \b
    Example:
      windlass backup create backup.jsonl.gz
      windlass backup create --to /var/backups/windlass --keep 7
    """
    if (file is None) == (folder is None):
        raise click.UsageError("Give either a FILE (or -), or --to DIR.")
    if keep and folder is None:
        raise click.UsageError("--keep needs --to DIR.")
    with engine.service() as service:
        target = file or str(new_backup(Path(folder or "")))
        with _source(service, live) as source:
            point, namespace, lines = _write(source, target)
    print_point(point, namespace, is_error_stream=target == "-")
    place = "standard output" if target == "-" else f"{target}, {Path(target).stat().st_size:,} bytes"
    click.echo(f"Written    {place}, {lines:,} lines", err=target == "-")
    if keep and folder:
        for removed in remove_old_backups(Path(folder), keep):
            click.echo(f"Removed    {removed}")


class Source(NamedTuple):
    """Deployment to read. An instant of 0 means that it is running."""

    service: Service
    engine: str
    at_ms: int = 0
    until_ms: int = 0


@contextlib.contextmanager
def _source(service: Service, live: bool) -> Iterator[Source]:
    store: Any = service.store
    found = store.deployment
    engine = f"{found.product} {found.version}, {store.endpoint}" if found else str(store.endpoint)
    if live:
        yield Source(service, engine)
        return
    if not isinstance(store, Store):
        raise BadSetting(
            "A backup of one instant needs the engine itself: run it with the engine's URL, for example where the "
            "server runs. Over a server use --live, which reads while jobs run (docs/backup.md)."
        )
    with frozen_copy(store) as copy:
        until_ms = copy.until_ms if copy.until_ms > copy.taken_at_ms else 0
        copied = make_service(copy.store)
        _complete_steps(copied)
        yield Source(copied, engine, copy.taken_at_ms, until_ms)


def _complete_steps(copied: Service) -> None:
    """Complete in the copy what an ended job means for many others: an export has no place for half of it."""
    while (step := copied.promote().wait()).next_at_ms is not None and step.next_at_ms <= step.now_ms:
        pass


def _write(source: Source, target: str) -> tuple[BackupPoint, str, int]:
    states = {state: count for state, count in count_jobs(source.service).items() if count}
    lines = iter(source.service.export())
    header = decode_header(next(lines))
    point = BackupPoint(
        at_ms=source.at_ms or header.exported_at_ms,
        until_ms=source.until_ms,
        engine=source.engine,
        is_live=not source.at_ms,
        states=states,
    )
    count = write_file(target, seal(header, lines, point), sum(states.values()))
    return point, header.namespace, count


@backup.command("verify", short_help="Check a backup.")
@click.argument("file")
@click.option("--restore", "is_rehearsal", is_flag=True, help="Also restore it into a private engine, and check that.")
def verify_file(file: str, is_rehearsal: bool) -> None:
    """Read FILE (or standard input, -) to its end: checksum, counts, and that each line can be read. Needs no engine.

    Exit code: 0 whole, 1 damaged or not readable.

    \b
    Example:
      windlass backup verify backup.jsonl.gz --restore
    """
    if is_rehearsal and file == "-":
        raise click.UsageError("--restore reads the file twice: give its name.")
    found = _verify(file)
    print_point(found.point, found.header.namespace)
    if is_rehearsal:
        problems = rehearse(file, found.header)
        if problems:
            print_problems(problems)
            sys.exit(1)
        click.echo("Restored   into a private engine: all jobs are there, and the doctor finds no error")
    click.echo(f"Verified   {found.lines:,} lines, {found.counts['job']:,} of them jobs: the backup is whole")


def _verify(file: str) -> VerifiedBackup:
    with open_input(file) as stream:
        return verify(with_progress("Verified", read_lines(stream), count_lines(file)))


@backup.command("restore", short_help="Restore a backup into an empty deployment.")
@click.argument("file")
@accepted_yes_option
@with_service
def restore(service: Service, file: str) -> None:
    """Verify FILE, and restore it into a deployment without data. Start servers and workers afterwards.

    \b
    Example:
      windlass backup restore backup.jsonl.gz --url redis://new.example.org:6379
    """
    if file == "-":
        raise click.UsageError("A restore reads the backup twice: give the name of a file.")
    if has_data(service):
        raise BadInput(
            "This deployment contains data already. A backup is restored into an empty one: give another engine, "
            "--data-dir or --namespace."
        )
    found = _verify(file)
    print_point(found.point, found.header.namespace)
    is_whole = import_file(service, file, found.lines)
    click.echo(describe_running(found.point))
    if not is_whole:
        sys.exit(1)
