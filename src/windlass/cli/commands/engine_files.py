"""windlass engine check and repair: the append-only files of an embedded engine that does not run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from windlass.cli.bulk import ask, yes_option
from windlass.cli.connection import Engine, engine_options
from windlass.cli.output import json_option, note, say
from windlass.core.errors import BadSetting
from windlass.deployment import data_dir as data_dir_of
from windlass.store.embedded.file_repair import AppendOnlyFiles, FilesState, RepairResult

DAMAGED = 1
KINDS = {"b": "base", "i": "increment"}


@click.command(short_help="Look whether the engine's files can be read.")
@json_option
@engine_options
def check(as_json: bool, engine: Engine) -> None:
    """Look whether the files of the embedded engine can be read to their end. Changes nothing.

    The engine must not run. Exit code: 0 all can be read, 1 some are damaged, or their manifest is missing.

    \b
    Example:
      windlass engine check --data-dir /var/lib/windlass
    """
    files = AppendOnlyFiles(_directory(engine))
    with files.held():
        state = files.check()
    if as_json:
        click.echo(json.dumps(_record(state), indent=2))
    else:
        _show(files, state)
    sys.exit(0 if state.is_whole else DAMAGED)


@click.command(short_help="Cut off what cannot be read, and keep a copy.")
@yes_option
@engine_options
def repair(yes: bool, engine: Engine) -> None:
    """Make the files of the embedded engine readable again. A copy of all of them is made first.

    Cuts off the end of the last file from the first byte that cannot be read, and writes the manifest again if it is
    missing. Jobs that stand in what is cut off are gone. The engine must not run.

    \b
    Example:
      windlass engine repair --data-dir /var/lib/windlass
    """
    files = AppendOnlyFiles(_directory(engine))
    with files.held():
        state = files.check()
        _show(files, state)
        if state.is_whole:
            return
        ask(_question(state), yes)
        done = files.repair(state)
    _show_repair(files, done)


def _directory(engine: Engine) -> Path:
    # A directory on the command line is meant, whatever engine the environment names.
    settings = engine.settings(url="") if engine.data_dir and not engine.url else engine.settings()
    if settings.url and not settings.url.startswith("embedded:"):
        raise BadSetting(
            "The settings name an engine that is not embedded. Give --data-dir for an embedded one; for others use the "
            "engine's own valkey-check-aof."
        )
    return data_dir_of(settings)


def _show(files: AppendOnlyFiles, state: FilesState) -> None:
    say(f"Files in {files.directory}:")
    for file in state.files:
        what = file.problem or "can be read"
        say(f"  {file.name}  {file.bytes:,} bytes, {KINDS[file.kind]}: {what}")
    if not state.has_manifest:
        say("  The manifest, which lists them, is missing.")
    say(_advice(state))


def _advice(state: FilesState) -> str:
    if state.is_whole:
        return "All files can be read."
    if not state.can_be_repaired:
        return "Only the end of the last file can be cut off: restore the directory from a backup."
    if state.unreadable:
        return f"{state.unreadable:,} bytes cannot be read; `windlass engine repair` cuts them off, and keeps a copy."
    return "`windlass engine repair` makes a manifest from the names of the files, and keeps a copy."


def _question(state: FilesState) -> str:
    if state.unreadable:
        return f"Make a copy, and cut {state.unreadable:,} bytes off the end?"
    return "Make a copy, and write the manifest?"


def _show_repair(files: AppendOnlyFiles, done: RepairResult) -> None:
    say(f"A copy of all files as they were is in {done.copy}.")
    for cut in done.cuts:
        say(f"Cut {cut.bytes:,} bytes off {files.directory / cut.file}, which now ends at byte {cut.offset:,}.")
    if done.is_manifest_new:
        say("Wrote the manifest again, from the names of the files.")
    note("Start the engine, and run `windlass doctor`.")


def _record(state: FilesState) -> dict[str, object]:
    return {
        "is_whole": state.is_whole,
        "has_manifest": state.has_manifest,
        "unreadable_bytes": state.unreadable,
        "files": [file._asdict() | {"kind": KINDS[file.kind]} for file in state.files],
    }
