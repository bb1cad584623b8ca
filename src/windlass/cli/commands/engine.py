"""windlass engine: administration of the engine itself (docs/engines.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import msgspec

from windlass import server
from windlass.cli.bulk import confirm, yes_option
from windlass.cli.connection import EngineOptions, engine_options, notify_if_slow
from windlass.cli.engine_page import acl_line
from windlass.cli.output import json_option, print_note, print_text
from windlass.core.errors import BadSetting
from windlass.core.namespace.format import FIRST, KNOWN, SINCE
from windlass.deployment import data_dir as data_dir_of
from windlass.sdk.deployment import require_engine_store
from windlass.store.embedded.file_repair import AppendOnlyFiles, FilesState, RepairResult
from windlass.store.scripts import library
from windlass.store.store import Store
from windlass.store.topology.cluster import Cluster
from windlass.store.topology.namespace_format import raise_format, stored_format
from windlass.store.topology.permissions import acl_rules
from windlass.store.topology.preparation import PreparedNode, prepare
from windlass.store.topology.sentinel import Sentinel

DAMAGED = 1
KINDS = {"b": "base", "i": "increment"}


@click.group()
def engine() -> None:
    """Administer the engine itself."""


@engine.command("prepare", short_help="Load Windlass' functions for restricted users.")
@json_option
@engine_options
def prepare_engine(engine: EngineOptions, as_json: bool) -> None:
    """Load Windlass' functions on every primary, for users that may not call FUNCTION LOAD.

    Needs the URL of an admin. Prints the permissions that a user of Windlass needs. Run it again after FUNCTION FLUSH,
    for a new version of Windlass, and for a new node of a cluster; repeating it does no harm. Functions of other
    versions are kept.

    \b
    Example:
      windlass engine prepare --url redis://admin:secret@db.example.org:6379/0
    """
    settings = engine.settings()
    store = server.build_store(settings)
    if store.is_embedded:
        raise BadSetting(
            "The embedded engine needs no preparation: its user has all permissions. Give another engine with --url."
        )
    with notify_if_slow(store):
        nodes = prepare(store.topology, settings.patience_ms / 1000)
    rules = acl_rules(
        settings.namespace,
        is_cluster=isinstance(store.topology, Cluster),
        is_sentinel=isinstance(store.topology, Sentinel),
    )
    if as_json:
        found = [{"node": str(prepared.node), "loaded": prepared.is_new} for prepared in nodes]
        click.echo(json.dumps({"library": library().name, "nodes": found, "acl_rules": rules}, indent=2))
    else:
        _show(store, nodes, rules)


def _show(store: Store, nodes: list[PreparedNode], rules: list[str]) -> None:
    for prepared in nodes:
        done = "loaded" if prepared.is_new else "was already loaded"
        print_text(f"{prepared.node}: function library {library().name} {done}.")
    where = " on every node of the cluster" if isinstance(store.topology, Cluster) else ""
    print_text(
        f"Users need these permissions for namespace {store.namespace!r}. Run this as admin{where}, with a password:"
    )
    click.echo(acl_line(rules))


# Format of the namespace


@engine.command("format", short_help="Show or raise the format of the namespace.")
@click.option(
    "--require",
    type=click.IntRange(FIRST, KNOWN),
    help="Refuse programs that do not know this format. It stays.",
)
@yes_option
@json_option
@engine_options
def namespace_format(engine: EngineOptions, require: int | None, yes: bool, as_json: bool) -> None:
    """Show the format of the namespace, or raise it so that programs of earlier versions refuse the namespace.

    Do it when all programs are upgraded and you will not go back. Programs of earlier versions that run go on until
    they connect again; version 0.1.0 until it starts again.

    \b
    Example:
      windlass engine format --require 2
    """
    with engine.service() as service:
        store = require_engine_store(service.store)
        if require is not None:
            _raise_format(store, require, yes)
        found = store.run_sync(stored_format(store.roots))
    if as_json:
        record = {"namespace": store.namespace, "known": KNOWN} | msgspec.structs.asdict(found)
        click.echo(json.dumps(record, indent=2))
    else:
        print_text(f"Namespace {store.namespace!r} has format {found}. This version reads formats up to {KNOWN}.")


def _raise_format(store: Store, number: int, yes: bool) -> None:
    if number > store.run_sync(stored_format(store.roots)).number:
        confirm(f"Refuse versions of Windlass before {SINCE[number]} from now on? This cannot be undone.", yes)
        store.run_sync(raise_format(range(store.partitions), number))


# Files of a stopped embedded engine


@engine.command(short_help="Check the files of the embedded engine.")
@json_option
@engine_options
def check(as_json: bool, engine: EngineOptions) -> None:
    """Check that the files of the embedded engine can be read to their end. Changes nothing.

    The engine must be stopped. Exit code: 0 all files are readable, 1 files are damaged or their manifest is missing.

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
        _show_files(files, state)
    sys.exit(0 if state.is_whole else DAMAGED)


