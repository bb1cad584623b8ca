"""Watch for the stop of the host's server, which ends streams and long polls.

ASGI tells an application of the stop only after the last request has ended, and streams end only at a stop: uvicorn
would wait for an open page of the dashboard without end. A server that handles SIGTERM with a method, as uvicorn does,
shows by its attribute `should_exit` that it stops."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

CHECK_S = 0.5


def is_host_stopping() -> bool:
    handler = signal.getsignal(signal.SIGTERM)
    return getattr(getattr(handler, "__self__", None), "should_exit", False) is True


class HostWatch:
    """Context of a waiting request. While there is one, a task checks the host and calls `on_stop` once."""

    def __init__(self, on_stop: Callable[[], None]) -> None:
        self._on_stop = on_stop
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._waiting += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="windlass-host-watch")

    def __exit__(self, *exc: object) -> None:
        self._waiting -= 1

    async def _watch(self) -> None:
        while self._waiting:
            if is_host_stopping():
                self._on_stop()
                return
            await asyncio.sleep(CHECK_S)
