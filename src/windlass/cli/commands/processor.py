"""windlass processor: messages as lines of JSON on stdin and stdout, the log on stderr."""

from __future__ import annotations

import logging
import sys

import click
import uvloop

from windlass.cli.connection import Engine, engine_options
from windlass.cli.parameters import Duration
from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.core.validation.bounds import UINT32_MAX
from windlass.server.stdio import FLUSH_S, LineHandler, OutputPipe, ProcessorOptions, run_session

log = logging.getLogger("windlass.processor")

TICKS = 3  # that a worker may be silent, and a dispatch unaccepted
TRY_AGAIN, FAILED = 75, 1


@click.command()
@click.option(
    "--tick", type=Duration(), default="3s", show_default=True, help="How often workers say that they are there."
)
@click.option(
    "--expiry", type=Duration(), help="A worker that is silent for so long gives back its jobs. Default: 3 ticks."
)
@click.option(
    "--lease", type=Duration(), help="A dispatched job goes back unless it is accepted in time. Default: 3 ticks."
)
@click.option(
    "--attempts",
    type=click.IntRange(0, UINT32_MAX),
    default=0,
    show_default=True,
    help="How often a job that is added here may be dispatched; then it fails. 0: any number.",
)
@click.option(
    "--keep",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long finished jobs are kept, with what their worker said.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="debug: a line for every step.",
)
@engine_options
def processor(
    tick: int, expiry: int | None, lease: int | None, attempts: int, keep: int, log_level: str, engine: Engine
) -> None:
    """Give jobs to workers that speak in lines of JSON.

    Reads messages on stdin (job_queue/add_job, …/worker_idle, …/job_accepted, …/worker_progress, …/job_finished, tick),
    writes …/job_assignment on stdout, and its log on stderr; docs/processor.md has them all. It ends with its input.
    Any number of them may share an engine.

    \b
    From the environment:
      SERVICE_NAME         job_queue   in what it writes
      SERVICE_UUID         random
      SERVICE_HOST         the host's name
      NAMESPACE_LISTENER   default     begins the topics that it hears
      NAMESPACE_PUBLISHER  default     begins the topics that it writes

    \b
    Example:
      windlass processor --tick 3s < messages.jsonl
    """
    if not tick:
        raise click.UsageError("--tick must be longer than nothing.")
    terms = ProcessorOptions(tick, expiry or TICKS * tick, lease or TICKS * tick, attempts, keep)
    settings = engine.settings()
    stderr: OutputPipe[None] = OutputPipe(2)
    logging.basicConfig(
        level=logging.getLevelNamesMapping()[log_level.upper()], handlers=[LineHandler(stderr)], force=True
    )
    try:
        code = 0 if uvloop.run(run_session(settings, terms)) else FAILED
    except WindlassError as error:
        log.error("%s", error)
        code = TRY_AGAIN if isinstance(error, EngineUnavailable) else FAILED
    except Exception:
        log.exception("It has to end.")
        code = FAILED
    uvloop.run(stderr.flush(FLUSH_S))
    sys.exit(code)
