"""Event loop of our processes and threads: uvloop where it is installed, asyncio's own elsewhere (Windows, clients)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a loop of its own."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def handle_signals(numbers: Iterable[int], handle: Callable[[], object]) -> None:
    """Call `handle` in the running event loop at each of these signals."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        try:
            loop.add_signal_handler(number, handle)
        except NotImplementedError:  # loops on Windows have none; Python calls its own handler between two steps
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(handle))
