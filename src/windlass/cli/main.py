"""The command `windlass`. Errors are one sentence on stderr. Exit codes: 0 success, 1 failure, 2 usage, 75 try
again."""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
from typing import NoReturn

import click

from windlass import __version__
from windlass.core.errors import (
    BadSetting,
    EngineFull,
    EngineUnavailable,
    LimitsChanged,
    PartitionStopped,
    QueueFull,
    TooManyRequests,
    Unsettled,
    WindlassError,
)
from windlass.core.text.control_characters import escape_control

USAGE, TRY_AGAIN, FAILED = 2, 75, 1
TRANSIENT = (EngineUnavailable, EngineFull, QueueFull, PartitionStopped, Unsettled, LimitsChanged, TooManyRequests)


# Command -> module and function, in the order of the help.
COMMANDS = {
    "serve": "serve:serve",
    "worker": "worker:worker",
    "processor": "processor:processor",
    "enqueue": "enqueue:enqueue",
    "jobs": "jobs:jobs",
    "failed": "failed:failed",
    "flows": "flows:flows",
    "queues": "queues:queues",
    "limits": "limits:limits",
    "schedules": "schedules:schedules",
    "callbacks": "callbacks:callbacks",
    "workers": "workers:workers",
    "top": "top:top",
    "tokens": "access.tokens:tokens",
    "audit": "access.audit:audit",
    "doctor": "doctor:doctor",
    "engine": "engine:engine",
    "export": "transfer:export",
    "import": "transfer:import_jobs",
    "migrate": "migrate:migrate",
    "config": "config:config",
    "completion": "completion:completion",
}


class LazyGroup(click.Group):
    """Command group that imports a command when it is used. Importing all of Windlass takes longer than most
    commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(f"{__package__}.commands.{module}"), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def windlass() -> None:
    """A job queue on Redis/Valkey that does not lose jobs.

    \b
    Exit codes: 0 success, 1 failure (e.g. no such job), 2 usage error, 75 try again (e.g. no engine).

    \b
    Example:
      windlass enqueue mail send_mail '{"order_id": 7}'
      windlass top
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    _escape_unencodable()
    try:
        code = windlass.main(arguments, prog_name="windlass", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("Aborted.", err=True)
        sys.exit(FAILED)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except WindlassError as error:
        click.echo(f"windlass: {escape_control(str(error))}", err=True)
        sys.exit(_exit_code(error))


def _escape_unencodable() -> None:
    """Escape characters that the encoding of a stream lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError):
                stream.reconfigure(errors="backslashreplace")


def _exit_code(error: WindlassError) -> int:
    if isinstance(error, BadSetting):
        return USAGE
    return TRY_AGAIN if isinstance(error, TRANSIENT) else FAILED
