"""windlass engine: administration of the engine itself (docs/engines.md)."""

from __future__ import annotations

import json

import click

from windlass import server
from windlass.cli.connection import EngineOptions, engine_options, notify_if_slow
from windlass.cli.output import json_option, print_text
from windlass.core.errors import BadSetting
from windlass.store.scripts import library
from windlass.store.store import Store
from windlass.store.topology.cluster import Cluster
from windlass.store.topology.permissions import acl_rules
from windlass.store.topology.preparation import PreparedNode, prepare
from windlass.store.topology.sentinel import Sentinel

from .engine_files import check, repair


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
    click.echo(f"ACL SETUSER windlass on >PASSWORD {' '.join(rules)}")


engine.add_command(check)
engine.add_command(repair)
