"""windlass worker: runs the jobs of an application."""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import os
import signal
import sys

import click
import uvloop

from ..core.errors import BadSetting
from ..sdk.app import Windlass
from ..sdk.worker.logs import configure_logging
from ..sdk.worker.worker import Worker
from ..settings import load


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option("-q", "--queues", default="", help="Queues to serve, by comma, in order. Default: those of its tasks.")
@click.option("-c", "--concurrency", default=16, show_default=True, help="Jobs at once, in this process.")
@click.option("--grace", default="30s", show_default=True, help="Time for running jobs to end when it is stopped.")
@click.option("--burst", is_flag=True, help="End when nothing is left to take.")
@click.option("--name", default="", help="Shown in lists of workers.")
def worker(target: str, queues: str, concurrency: int, grace: str, burst: bool, name: str) -> None:
    """Run the jobs of an application.

    Example: windlass worker shop.tasks:app -q mail,default -c 32
    """
    configure_logging(load()[0].log_format)
    app = load_app(target)
    made = Worker(
        app,
        queues=[queue for queue in queues.split(",") if queue],
        concurrency=concurrency,
        grace=grace,
        burst=burst,
        name=name,
        target=target,
    )
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    uvloop.run(_run(made))


async def _run(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    try:
        await worker.run()
    finally:
        await worker.app.aclose()


def load_app(target: str) -> Windlass:
    module_name, _, attribute = target.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise BadSetting(f"There is no module {module_name!r} here; name the app as MODULE:APP.") from error
    for part in (attribute or "app").split("."):
        found = getattr(found, part, None)  # type: ignore[assignment]
    if not isinstance(found, Windlass):
        raise BadSetting(f"{target!r} is not a Windlass app; name the app as MODULE:APP.")
    return found
