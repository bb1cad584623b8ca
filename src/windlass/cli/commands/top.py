"""windlass top: the loop, keyboard and terminal of the live screen. top_frame.py draws its content."""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator

import click
from rich.live import Live

from windlass.cli import top_frame
from windlass.cli.connection import with_service
from windlass.cli.output import console, is_for_people, json_option, print_json
from windlass.cli.parameters import DURATION
from windlass.cli.records import to_record
from windlass.processes.posix import IS_POSIX
from windlass.service import Service

with contextlib.suppress(ImportError):  # not on Windows, where only Ctrl-C ends it
    import termios
    import tty

INTERVAL_MIN_MS = 200
PLAIN_WIDTH = 140  # without a terminal
ONCE_ROWS = 100


@click.command(short_help="Watch queues and workers.")
@click.option("--every", type=DURATION, default="2s", help="Interval of updates. Default: 2s.")
@click.option("--once", is_flag=True, help="Print one frame and exit.")
@json_option
@with_service
def top(service: Service, every: int, once: bool, as_json: bool) -> None:
    """Watch queues and workers: depth, age, rates per minute, running jobs. q or Ctrl-C ends it.

    If stdout is not a terminal, or with --json (one document), it prints one frame.

    \b
    Example:
      windlass top
      windlass top --once
    """
    if every < INTERVAL_MIN_MS:
        raise click.BadParameter(f"at least {INTERVAL_MIN_MS}ms", param_hint="--every")
    if as_json:
        print_json(to_record(top_frame.read(service, ONCE_ROWS)))
    elif once or not is_for_people():
        screen = console(None if is_for_people() else PLAIN_WIDTH)
        screen.print(top_frame.render(top_frame.read(service, ONCE_ROWS), screen.width))
    else:
        with contextlib.suppress(KeyboardInterrupt):
            _run_live(service, every)


def _run_live(service: Service, every_ms: int) -> None:
    screen = console()
    service.store.queue_surveys.reads_in_turns = True  # a first frame of very many queues may be incomplete
    with (
        _interrupts() as was_interrupted,
        _unbuffered_keys(),
        Live(console=screen, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while not was_interrupted():
            frame = top_frame.read(service, screen.height)
            live.update(top_frame.render(frame, screen.width, screen.height), refresh=True)
            if _wait_for_quit(every_ms / 1000):
                return


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C raise KeyboardInterrupt, and also remember it: an exception inside a destructor would be lost."""
    seen: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _unbuffered_keys() -> Iterator[None]:
    """Read keys one by one and without echo. Restores the terminal afterwards."""
    if not _has_keys():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _has_keys() -> bool:
    return IS_POSIX and sys.stdin.isatty()


def _wait_for_quit(within_s: float) -> bool:
    if not _has_keys():
        time.sleep(within_s)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], within_s)
    return bool(ready) and sys.stdin.read(1) in ("q", "Q", "")
