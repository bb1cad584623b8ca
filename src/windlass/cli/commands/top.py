"""windlass top: the live screen. What it shows is in top_frame.py; this is the clock, the keyboard and the terminal."""

from __future__ import annotations

import contextlib
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator

import click
from rich.live import Live

from windlass.cli import top_frame
from windlass.cli.connection import connected
from windlass.cli.output import console, is_for_people, json_document, json_option
from windlass.cli.parameters import DURATION
from windlass.cli.records import record
from windlass.service import Service

EVERY_MIN_MS = 200
PLAIN_WIDTH = 140  # where no terminal says how wide it is
ONCE_ROWS = 100


@click.command(short_help="Watch queues and workers.")
@click.option("--every", type=DURATION, default="2s", help="Look again after this time. Default: 2s.")
@click.option("--once", is_flag=True, help="Print what there is now, and end.")
@json_option
@connected
def top(service: Service, every: int, once: bool, as_json: bool) -> None:
    """Watch queues and workers: depth, age, rates per minute, what runs. q or Ctrl-C ends it.

    Where stdout is no terminal, or with --json (one document), it looks once.

    \b
    Example:
      windlass top
      windlass top --once
    """
    if every < EVERY_MIN_MS:
        raise click.BadParameter(f"at least {EVERY_MIN_MS}ms", param_hint="--every")
    if as_json:
        json_document(record(top_frame.read(service, ONCE_ROWS)))
    elif once or not is_for_people():
        screen = console(None if is_for_people() else PLAIN_WIDTH)
        screen.print(top_frame.drawn(top_frame.read(service, ONCE_ROWS), screen.width))
    else:
        with contextlib.suppress(KeyboardInterrupt):
            _watch(service, every)


def _watch(service: Service, every_ms: int) -> None:
    screen = console()
    with (
        _interrupts() as was_interrupted,
        _unbuffered_keys(),
        Live(console=screen, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while not was_interrupted():
            frame = top_frame.read(service, screen.height)
            live.update(top_frame.drawn(frame, screen.width, screen.height), refresh=True)
            if _wants_to_end(every_ms / 1000):
                return


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Ctrl-C raises as ever, and is remembered: an exception that hits a destructor goes nowhere."""
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
    """Keys come one by one and unseen; the terminal is as it was afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _wants_to_end(within_s: float) -> bool:
    if not sys.stdin.isatty():
        time.sleep(within_s)
        return False
    ready, _, _ = select.select([sys.stdin], [], [], within_s)
    return bool(ready) and sys.stdin.read(1) in ("q", "Q", "")
