"""Pool of warm child processes: started when needed, used again, replaced in time.

Requests and answers are opaque bytes; their meaning is between the caller and the target's handler (`child.py`).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence

from .process import ChildDied, ChildNotReady, ChildProcess, ChildRun, HandlerRaised

__all__ = ["ChildDied", "ChildNotReady", "ChildRun", "Children", "HandlerRaised"]

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0


class Children:
    """At most `most` processes with `target` loaded, each at one job. Used from one event loop.

    A child is replaced after `recycle_after` jobs, when it has grown beyond `recycle_bytes` (0: any size will do),
    after it was told to terminate, and when it has run out of memory. Each leads a session of its own.
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
        self.logging = logging  # format and level that a new child receives; None: it keeps its own
        self._command = [*(command or (sys.executable, "-m", "windlass.processes.child")), target]
        self._recycle_after = recycle_after
        self._recycle_bytes = recycle_bytes
        self._grace_s = grace_s
        self._idle: list[ChildProcess] = []
        self._all: set[ChildProcess] = set()
        self._failures = 0
        self._start_at = 0.0  # of the event loop's clock: no child is started before
        self._is_closed = False

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._all if child.pid is not None]

    async def run(self, request: bytes, *, memory_bytes: int = 0, on_begin: Callable[[], None] = lambda: None) -> bytes:
        """Return the answer to `request`. Cancellation kills the child."""
        run = self.start(request, memory_bytes=memory_bytes, on_begin=on_begin)
        try:
            return await run.future
        except asyncio.CancelledError:
            run.kill()
            raise

    def start(self, request: bytes, *, memory_bytes: int = 0, on_begin: Callable[[], None] = lambda: None) -> ChildRun:
        """Give `request` to an idle child, or to a new one. It may add `memory_bytes` to what the process uses.
        `on_begin` is called when the child has it: a new one starts first."""
        if self._is_closed:
            raise RuntimeError("The children are closed.")
        run = ChildRun(asyncio.get_running_loop().create_future(), request, memory_bytes, on_begin)
        # The one used last is the warmest.
        while self._idle:
            if self._idle.pop().give(run):
                return run
        if sum(not child.is_leaving for child in self._all) >= self.most:
            raise RuntimeError(f"All {self.most} children are busy.")
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
        """End the children that have nothing to do; a new one is started when it is needed."""
        while self._idle:
            self._idle.pop().leave(self._grace_s)

    async def close(self) -> None:
        """Idle children end at once; the others after their job, or by SIGTERM after a grace, then by SIGKILL."""
        self._is_closed = True
        for child in list(self._all):
            child.leave(self._grace_s)
        await asyncio.gather(*(child.gone.wait() for child in list(self._all)))

    def child_is_ready(self) -> None:
        self._failures, self._start_at = 0, 0.0

    def child_is_free(self, child: ChildProcess, resident_bytes: int) -> None:
        has_grown = 0 < self._recycle_bytes < resident_bytes
        if child.is_leaving or has_grown or child.jobs >= self._recycle_after:
            child.leave(self._grace_s)
        else:
            self._idle.append(child)

    def may_move(self, run: ChildRun) -> bool:
        if self._is_closed or run.was_moved:
            return False
        run.was_moved = True
        self._add(run)
        return True

    def child_did_not_start(self) -> None:
        self._start_at = asyncio.get_running_loop().time() + min(FIRST_PAUSE_S * 2**self._failures, LONGEST_PAUSE_S)
        self._failures = min(self._failures + 1, 16)

    def child_is_gone(self, child: ChildProcess) -> None:
        self._all.discard(child)
        if child in self._idle:
            self._idle.remove(child)
