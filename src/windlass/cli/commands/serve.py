"""windlass serve: the engine, the loops and every front end, until it is told to stop."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click
import uvloop

from windlass import server
from windlass.cli.connection import Engine, engine_options
from windlass.core.server_roles import API, ROLES
from windlass.sdk.worker.logs import configure_logging
from windlass.settings import Settings
from windlass.store.embedded.memory_bound import describe_memory_bound


@click.command()
@click.option("--roles", help="What it does, with commas between. Default: api,processor,notifier.")
@click.option("--health-port", help="Port of a server without the role api, for its health; off: none, the default.")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1, which only this machine can reach.")
@click.option("--port", type=int, help="Port of HTTP; 0: any that is free. Default: 8080.")
@click.option("--bedrock-port", help="Port of Bedrock::Jobs; 0: any that is free; off: none. Default: 8888.")
@click.option("--tls-certificate", help="File with the certificate and its chain: serve HTTPS.")
@click.option("--tls-key", help="File with its key, when it is not in the same file.")
@click.option("--allow-anonymous", is_flag=True, default=None, help="Other addresses than loopback without any token.")
@click.option("--access-log", is_flag=True, default=None, help="Write a line for each request.")
@click.option("--workers", type=int, help="Processes that answer. Default: 1.")
@click.option("--grace", help="How long requests under way may take when it stops. Default: 30s.")
@click.option("--partitions", type=int, help="Of a new deployment; later only checked. Default: 1, in a cluster 16.")
@click.option("--verbose", is_flag=True, help="Say what the loops do.")
@click.option("--supervised", hidden=True, help="Said by the parent of several processes.")
@engine_options
def serve(verbose: bool, supervised: str | None, engine: Engine, **options: Any) -> int:
    """Run the server: engine, loops and every front end.

    \b
    Example:
      windlass serve --data-dir /var/lib/windlass
      windlass serve --url redis://db:6379/0 --host 0.0.0.0 --workers 4
      windlass serve --url redis://db:6379/0 --roles processor,notifier
    """
    settings = engine.settings(**options)
    configure_logging(settings.log_format, logging.DEBUG if verbose else logging.INFO)
    if supervised is not None:
        _serve_as_child(settings, server.Parent(supervised))
        return 0
    sockets = server.open_sockets(settings)
    click.echo(f"Connecting to {server.build_store(settings).endpoint} …")
    code = 0
    if settings.workers > 1:
        words = [*engine.words(), *_words(options | {"verbose": verbose})]
        code = uvloop.run(_serve_as_parent(settings, sockets, words))
    else:
        uvloop.run(server.serve(settings, sockets, _announce))
    click.echo("Stopped.")
    return code


def _announce(running: server.Server) -> None:
    _say(announcement(running))


def _say(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line)


def _serve_as_child(settings: Settings, parent: server.Parent) -> None:
    def announce(running: server.Server) -> None:
        parent.send_ready(announcement(running))

    uvloop.run(server.serve(settings, parent.sockets, announce, parent))


async def _serve_as_parent(settings: Settings, sockets: server.Sockets, words: Sequence[str]) -> int:
    command = [sys.executable, "-m", "windlass", "serve", *words]
    supervisor = server.PreforkSupervisor(
        command, settings.workers, sockets, grace_s=settings.grace_ms / 1000, announce=_say
    )
    return await supervisor.run()


def _words(options: Mapping[str, Any]) -> list[str]:
    """The options again, for another process."""
    said: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            said.append(option)
        elif value is not None and value is not False:
            said += [option, str(value)]
    return said


def announcement(running: server.Server) -> list[str]:
    store = running.service.store
    found = store.deployment
    assert found is not None  # noqa: S101 (the store is open)
    lines = [*_doors(running), f"  engine      {store.endpoint}"]
    if found.partitions > 1:
        lines.append(f"  partitions  {found.partitions}")
    if store.is_embedded:
        lines.append("  started by  Windlass itself; it stops when its last user leaves")
        lines.append(f"  memory      {describe_memory_bound(found.memory_max)}")
    lines.append(f"  durability  {'every answer comes after its fsync' if found.is_fsynced else store.durability}")
    lines.append("  loops       scheduler, recoverer, janitor")
    if running.settings.workers > 1:
        lines.append(f"  processes   {running.settings.workers}")
    return [*lines, "Stop with Ctrl-C."]


def _doors(running: server.Server) -> list[str]:
    found = running.service.store.deployment
    assert found is not None  # noqa: S101 (the store is open)
    roles = ", ".join(role for role in ROLES if role in running.roles)
    at = f" at {running.url}" if running.url else ""
    ready = [f"Windlass is ready{at} on {found.product} {found.version}.", f"  roles       {roles}"]
    if API not in running.roles:
        return ready
    return [
        *ready,
        f"  for         {_who(running)}",
        f"  learn more  {running.url}/docs",
        f"  bedrock     {running.bedrock or 'off'}",
    ]


def _who(running: server.Server) -> str:
    if running.tokens:
        return f"whoever has a token ({running.tokens} exist{'s' if running.tokens == 1 else ''})"
    return "everybody on this machine" if running.is_local else "everybody who can reach it, without a token"
