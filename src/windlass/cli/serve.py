"""windlass serve: the engine and the loops, until it is told to stop."""

from __future__ import annotations

import logging

import click
import uvloop

from .. import server
from ..sdk.worker.logs import configure_logging
from ..service import Service
from .connection import Engine, engine_options


@click.command()
@click.option("--partitions", type=int, help="Of a new deployment; later only checked. Default: 1, in a cluster 16.")
@click.option("--verbose", is_flag=True, help="Say what the loops do.")
@engine_options
def serve(partitions: int | None, verbose: bool, engine: Engine) -> None:
    """Run the engine and its loops.

    \b
    Example:
      windlass serve --data-dir /var/lib/windlass
    """
    settings = engine.settings(partitions=partitions)
    configure_logging(settings.log_format, logging.DEBUG if verbose else logging.INFO)
    store = server.build_store(settings)
    click.echo(f"Connecting to {store.endpoint} …")
    uvloop.run(server.serve(store, _announce))
    click.echo("Stopped.")


def _announce(service: Service) -> None:
    store = service.store
    found = store.deployment
    assert found is not None  # noqa: S101 (the store is open)
    click.echo(f"Windlass is ready on {found.product} {found.version}.")
    click.echo(f"  engine      {store.endpoint}")
    if found.partitions > 1:
        click.echo(f"  partitions  {found.partitions}")
    if store.is_embedded:
        click.echo("  started by  Windlass itself; it stops when its last user leaves")
    click.echo(f"  durability  {'every answer comes after its fsync' if found.is_fsynced else store.durability}")
    click.echo("  loops       scheduler, recoverer, janitor")
    click.echo("Stop with Ctrl-C.")
