"""windlass processor: messages as JSON lines on stdin and stdout, the log on stderr."""

from __future__ import annotations

import logging
import sys

import click

from windlass.cli.connection import EngineOptions, engine_options
from windlass.cli.parameters import DurationType
from windlass.core.errors import EngineUnavailable, WindlassError
from windlass.core.validation.bounds import UINT32_MAX
from windlass.processes import event_loop
from windlass.server.stdio import FLUSH_S, LineHandler, OutputPipe, ProcessorOptions, run_session

log = logging.getLogger("windlass.processor")

TICKS = 3  # default of --expiry and --lease
TRY_AGAIN, FAILED = 75, 1


@click.command()
@click.option(
    "--tick", type=DurationType(), default="3s", show_default=True, help="Interval of the heartbeats of workers."
)
@click.option(
    "--expiry", type=DurationType(), help="Requeue the jobs of a worker that is silent for this long. Default: 3 ticks."
)
@click.option(
    "--lease", type=DurationType(), help="Requeue a dispatched job that is not accepted in time. Default: 3 ticks."
)
@click.option(
    "--attempts",
    type=click.IntRange(0, UINT32_MAX),
    default=0,
    show_default=True,
    help="Maximum number of dispatches of a job that is added here; then it fails. 0: unlimited.",
)
@click.option(
    "--keep",
    type=DurationType(),
    default="1h",
    show_default=True,
    help="How long to keep finished jobs, with the reports of their workers.",
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
    tick: int, expiry: int | None, lease: int | None, attempts: int, keep: int, log_level: str, engine: EngineOptions
) -> None:
    """Assign jobs to workers that talk in JSON lines.

    Reads messages on stdin (job_queue/add_job, …/del_job, …/worker_idle, …/job_accepted, …/worker_progress,
    …/job_finished, …/job_failed, tick), writes …/job_assignment and …/job_cancelled on stdout and its log on stderr;
    docs/processor.md describes them. It ends when its input ends. Several processors may share an engine.

    \b
    From the environment:
      SERVICE_NAME         job_queue   in its messages
      SERVICE_UUID         random
      SERVICE_HOST         the host's name
      NAMESPACE_LISTENER   default     prefix of the topics that it reads
      NAMESPACE_PUBLISHER  default     prefix of the topics that it writes

    \b
    Example:
      windlass processor --tick 3s < messages.jsonl
    """
    if not tick:
        raise click.UsageError("--tick must be greater than 0.")
    options = ProcessorOptions(tick, expiry or TICKS * tick, lease or TICKS * tick, attempts, keep)
    settings = engine.settings()
    stderr: OutputPipe[None] = OutputPipe(2)
    logging.basicConfig(
        level=logging.getLevelNamesMapping()[log_level.upper()], handlers=[LineHandler(stderr)], force=True
    )
    try:
        code = 0 if event_loop.run(run_session(settings, options)) else FAILED
    except WindlassError as error:
        log.error("%s", error)
        code = TRY_AGAIN if isinstance(error, EngineUnavailable) else FAILED
    except Exception:
        log.exception("The processor ends because of an unexpected error.")
        code = FAILED
    event_loop.run(stderr.flush(FLUSH_S))
    sys.exit(code)
