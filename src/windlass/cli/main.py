"""The command `windlass`. Errors are one sentence on stderr; exit codes: 0 well, 1 failed, 2 usage, 75 try again."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import NoReturn

import click

from .. import __version__
from ..core.errors import (
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
from .audit import audit
from .callbacks import callbacks
from .completion import completion
from .config import config
from .doctor import doctor
from .enqueue import enqueue
from .failed import failed
from .jobs import jobs
from .limits import limits
from .processor import processor
from .queues import queues
from .schedules import schedules
from .serve import serve
from .tokens import tokens
from .top import top
from .transfer import export, import_jobs
from .worker import worker
from .workers import workers

USAGE, TRY_AGAIN, FAILED = 2, 75, 1
PASSING = (EngineUnavailable, EngineFull, QueueFull, PartitionStopped, Unsettled, LimitsChanged, TooManyRequests)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def windlass() -> None:
    """A job queue on Redis/Valkey that does not lose jobs.

    \b
    Exit codes: 0 done, 1 failed (e.g. no such job), 2 wrong usage, 75 try again (e.g. no engine).

    \b
    Example:
      windlass enqueue mail send_mail '{"order_id": 7}'
      windlass top
    """


windlass.add_command(serve)
windlass.add_command(worker)
windlass.add_command(processor)
windlass.add_command(enqueue)
windlass.add_command(jobs)
windlass.add_command(failed)
windlass.add_command(queues)
windlass.add_command(limits)
windlass.add_command(schedules)
windlass.add_command(callbacks)
windlass.add_command(workers)
windlass.add_command(top)
windlass.add_command(tokens)
windlass.add_command(audit)
windlass.add_command(doctor)
windlass.add_command(export)
windlass.add_command(import_jobs)
windlass.add_command(config)
windlass.add_command(completion)


def main(arguments: list[str] | None = None) -> NoReturn:
    _write_anything()
    try:
        code = windlass.main(arguments, prog_name="windlass", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        click.echo("Stopped; nothing more was done.", err=True)
        sys.exit(FAILED)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except WindlassError as error:
        click.echo(f"windlass: {error}", err=True)
        sys.exit(_exit_code(error))


def _write_anything() -> None:
    """Where the encoding of a stream lacks a character, it is escaped instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError):
                stream.reconfigure(errors="backslashreplace")


def _exit_code(error: WindlassError) -> int:
    if isinstance(error, BadSetting):
        return USAGE
    return TRY_AGAIN if isinstance(error, PASSING) else FAILED
