"""Pool of warm child processes: started on demand, reused, and replaced regularly.

Requests and answers are opaque bytes. Only the caller and the target's handler (`child.py`) interpret them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

from windlass.pauses import Pauses

from .child_process import ChildDied, ChildNotReady, ChildProcess, ChildRun, HandlerRaised

__all__ = ["ChildDied", "ChildNotReady", "ChildPool", "ChildRun", "HandlerRaised"]

START_PAUSES = Pauses(0.1, 10.0)  # after children that did not start


class ChildPool:
    """At most `most` processes with `target` loaded, each running one job at a time. Used from one event loop.

    A child is replaced after `recycle_after` jobs, when it has grown beyond `recycle_bytes` (0: no bound), after it was
    asked to terminate, and when it has run out of memory. Each child leads its own session.
    """

    def __init__(
        self,
        target: str,
        most: int,
        *,
        recycle_after: int = 1000,
        recycle_bytes: int = 0,
        grace_s: float = 5.0,
        command: Sequence[str] | None = None,
        logging: Callable[[], tuple[str, int] | None] = lambda: None,
    ) -> None:
        self.most = most
        self.logging = logging  # format and level for new children; None: they keep their defaults
        self._command = [*(command or (sys.executable, "-m", "windlass.processes.child")), target]
        self._recycle_after = recycle_after
        self._recycle_bytes = recycle_bytes
        self._grace_s = grace_s
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()
        self._failures = 0
        self._start_at = 0.0  # by the event loop's clock; no child is started before
        self._is_closed = False

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._all if child.pid is not None]

    async def run(self, request: bytes, *, memory_bytes: int = 0, on_begin: Callable[[], None] = lambda: None) -> bytes:
        """Run `request` and return the answer. Cancellation kills the child."""
        run = self.start(request, memory_bytes=memory_bytes, on_begin=on_begin)
        try:
            return await run.future
        except asyncio.CancelledError:
            run.kill()
            raise

    def start(self, request: bytes, *, memory_bytes: int = 0, on_begin: Callable[[], None] = lambda: None) -> ChildRun:
        """Send `request` to an idle child or to a new child.

        The job may use `memory_bytes` more than the process uses now. `on_begin` is called when a child that is ready
        has received the request.
        """
        if self._is_closed:
            raise RuntimeError("The pool of child processes is closed.")
        run = ChildRun(asyncio.get_running_loop().create_future(), request, memory_bytes, on_begin)
        # The child used last has the warmest caches.
        while self._idle:
            if self._idle.pop().assign(run):
                return run
        if sum(not child.is_closing for child in self._all) >= self.most:
            raise RuntimeError(f"All {self.most} child processes are busy.")
        self._add(run)
        return run

    def _add(self, run: ChildRun) -> None:
        loop = asyncio.get_running_loop()
        child = ChildProcess(self._command, self, run)
        self._all.add(child)
        if self._start_at > loop.time():
            loop.call_at(self._start_at, child.spawn)
        else:
            child.spawn()

    def end_idle(self) -> None:
        """End all idle children. New children are started on demand."""
        while self._idle:
            self._idle.pop().shut_down(self._grace_s)

    async def close(self) -> None:
        """End idle children at once, and busy ones after their job or by SIGTERM after the grace, then by SIGKILL."""
        self._is_closed = True
        for child in list(self._all):
            child.shut_down(self._grace_s)
        await asyncio.gather(*(child.gone.wait() for child in list(self._all)))

    def child_is_ready(self) -> None:
        self._failures, self._start_at = 0, 0.0

    def child_is_free(self, child: ChildProcess, resident_bytes: int) -> None:
        has_grown = 0 < self._recycle_bytes < resident_bytes
        if child.is_closing or has_grown or child.jobs >= self._recycle_after:
            child.shut_down(self._grace_s)
        else:
            self._idle.append(child)

    def retry_elsewhere(self, run: ChildRun) -> bool:
        if self._is_closed or run.was_retried:
            return False
        run.was_retried = True
        self._add(run)
        return True

    def child_did_not_start(self) -> None:
        self._failures += 1
        self._start_at = asyncio.get_running_loop().time() + START_PAUSES.after(self._failures)

    def child_is_gone(self, child: ChildProcess) -> None:
        self._all.discard(child)
        if child in self._idle:
            self._idle.remove(child)
