"""The command `windlass`. Errors are one sentence on stderr. Exit codes: 0 success, 1 failure, 2 usage, 75 try
again."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
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
    Unauthorized,
    Unsettled,
    WindlassError,
)
from windlass.core.text.control_characters import printable
from windlass.core.text.similar_names import suggest_name
from windlass.settings import unknown_variables

USAGE, TRY_AGAIN, FAILED = 2, 75, 1
_UNKNOWN_COMMAND = re.compile("No such command '(.*?)'", re.DOTALL)
TRANSIENT = (EngineUnavailable, EngineFull, QueueFull, PartitionStopped, Unsettled, LimitsChanged, TooManyRequests)


# Command -> its module and function, and its line in the help. The order is that of the help.
COMMANDS = {
    "serve": ("serve:serve", "Run the server: engine, background loops and all interfaces."),
    "worker": ("worker:worker", "Run the jobs of an application."),
    "processor": ("processor:processor", "Assign jobs to workers that talk in JSON lines."),
    "enqueue": ("enqueue:enqueue", "Put a job into a queue."),
    "jobs": ("jobs:jobs", "Show jobs and act on them."),
    "failed": ("failed:failed", "Find failed jobs; retry or delete them."),
    "flows": ("flows:flows", "Show flows and act on them."),
    "queues": ("queues:queues", "Show, pause and configure queues."),
    "tasks": ("tasks.commands:tasks", "Show how tasks ran, and how they failed."),
    "limits": ("limits:limits", "Limit running jobs, or starts per time."),
    "schedules": ("schedules.lists:schedules", "Show, add, run and pause schedules."),
    "callbacks": ("callbacks:callbacks", "List callbacks and redeliver given-up callbacks."),
    "alerts": ("alerts.rules:alerts", "Set alert rules; see and mute their incidents."),
    "workers": ("workers:workers", "List and stop workers."),
    "top": ("top:top", "Watch queues and workers."),
    "tokens": ("access.tokens:tokens", "Create, list and revoke access tokens."),
    "audit": ("access.audit:audit", "List actions with their authors, newest first."),
    "filters": ("access.filters:filters", "List and remove saved filters of the dashboard."),
    "doctor": ("doctor:doctor", "Check for inconsistencies and risks."),
    "engine": ("engine:engine", "Administer the engine itself."),
    "backup": ("transfer.backups:backup", "Back up all data of one instant, verify and restore."),
    "export": ("transfer.exports:export", "Export all data to a file."),
    "import": ("transfer.exports:import_jobs", "Import an export."),
    "migrate": ("migrate:migrate", "Move jobs in from the Redis of another queue."),
    "config": ("config:config", "Show every setting and its origin."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
}


class LazyGroup(click.Group):
    """Command group that imports a command when it is used. Importing all of Windlass takes longer than most
    commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(f"{__package__}.commands.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


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
    for sentence in unknown_variables():
        click.echo(f"windlass: {sentence}", err=True)


def main(arguments: list[str] | None = None) -> NoReturn:
    _escape_unencodable()
    try:
        code = windlass.main(arguments, prog_name="windlass", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("Aborted.", err=True)
        sys.exit(FAILED)
    except click.ClickException as error:
        _with_suggestion(error).show()
        sys.exit(USAGE)
    except WindlassError as error:
        hint = " The command line takes it from WINDLASS_TOKEN." if isinstance(error, Unauthorized) else ""
        click.echo(f"windlass: {printable(str(error), keeps_lines=True)}{hint}", err=True)
        sys.exit(_exit_code(error))


def _with_suggestion(error: click.ClickException) -> click.ClickException:
    """Add the most similar name to the error about an unknown command. Click suggests options, and not all of its
    versions suggest commands."""
    context = getattr(error, "ctx", None)
    found = _UNKNOWN_COMMAND.match(error.message)
    if not isinstance(error, click.UsageError) or context is None or found is None:
        return error
    suggestion = suggest_name(found[1], context.command.list_commands(context))
    hint = f'; did you mean "{suggestion}"?' if suggestion else "."
    return click.UsageError(f'No such command "{found[1]}"{hint}', context)


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
