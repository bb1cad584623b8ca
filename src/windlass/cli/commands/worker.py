"""windlass worker: runs the jobs of an application, in this process or in several."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import click
import uvloop

from windlass import __version__
from windlass.cli.connection import Engine, engine_options
from windlass.cli.output import counted, printable
from windlass.cli.parameters import Duration, Typed
from windlass.core.errors import WindlassError
from windlass.core.validation.bounds import QUEUE_MAX, TAKE_MAX
from windlass.core.validation.values import check_text
from windlass.sdk.app import Windlass
from windlass.sdk.app_loader import load_app
from windlass.sdk.worker.logs import LogFormat, configure_logging
from windlass.sdk.worker.supervision.autoscaler import Autoscaler
from windlass.sdk.worker.supervision.file_watcher import loaded_files
from windlass.sdk.worker.supervision.protocol import LoadedMessage, NotLoadedMessage, ReadyMessage
from windlass.sdk.worker.supervision.supervised import SupervisorConnection
from windlass.sdk.worker.supervision.supervisor import Supervisor
from windlass.sdk.worker.worker import Worker

log = logging.getLogger("windlass.worker")

PATIENT_S = 2.0  # silence that long makes people wonder
TASKS_SHOWN = 12
PROCESSES_MAX = 256


class Bounds(Typed):
    name = "from-to"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d{1,3})-(\d{1,3})", value)
        least, most = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= least <= most <= PROCESSES_MAX:
            self.fail(f"{value!r} must be a least and a most number of processes, e.g. 1-8.", parameter, context)
        return least, most


class Queues(Typed):
    name = "queues"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[str, ...]:
        names = value if isinstance(value, tuple) else tuple(one.strip() for one in value.split(",") if one.strip())
        try:
            for name in names:
                check_text("queue", name, QUEUE_MAX)
        except WindlassError as error:
            self.fail(str(error), parameter, context)
        return names


class Terms(NamedTuple):
    """What was asked for, of each process."""

    target: str
    queues: tuple[str, ...]
    concurrency: int
    grace: int
    burst: bool
    name: str
    engine: Engine
    no_loops: bool
    log_format: LogFormat | None  # None: as the settings have it
    log_level: str

    def command(self, number: int) -> list[str]:
        """The same for the n-th process of several."""
        words = [sys.executable, "-m", "windlass", "worker", self.target, "--grace", f"{self.grace}ms"]
        words += ["-c", str(self.concurrency), "--log-level", self.log_level]
        words += ["--log-format", self.log_format] if self.log_format else []
        words += ["-q", ",".join(self.queues)] if self.queues else []
        words += ["--name", f"{self.name}-{number}"] if self.name else []
        words += self.engine.words()
        words += ["--burst"] if self.burst else []
        return [*words, "--no-loops"] if self.no_loops else words


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "-q", "--queues", type=Queues(), default=(), help="Queues to serve, by comma. Default: those of its tasks."
)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, TAKE_MAX),
    default=16,
    show_default=True,
    help="Jobs at once, in each process.",
)
@click.option(
    "--processes", type=click.IntRange(1, PROCESSES_MAX), help="So many processes; those that die are replaced."
)
@click.option(
    "--autoscale", type=Bounds(), metavar="LEAST-MOST", help="As many processes as the queues need, e.g. 1-8."
)
@click.option(
    "--scale-down-after",
    type=Duration(),
    default="30s",
    show_default=True,
    help="With --autoscale: a process ends when fewer would have been enough for so long.",
)
@click.option("--reload", is_flag=True, help="Start anew when a file of the application changes (for development).")
@click.option(
    "--grace",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Time for running jobs to end when it is stopped.",
)
@click.option("--burst", is_flag=True, help="End when nothing is left to take.")
@click.option("--name", default="", help="Shown in lists of workers.")
@click.option("--no-loops", is_flag=True, help="Leave schedules, lost leases and retention to other processes.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Default: WINDLASS_LOG_FORMAT, or text.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
)
@engine_options
@click.option("--supervised", hidden=True)
def worker(
    processes: int | None,
    autoscale: tuple[int, int] | None,
    scale_down_after: int,
    reload: bool,
    supervised: str | None,
    **options: Any,
) -> None:
    """Run the jobs of an application.

    The first SIGTERM or Ctrl-C stops the taking: running jobs have the grace to end. The second one gives them back at
    once. SIGUSR1 writes all stacks to stderr.

    \b
    Example:
      windlass worker shop.tasks:app -q high,default -c 32
      windlass worker shop.tasks:app --processes 4
    """
    terms = Terms(**options)
    form = terms.log_format or terms.engine.settings().log_format
    configure_logging(form, logging.getLevelNamesMapping()[terms.log_level.upper()], shows_process=bool(supervised))
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    if supervised is None and (processes or autoscale or reload):
        _supervise(terms, _scaling(terms, processes, autoscale, scale_down_after), reload)
    else:
        _work(terms, SupervisorConnection(supervised) if supervised else None)


# In this process


def _work(terms: Terms, supervised: SupervisorConnection | None) -> None:
    app = _loaded(terms, supervised)
    made = Worker(
        app,
        queues=terms.queues,
        concurrency=terms.concurrency,
        grace=terms.grace / 1000,
        burst=terms.burst,
        has_loops=not terms.no_loops,
        name=terms.name,
        target=terms.target if terms.target.partition(":")[2] else "",  # then it is looked for
        id=supervised.worker_id if supervised else b"",
    )
    described = LoadedMessage(
        settings=app.settings,
        queues=made.queues,
        slots=made.concurrency,
        tasks={task.name: task.max_crashes for task in app.tasks.values()},
        files=loaded_files(os.getcwd()) if supervised else [],
    )
    if supervised:
        supervised.send(described)
    else:
        click.echo(f"Connecting to {app.any_store.endpoint} …")
    _complete(_run(made, described, supervised, waits_for_engine=not terms.burst), made)


def _complete(work: Coroutine[Any, Any, None], made: Worker) -> None:
    """Run the worker to its end. A SystemExit or KeyboardInterrupt in any asyncio task leaves the event loop, too. When
    a job has started that asyncio task, only the job fails, and the loop goes on: signals have handlers of their own,
    so such an exception is not a request to stop the worker."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        loop = runner.get_loop()
        main = loop.create_task(work)
        while True:
            try:
                return loop.run_until_complete(main)
            except (SystemExit, KeyboardInterrupt) as raised:
                if main.done() or not made.is_ready:
                    raise
                log.warning(
                    "The code of a job raised %s in an asyncio task or callback that it had started. The worker goes "
                    "on; a job that awaits this code fails. Raise GiveUp there to end a job.", repr(raised),
                    exc_info=raised,
                )  # fmt: skip


