"""Supervisor of one child in a process without an event loop: a thread runs the child again and again.

`supervisor.py` does the same for several children on an event loop. Both follow `supervision_policy.py`. The supervisor
of the embedded engine loads this module in a bare interpreter, to which asyncio would add 8 MB.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from .supervision_policy import RestartBackoff, StopOrder, StopPolicy

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows every signal ends a process at once
SIGNALS = {StopOrder.STOP: signal.SIGTERM, StopOrder.NOW: signal.SIGTERM, StopOrder.KILL: _KILL}


class BlockingSupervisor:
    """Keeps one child running until `stop` or `abandon`.

    `run_once` runs the child from its start, by `spawn`, to its end. It may return without a child if it cannot start
    one. The child survives the death of this process; another supervisor can `adopt` it.
    """

    def __init__(self, run_once: Callable[[], None], backoff: RestartBackoff, policy: StopPolicy) -> None:
        self._run_once = run_once
        self._backoff = backoff
        self._policy = policy
        self._send_signal: Callable[[int], None] | None = None
        self._await_adopted: Callable[[], object] = lambda: None
        self._lock = threading.Lock()  # of the two above: no child is started after a stop has begun
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, daemon=True)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def adopt(self, pid: int | None, await_end: Callable[[], object]) -> None:
        """Supervise a running process that is not a child of this one, before `start`. `await_end` blocks until it has
        ended. Without its pid, it can be awaited but not stopped."""
        self._send_signal = None if pid is None else lambda number: os.kill(pid, number)
        self._await_adopted = await_end

    def start(self) -> None:
        self._thread.start()

    def spawn(self, command: list[str], **options: Any) -> subprocess.Popen[bytes] | None:
        """Start the child, with the options of Popen; None once it is being stopped."""
        with self._lock:
            if self._stopping.is_set():
                return None
            process = subprocess.Popen(command, **options)  # noqa: S603 -- a command of this program, no shell
            self._send_signal = process.send_signal
        return process

    def stop(self) -> bool:
        """Stop the child step by step. Return whether it has ended."""
        self._begin_stop()
        for step in self._policy.steps:
            self._signal(SIGNALS[step.order])
            self._thread.join(step.patience_s)
            if not self._thread.is_alive():
                return True
        return False

    def abandon(self) -> None:
        """Kill the child at once, and start no other. Returns without waiting for its end."""
        self._begin_stop()
        self._signal(_KILL)

    def _begin_stop(self) -> None:
        with self._lock:
            self._stopping.set()

    def _signal(self, number: signal.Signals) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._send_signal is not None:
                self._send_signal(number)

    def _supervise(self) -> None:
        self._await_adopted()
        with self._lock:
            self._send_signal = None  # its pid may belong to another process from now on
        while not self._stopping.is_set():
            started_at_s = time.monotonic()
            self._run_once()
            self._stopping.wait(self._backoff.pause_after(time.monotonic() - started_at_s))
