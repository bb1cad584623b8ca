"""The command `windlass`. Errors are one sentence on stderr; exit codes: 0 well, 1 failed, 2 usage, 75 try again."""

from __future__ import annotations

import sys
from typing import Any

import click

from .. import __version__
from ..core.errors import BadSetting, EngineUnavailable, WindlassError
from .config import config
from .doctor import doctor
from .serve import serve
from .transfer import export, import_jobs
from .worker import worker

USAGE, TRY_AGAIN, FAILED = 2, 75, 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def windlass() -> None:
    """A job queue on Redis/Valkey that does not lose jobs."""


windlass.add_command(serve)
windlass.add_command(config)
windlass.add_command(export)
windlass.add_command(import_jobs)
windlass.add_command(doctor)
windlass.add_command(worker)


def main(arguments: list[str] | None = None) -> Any:
    try:
        return windlass.main(arguments, standalone_mode=False) or sys.exit(0)
    except click.exceptions.Abort:
        sys.exit(FAILED)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except WindlassError as error:
        click.echo(f"windlass: {error}", err=True)
        sys.exit(_exit_code(error))


def _exit_code(error: WindlassError) -> int:
    if isinstance(error, BadSetting):
        return USAGE
    return TRY_AGAIN if isinstance(error, EngineUnavailable) else FAILED