def _loaded(terms: Terms, supervised: SupervisorConnection | None) -> Windlass:
    try:
        app = load_app(terms.target)
    except WindlassError as error:
        if supervised:
            supervised.send(NotLoadedMessage(loaded_files(os.getcwd(), error)))
        raise
    app.redirect(**terms.engine._asdict())
    return app


async def _run(
    made: Worker, described: LoadedMessage, supervised: SupervisorConnection | None, *, waits_for_engine: bool
) -> None:
    stopper = Stopper(made)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopper.signalled)
    beside: list[Coroutine[Any, Any, None]] = [_announce(made, described, supervised)]
    if supervised:
        supervised.listen(stopper.stop, stopper.now)
        beside.append(supervised.report_running(made))
    tasks = [asyncio.create_task(work) for work in beside]
    try:
        if not waits_for_engine:
            await made.app.aservice()
        await made.run()
    finally:
        for task in tasks:
            task.cancel()
        await made.app.aclose()
    if not supervised:
        click.echo(f"Stopped after {counted(made.done, 'job')}.")


class Stopper:
    """Counts requests to stop: those of a supervisor and of a signal that everybody got are the same one."""

    def __init__(self, made: Worker) -> None:
        self._worker = made
        self._signals = 0
        self._level = 0

    def signalled(self) -> None:
        self._signals += 1
        self.now() if self._signals > 1 else self.stop()

    def stop(self) -> None:
        self._reach(1)

    def now(self) -> None:
        self._reach(2)

    def _reach(self, level: int) -> None:
        if not self._worker.is_ready:
            # It waits for its engine, maybe in a thread that cannot be stopped; it holds nothing.
            log.info("Stopped before it was connected.")
            os._exit(0)
        while self._level < level:
            self._level += 1
            log.info(
                "Stopping: %s.", ("running jobs have the grace to end", "running jobs are given back")[self._level - 1]
            )
            self._worker.stop()


