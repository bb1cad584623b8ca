"""windlass serve: the engine, the loops and every front end, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

import click
import uvloop

from .. import server
from ..sdk.worker.logs import configure_logging
from ..settings import Settings
from .connection import Engine, engine_options


@click.command()
@click.option("--host", help="Address to listen on. Default: 127.0.0.1, which only this machine can reach.")
@click.option("--port", type=int, help="Port of HTTP; 0: any that is free. Default: 8080.")
@click.option("--tls-certificate", help="File with the certificate and its chain: serve HTTPS.")
@click.option("--tls-key", help="File with its key, when it is not in the same file.")
@click.option("--allow-anonymous", is_flag=True, default=None, help="Other addresses than loopback without any token.")
@click.option("--access-log", is_flag=True, default=None, help="Write a line for each request.")
@click.option("--workers", type=int, help="Processes that answer. Default: 1.")
@click.option("--grace", help="How long requests under way may take when it stops. Default: 30s.")
@click.option("--partitions", type=int, help="Of a new deployment; later only checked. Default: 1, in a cluster 16.")
@click.option("--verbose", is_flag=True, help="Say what the loops do.")
@engine_options
def serve(verbose: bool, engine: Engine, **options: Any) -> None:
    """Run the server: engine, loops and every front end.

    \b
    Example:
      windlass serve --data-dir /var/lib/windlass
      windlass serve --url redis://db:6379/0 --host 0.0.0.0 --workers 4
    """
    settings = engine.settings(**options)
    configure_logging(settings.log_format, logging.DEBUG if verbose else logging.INFO)
    uvloop.run(_serve(settings))
    click.echo("Stopped.")


async def _serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT; a second one ends it at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    store = server.build_store(settings)
    click.echo(f"Connecting to {store.endpoint} …")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with server.serving(store, settings) as running:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: running.stop_now() if stop.is_set() else stop.set())
        for line in announcement(running):
            click.echo(line)
        await stop.wait()


def announcement(running: server.Serving) -> list[str]:
    store = running.service.store
    found = store.deployment
    assert found is not None  # noqa: S101 (the store is open)
    lines = [
        f"Windlass is ready at {running.url} on {found.product} {found.version}.",
        f"  for         {_who(running)}",
        f"  learn more  {running.url}/docs",
        f"  engine      {store.endpoint}",
    ]
    if found.partitions > 1:
        lines.append(f"  partitions  {found.partitions}")
    if store.is_embedded:
        lines.append("  started by  Windlass itself; it stops when its last user leaves")
    lines.append(f"  durability  {'every answer comes after its fsync' if found.is_fsynced else store.durability}")
    lines.append("  loops       scheduler, recoverer, janitor")
    if running.settings.workers > 1:
        lines.append(f"  processes   {running.settings.workers}")
    return [*lines, "Stop with Ctrl-C."]


def _who(running: server.Serving) -> str:
    if running.tokens:
        return f"whoever has a token ({running.tokens} exist{'s' if running.tokens == 1 else ''})"
    return "everybody on this machine" if running.is_local else "everybody who can reach it, without a token"
