"""windlass engine: what an administrator does with the engine itself (docs/engines.md)."""

from __future__ import annotations

import json

import click

from windlass import server
from windlass.cli.connection import Engine, engine_options, say_if_waiting
from windlass.cli.output import json_option, say
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


@engine.command("prepare", short_help="Load Windlass' functions for users that may not.")
@json_option
@engine_options
def prepare_engine(engine: Engine, as_json: bool) -> None:
    """Load Windlass' functions on every primary, for users that may not call FUNCTION LOAD.

    Needs the URL of an admin. Prints the rights that a user of Windlass then needs. It can be repeated at any time, and
    must be after FUNCTION FLUSH, for a new version of Windlass and for a new node of a cluster. Functions of other
    versions stay.

    \b
    Example:
      windlass engine prepare --url redis://admin:secret@db.example.org:6379/0
    """
    settings = engine.settings()
    store = server.build_store(settings)
    if store.is_embedded:
        raise BadSetting(
            "The embedded engine needs no preparation: its user may do everything. Name another engine with --url."
        )
    with say_if_waiting(store):
        nodes = prepare(store.topology, settings.patience_ms / 1000)
    rules = acl_rules(
        settings.namespace,
        is_cluster=isinstance(store.topology, Cluster),
        is_sentinel=isinstance(store.topology, Sentinel),
    )
    if as_json:
        found = [{"node": str(one.node), "loaded": one.is_new} for one in nodes]
        click.echo(json.dumps({"library": library().name, "nodes": found, "acl_rules": rules}, indent=2))
    else:
        _show(store, nodes, rules)


def _show(store: Store, nodes: list[PreparedNode], rules: list[str]) -> None:
    for one in nodes:
        done = "loaded" if one.is_new else "was there already"
        say(f"{one.node}: function library {library().name} {done}.")
    where = " on every node of the cluster" if isinstance(store.topology, Cluster) else ""
    say(f"Users need these rights for the namespace {store.namespace!r}. Run this as admin{where}, with a password:")
    click.echo(f"ACL SETUSER windlass on >PASSWORD {' '.join(rules)}")


engine.add_command(check)
engine.add_command(repair)