async def _announce(made: Worker, described: LoadedMessage, supervised: SupervisorConnection | None) -> None:
    if not supervised:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENT_S):
                await made.wait_until_ready()
        if not made.is_ready:
            log.warning("Waiting for %s …", made.app.any_store.endpoint)
    await made.wait_until_ready()
    found = made.app.any_store.deployment
    assert found is not None  # noqa: S101 (it is connected)
    ready = ReadyMessage(f"{found.product} {found.version} at {made.app.any_store.endpoint}")
    supervised.send(ready) if supervised else _show(described, ready, "")


# In several


def _scaling(
    terms: Terms, processes: int | None, autoscale: tuple[int, int] | None, scale_down_after: int
) -> Autoscaler:
    if processes and autoscale:
        raise click.UsageError("Give either --processes or --autoscale.")
    if autoscale and terms.burst:
        raise click.UsageError("--burst ends when nothing is left: give --processes instead of --autoscale.")
    least, most = autoscale or (processes or 1, processes or 1)
    return Autoscaler(least, most, down_after_s=scale_down_after / 1000)


def _supervise(terms: Terms, scaling: Autoscaler, is_reloading: bool) -> None:
    if is_reloading:
        # What is compiled is checked by the second and the size: a quick edit would run the old code.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    several = f"{scaling.least} to {scaling.most}" if scaling.most > scaling.least else str(scaling.least)
    code = uvloop.run(
        _run_several(
            Supervisor,
            terms.command,
            scaling,
            grace_s=terms.grace / 1000,
            is_reloading=is_reloading,
            is_burst=terms.burst,
            announce=lambda loaded, ready: _show(loaded, ready, several),
        )
    )
    if code == 0:
        click.echo("Stopped.")
    sys.exit(code)


async def _run_several(make: Callable[..., Supervisor], *args: Any, **options: Any) -> int:
    supervisor = make(*args, **options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)

    def dump() -> None:
        faulthandler.dump_traceback(all_threads=True)
        supervisor.dump()

    faulthandler.unregister(signal.SIGUSR1)
    loop.add_signal_handler(signal.SIGUSR1, dump)
    return await supervisor.run()


def _show(loaded: LoadedMessage, ready: ReadyMessage, processes: str) -> None:
    click.echo(f"Windlass {__version__} is ready for work.")
    click.echo(f"  engine     {ready.engine}")
    click.echo(f"  queues     {printable(', '.join(loaded.queues))}")
    if processes:
        click.echo(f"  processes  {processes}")
    click.echo(f"  slots      {loaded.slots}{' in each' if processes else ''}")
    click.echo(f"  tasks      {printable(_listed(sorted(loaded.tasks)))}")
    click.echo("Stop with Ctrl-C.")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - TASKS_SHOWN
    return ", ".join([*names[:TASKS_SHOWN], *([f"and {more} more"] if more > 0 else [])]) or "none: nothing will be run"
