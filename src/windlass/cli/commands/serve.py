"""windlass serve: engine, background loops and all interfaces, until it is stopped."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from windlass import server
from windlass.cli.connection import EngineOptions, engine_options
from windlass.core.server_roles import API, ROLES
from windlass.processes import event_loop
from windlass.sdk.worker.logs import configure_logging
from windlass.settings import Settings
from windlass.store.embedded.memory_bound import describe_memory_bound
from windlass.store.topology.requirements import Deployment


@click.command()
@click.option("--roles", help="Roles, separated by commas. Default: api,processor,notifier.")
@click.option("--health-port", help="Port for health checks of a server without the role api. Default: off.")
@click.option("--host", help="Address to listen on. Default: 127.0.0.1, reachable only from this machine.")
@click.option("--port", type=int, help="Port of HTTP; 0: any free port. Default: 8080.")
@click.option("--bedrock-port", help="Port of Bedrock::Jobs; 0: any free port; off: none. Default: 8888.")
@click.option("--tls-certificate", help="File with the certificate and its chain, to serve HTTPS.")
@click.option("--tls-key", help="File with the private key, if it is not in the certificate file.")
@click.option(
    "--allow-anonymous", is_flag=True, default=None, help="Allow addresses other than loopback without any token."
)
@click.option("--access-log", is_flag=True, default=None, help="Log each request.")
@click.option("--workers", type=int, help="Number of server processes. Default: 1.")
@click.option("--grace", help="Time for requests to complete when the server stops. Default: 30s.")
@click.option("--partitions", type=int, help="Partitions of a new deployment. Default: 1, in a cluster 16.")
@click.option("--verbose", is_flag=True, help="Log the work of the background loops.")
@click.option("--supervised", hidden=True, help="Set by the parent of several processes.")
@engine_options
def serve(verbose: bool, supervised: str | None, engine: EngineOptions, **options: Any) -> int:
    """Run the server: engine, background loops and all interfaces.

    \b
    Example:
      windlass serve --data-dir /var/lib/windlass
      windlass serve --url redis://db:6379/0 --host 0.0.0.0 --workers 4
      windlass serve --url redis://db:6379/0 --roles processor,notifier
    """
    server.check_installation()
    settings = engine.settings(**options)
    configure_logging(settings.log_format, logging.DEBUG if verbose else logging.INFO)
    if supervised is not None:
        _serve_as_child(settings, server.Parent(supervised))
        return 0
    sockets = server.open_sockets(settings)
    click.echo(f"Connecting to {server.build_store(settings).endpoint} …")
    code = 0
    if settings.workers > 1:
        arguments = [*engine.arguments(), *_arguments(options | {"verbose": verbose})]
        code = event_loop.run(_serve_as_parent(settings, sockets, arguments))
    else:
        event_loop.run(server.serve(settings, sockets, _announce))
    click.echo("Stopped.")
    return code


def _announce(running: server.Server) -> None:
    _print_lines(describe_server(running))


def _print_lines(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line)


def _serve_as_child(settings: Settings, parent: server.Parent) -> None:
    def announce(running: server.Server) -> None:
        parent.send_ready(describe_server(running))

    event_loop.run(server.serve(settings, parent.sockets, announce, parent))


async def _serve_as_parent(settings: Settings, sockets: server.Sockets, arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "windlass", "serve", *arguments]
    supervisor = server.PreforkSupervisor(
        command, settings.workers, sockets, grace_s=settings.grace_ms / 1000, announce=_print_lines
    )
    return await supervisor.run()


def _arguments(options: Mapping[str, Any]) -> list[str]:
    """Return the options as arguments for another process."""
    arguments: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments += [option, str(value)]
    return arguments


def describe_server(running: server.Server) -> list[str]:
    store = running.service.store
    found = store.deployment
    assert found is not None  # noqa: S101 (the store is open)
    lines = [*_describe_interfaces(running), f"  engine      {store.endpoint}"]
    if found.partitions > 1:
        lines.append(f"  partitions  {found.partitions}")
    if store.is_embedded:
        lines.append("  started by  Windlass; it stops after its last client disconnects")
        lines.append(f"  memory      {describe_memory_bound(found.memory_max)}")
    lines.append(f"  durability  {_describe_durability(found, store.durability)}")
    lines.append("  loops       scheduler, recoverer, janitor")
    if running.settings.workers > 1:
        lines.append(f"  processes   {running.settings.workers}")
    return [*lines, "Stop with Ctrl-C."]


def _describe_durability(found: Deployment, requested: str) -> str:
    if found.is_managed:
        return "managed by the engine's service (WINDLASS_ENGINE_DURABILITY)"
    return "every reply is sent after its fsync" if found.is_fsynced else requested


def _describe_interfaces(running: server.Server) -> list[str]:
    found = running.service.store.deployment
    assert found is not None  # noqa: S101 (the store is open)
    roles = ", ".join(role for role in ROLES if role in running.roles)
    at = f" at {running.url}" if running.url else ""
    ready = [f"Windlass is ready{at} on {found.product} {found.version}.", f"  roles       {roles}"]
    if API not in running.roles:
        return ready
    return [
        *ready,
        f"  for         {_describe_access(running)}",
        f"  learn more  {running.url}/docs",
        f"  bedrock     {running.bedrock or 'off'}",
    ]


def _describe_access(running: server.Server) -> str:
    if running.tokens:
        return f"clients with a token ({running.tokens} exist{'s' if running.tokens == 1 else ''})"
    return "all users of this machine" if running.is_local else "all clients that can reach it, without a token"