@engine.command(short_help="Cut off unreadable data, and keep a copy.")
@yes_option
@engine_options
def repair(yes: bool, engine: EngineOptions) -> None:
    """Make the files of the embedded engine readable again, after a copy of all files is made.

    Cuts the last file off at the first unreadable byte, and rewrites the manifest if it is missing. Jobs in the cut-off
    part are lost. The engine must be stopped.

    \b
    Example:
      windlass engine repair --data-dir /var/lib/windlass
    """
    files = AppendOnlyFiles(_directory(engine))
    with files.held():
        state = files.check()
        _show_files(files, state)
        if state.is_whole:
            return
        confirm(_question(state), yes)
        done = files.repair(state)
    _show_repair(files, done)


def _directory(engine: EngineOptions) -> Path:
    # A directory on the command line takes precedence over a URL in the environment.
    settings = engine.settings(url="") if engine.data_dir and not engine.url else engine.settings()
    if settings.url and not settings.url.startswith("embedded:"):
        raise BadSetting(
            "The settings name an engine that is not embedded. Give --data-dir for an embedded engine; for other "
            "engines use valkey-check-aof."
        )
    return data_dir_of(settings)


def _show_files(files: AppendOnlyFiles, state: FilesState) -> None:
    print_text(f"Files in {files.directory}:")
    for file in state.files:
        condition = file.problem or "readable"
        print_text(f"  {file.name}  {file.bytes:,} bytes, {KINDS[file.kind]}: {condition}")
    if not state.has_manifest:
        print_text("  The manifest, which lists the files, is missing.")
    print_text(_advice(state))


def _advice(state: FilesState) -> str:
    if state.is_whole:
        return "All files are readable."
    if not state.can_be_repaired:
        return "Not repairable (only the end of the last file can be cut off): restore the directory from a backup."
    if state.unreadable:
        return f"{state.unreadable:,} bytes are unreadable; `windlass engine repair` cuts them off, and keeps a copy."
    return "`windlass engine repair` rebuilds the manifest from the file names, and keeps a copy."


def _question(state: FilesState) -> str:
    if state.unreadable:
        return f"Make a copy, and cut {state.unreadable:,} bytes off the end?"
    return "Make a copy, and write the manifest?"


def _show_repair(files: AppendOnlyFiles, done: RepairResult) -> None:
    print_text(f"The original files are copied to {done.copy}.")
    for cut in done.cuts:
        print_text(f"Cut {cut.bytes:,} bytes off {files.directory / cut.file}, which now ends at byte {cut.offset:,}.")
    if done.is_manifest_new:
        print_text("Rebuilt the manifest from the file names.")
    print_note("Start the engine, then run `windlass doctor`.")


def _record(state: FilesState) -> dict[str, object]:
    return {
        "is_whole": state.is_whole,
        "has_manifest": state.has_manifest,
        "unreadable_bytes": state.unreadable,
        "files": [file._asdict() | {"kind": KINDS[file.kind]} for file in state.files],
    }
