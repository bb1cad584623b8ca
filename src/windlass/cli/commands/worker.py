"""windlass worker: run the jobs of an application, in this process or in several."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import click

from windlass import __version__
from windlass.cli.connection import engine_options
from windlass.cli.output import format_count
from windlass.cli.parameters import DurationType
from windlass.cli.worker_options import PROCESSES_MAX, ProcessRangeType, QueuesType, WorkerOptions
from windlass.core.errors import BadSetting, WindlassError
from windlass.core.text.control_characters import printable
from windlass.core.validation.bounds import TAKE_MAX
from windlass.processes import event_loop
from windlass.processes.foreground_start import start_foreground_child
from windlass.processes.posix import IS_POSIX
from windlass.sdk.app import Windlass
from windlass.sdk.app_loader import load_app
from windlass.sdk.worker.logs import LogFormat, configure_logging
from windlass.sdk.worker.supervision.autoscaler import Autoscaler
from windlass.sdk.worker.supervision.file_watcher import loaded_files
from windlass.sdk.worker.supervision.protocol import LoadedMessage, NotLoadedMessage, ReadyMessage
from windlass.sdk.worker.supervision.recovery_program import recovery_command
from windlass.sdk.worker.supervision.supervised import SupervisorConnection
from windlass.sdk.worker.supervision.supervisor import UNWIND_S, WorkerSupervisor
from windlass.sdk.worker.worker import Worker

log = logging.getLogger("windlass.worker")

NOTICE_AFTER_S = 2.0  # of waiting for the engine
TASKS_SHOWN = 12


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "-q",
    "--queues",
    type=QueuesType(),
    default=(),
    help="Queues, separated by commas. Default: the queues of its tasks.",
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, TAKE_MAX),
    default=16,
    show_default=True,
    help="Concurrent jobs in each process.",
)
@click.option(
    "--processes", type=click.IntRange(1, PROCESSES_MAX), help="Number of processes; a process that dies is replaced."
)
@click.option(
    "--autoscale",
    type=ProcessRangeType(),
    metavar="LEAST-MOST",
    help="Adapt the number of processes to the queues, e.g. 1-8.",
)
@click.option(
    "--scale-down-after",
    type=DurationType(),
    default="30s",
    show_default=True,
    help="With --autoscale: stop a process if fewer were enough for this long.",
)
@click.option("--reload", is_flag=True, help="Restart when a file of the application changes (for development).")
@click.option(
    "--grace",
    type=DurationType(),
    default="30s",
    show_default=True,
    help="Time for running jobs to finish when the worker stops.",
)
@click.option("--burst", is_flag=True, help="Exit when no job is left to take.")
@click.option("--name", default="", help="Name in lists of workers.")
@click.option("--no-loops", is_flag=True, help="Leave schedules, expired leases and retention to other processes.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Default: WINDLASS_LOG_FORMAT, or text.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
)
@click.option(
    "--job-log/--no-job-log", default=None, help="Log a line for each job that ends. Default: WINDLASS_JOB_LOG, or on."
)
@click.option(
    "--supervisor/--no-supervisor",
    default=True,
    help="Run under a small parent, which frees the jobs of a worker that dies and restarts it. Default: on.",
)
@engine_options
@click.option("--supervised", hidden=True)
@click.option("--foreground", hidden=True)
def worker(
    processes: int | None,
    autoscale: tuple[int, int] | None,
    scale_down_after: int,
    reload: bool,
    supervisor: bool,
    supervised: str | None,
    foreground: str | None,
    **options: Any,
) -> None:
    """Run the jobs of an application.

    The first SIGTERM or Ctrl-C ends the takes, and running jobs have the grace period to finish. The second one
    releases them at once. SIGUSR1 writes all stacks to stderr.

    A small parent process frees the jobs of a worker that is killed or crashes, and starts it again.

    \b
    Example:
      windlass worker shop.tasks:app -q high,default -c 32
      windlass worker shop.tasks:app --processes 4
    """
    worker_options = WorkerOptions(**options)
    log_format = worker_options.log_format or worker_options.engine.settings().log_format
    configure_logging(
        log_format, logging.getLevelNamesMapping()[worker_options.log_level.upper()], shows_process=bool(supervised)
    )
    if IS_POSIX:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    if supervised or foreground:
        address = supervised or foreground or ""
        _run_in_process(worker_options, SupervisorConnection(address, is_foreground=foreground is not None))
    elif processes or autoscale or reload:
        if not supervisor:
            raise click.UsageError("--no-supervisor cannot be used with --processes, --autoscale or --reload.")
        _supervise(worker_options, _make_autoscaler(worker_options, processes, autoscale, scale_down_after), reload)
    else:
        has_parent = supervisor and IS_POSIX and bool(sys.executable)
        _run_in_process(worker_options, _start_under_parent(worker_options, log_format) if has_parent else None)


# In one process


def _start_under_parent(worker_options: WorkerOptions, log_format: LogFormat) -> SupervisorConnection:
    """Return in a child of this process, before any code of the application is imported."""
    child = start_foreground_child(
        [*worker_options.command(), "--foreground"],
        recovery_command(log_format, worker_options.log_level),
        grace_s=worker_options.grace / 1000,
        unwind_s=UNWIND_S,
        is_burst=worker_options.burst,
        log_format=log_format,
    )
    return SupervisorConnection(f"{child.id}:{child.descriptor}", is_foreground=True)


def _run_in_process(worker_options: WorkerOptions, supervised: SupervisorConnection | None) -> None:
    app = _load_app(worker_options, supervised)
    instance = Worker(
        app,
        queues=worker_options.queues,
        concurrency=worker_options.concurrency,
        grace=worker_options.grace / 1000,
        burst=worker_options.burst,
        has_loops=not worker_options.no_loops,
        name=worker_options.name,
        job_log=worker_options.job_log,
        target=worker_options.target
        if worker_options.target.partition(":")[2]
        else "",  # empty: the app is searched in the module
        id=supervised.worker_id if supervised else b"",
    )
    loaded = LoadedMessage(
        settings=app.settings,
        queues=instance.queues,
        slots=instance.concurrency,
        tasks={task.name: task.max_crashes for task in app.tasks.values()},
        files=loaded_files(os.getcwd()) if supervised and not supervised.is_foreground else [],
    )
    if supervised:
        supervised.report(loaded)
    if _talks(supervised):
        click.echo(f"Connecting to {app.any_store.endpoint} …")
    _run_to_end(_run(instance, loaded, supervised, waits_for_engine=not worker_options.burst), instance)


def _run_to_end(work: Coroutine[Any, Any, None], instance: Worker) -> None:
    """Run the worker to its end. A SystemExit or KeyboardInterrupt in any asyncio task also ends the event loop. If a
    job started that task, only the job fails and the loop continues: signals have their own handlers, so such an
    exception is not a request to stop the worker."""
    with asyncio.Runner(loop_factory=event_loop.new_event_loop) as runner:
        loop = runner.get_loop()
        main = loop.create_task(work)
        while True:
            try:
                return loop.run_until_complete(main)
            except (SystemExit, KeyboardInterrupt) as raised:
                if main.done() or not instance.is_ready:
                    raise
                log.warning(
                    "The code of a job raised %s in an asyncio task or callback that it had started. The worker "
                    "continues; a job that awaits this code fails. Raise GiveUp to fail a job.", repr(raised),
                    exc_info=raised,
                )  # fmt: skip


def _load_app(worker_options: WorkerOptions, supervised: SupervisorConnection | None) -> Windlass:
    try:
        app = load_app(worker_options.target)
    except WindlassError as error:
        if supervised:
            supervised.report(NotLoadedMessage(loaded_files(os.getcwd(), error)))
        raise
    app.redirect(**worker_options.engine._asdict())
    return app


async def _run(
    instance: Worker, loaded: LoadedMessage, supervised: SupervisorConnection | None, *, waits_for_engine: bool
) -> None:
    stopper = Stopper(instance)
    event_loop.handle_signals((signal.SIGTERM, signal.SIGINT), stopper.on_signal)
    background: list[Coroutine[Any, Any, None]] = [_announce(instance, loaded, supervised)]
    if supervised:
        supervised.listen(stopper.stop, stopper.stop_now)
        background += [] if supervised.is_foreground else [supervised.report_running(instance)]
    tasks = [asyncio.create_task(work) for work in background]
    try:
        if not waits_for_engine:
            await instance.app.aservice()
        await instance.run()
    finally:
        for task in tasks:
            task.cancel()
        await instance.app.aclose()
    if _talks(supervised):
        click.echo(f"Stopped after {format_count(instance.done, 'job')}.")


class Stopper:
    """Counts stop requests. The request of a supervisor and a signal to the process group count as the same request."""

    def __init__(self, instance: Worker) -> None:
        self._worker = instance
        self._signals = 0
        self._level = 0

    def on_signal(self) -> None:
        self._signals += 1
        self.stop_now() if self._signals > 1 else self.stop()

    def stop(self) -> None:
        self._reach(1)

    def stop_now(self) -> None:
        self._reach(2)

    def _reach(self, level: int) -> None:
        if not self._worker.is_ready:
            # The worker waits for its engine, possibly in a thread that cannot be stopped. It holds no jobs.
            log.info("Stopped before the worker was connected.")
            os._exit(0)
        while self._level < level:
            self._level += 1
            log.info(
                "Stopping: %s.",
                ("running jobs have the grace period to finish", "running jobs are released")[self._level - 1],
            )
            self._worker.stop()


async def _announce(instance: Worker, loaded: LoadedMessage, supervised: SupervisorConnection | None) -> None:
    if _talks(supervised):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICE_AFTER_S):
                await instance.wait_until_ready()
        if not instance.is_ready:
            log.warning("Waiting for %s …", instance.app.any_store.endpoint)
    await instance.wait_until_ready()
    found = instance.app.any_store.deployment
    assert found is not None  # noqa: S101 (it is connected)
    ready = ReadyMessage(f"{found.product} {found.version} at {instance.app.any_store.endpoint}")
    if supervised:
        supervised.report(ready)
    if _talks(supervised):
        _show(loaded, ready, "")


def _talks(supervised: SupervisorConnection | None) -> bool:
    """Report whether this process writes to the user. Of several processes only the supervisor does."""
    return supervised is None or supervised.is_foreground


# In several processes


def _make_autoscaler(
    worker_options: WorkerOptions, processes: int | None, autoscale: tuple[int, int] | None, scale_down_after: int
) -> Autoscaler:
    if processes and autoscale:
        raise click.UsageError("Give either --processes or --autoscale.")
    if autoscale and worker_options.burst:
        raise click.UsageError("--burst cannot be used with --autoscale: give --processes instead.")
    least, most = autoscale or (processes or 1, processes or 1)
    return Autoscaler(least, most, down_after_s=scale_down_after / 1000)


def _supervise(worker_options: WorkerOptions, scaling: Autoscaler, is_reloading: bool) -> None:
    if not IS_POSIX:
        raise BadSetting(
            "--processes, --autoscale and --reload need Linux or macOS. Start several `windlass worker` instead."
        )
    if is_reloading:
        # Python checks compiled files by their time in seconds and their size: a quick edit would run the old code.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    several = f"{scaling.least} to {scaling.most}" if scaling.most > scaling.least else str(scaling.least)
    code = event_loop.run(
        _run_several(
            WorkerSupervisor,
            worker_options.command,
            scaling,
            grace_s=worker_options.grace / 1000,
            is_reloading=is_reloading,
            is_burst=worker_options.burst,
            announce=lambda loaded, ready: _show(loaded, ready, several),
        )
    )
    if code == 0:
        click.echo("Stopped.")
    sys.exit(code)


async def _run_several(make: Callable[..., WorkerSupervisor], *args: Any, **options: Any) -> int:
    supervisor = make(*args, **options)

    def dump() -> None:
        faulthandler.dump_traceback(all_threads=True)
        supervisor.dump()

    faulthandler.unregister(signal.SIGUSR1)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, dump)
    return await supervisor.run()


def _show(loaded: LoadedMessage, ready: ReadyMessage, processes: str) -> None:
    click.echo(f"Windlass {__version__} is ready for work.")
    click.echo(f"  engine     {ready.engine}")
    click.echo(f"  queues     {printable(', '.join(loaded.queues))}")
    if processes:
        click.echo(f"  processes  {processes}")
    click.echo(f"  slots      {loaded.slots}{' in each' if processes else ''}")
    click.echo(f"  tasks      {printable(_list_names(sorted(loaded.tasks)))}")
    click.echo("Stop with Ctrl-C.")


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - TASKS_SHOWN
    return ", ".join([*names[:TASKS_SHOWN], *([f"and {more} more"] if more > 0 else [])]) or "none: no job will run"
