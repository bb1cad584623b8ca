"""`windlass worker` as a real process. Nothing here sleeps for a fixed time.

A test waits for a condition, with a limit that is long enough for a slow machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from windlass.core.operations import Worker
from windlass.service import Service

LIMIT_S = 60.0
LOOK_EVERY_S = 0.02


def wait_until(is_so: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    give_up_at = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < give_up_at, f"not in time: {what}"
        time.sleep(LOOK_EVERY_S)


class WorkerProcess:
    def __init__(self, *arguments: str, directory: Path, environment: dict[str, str] | None = None) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "windlass", "worker", *arguments],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**inherited, "PYTHONUNBUFFERED": "1", **(environment or {})},
        )
        self._lines: list[str] = []
        self._children: list[int] = []  # pids at the time of the kill
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return "".join(self._lines)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_for_output(self, words: str, times: int = 1) -> None:
        def is_printed() -> bool:
            assert self.is_alive or words in self.output, f"it ended without printing {words!r}:\n{self.output}"
            return self.output.count(words) >= times

        try:
            wait_until(is_printed, words)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def wait_ready(self) -> Self:
        self.wait_for_output("Stop with Ctrl-C")
        return self

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def children(self) -> list[int]:
        """Return the pids of the children: of the worker itself, if it has a parent."""
        return children_of(self.pid)

    def kill(self) -> None:
        """Kill the process that was started, and not its children."""
        self._children += self.children()
        self.signal(signal.SIGKILL)
        self._process.wait(LIMIT_S)

    def kill_all(self) -> None:
        """Kill the worker and its parent, as the loss of a machine does."""
        self.signal(signal.SIGSTOP)  # it starts no other child
        for pid in self.children():
            os.kill(pid, signal.SIGKILL)
        self.kill()

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        code = self._process.wait(LIMIT_S)
        self._reading.join(LIMIT_S)
        return code

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def remove(self) -> None:
        if self.is_alive:
            self.signal(signal.SIGCONT)
            self.kill()
        for pid in self._children:  # workers of a killed parent that have not ended by themselves
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reading.join(LIMIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


def children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class WorkerStarter:
    """Starter of workers of one application on one engine. Remaining workers end with the test."""

    def __init__(self, stack: contextlib.ExitStack, target: str, engine: Sequence[str], directory: Path) -> None:
        self._stack = stack
        self._target = target
        self._engine = engine
        self._directory = directory

    def start(self, *arguments: str) -> WorkerProcess:
        process = WorkerProcess(self._target, *self._engine, *arguments, directory=self._directory)
        self._stack.callback(process.remove)
        return process


@contextlib.contextmanager
def worker_starter(target: str, url: str, namespace: str, directory: Path) -> Iterator[WorkerStarter]:
    with contextlib.ExitStack() as stack:
        yield WorkerStarter(stack, target, ("--url", url, "--namespace", namespace), directory)


class JobNotes:
    """A directory in which jobs write notes and wait for a go."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory)
        self._notes = directory / "notes"
        self._go = directory / "go"

    def notes(self) -> list[tuple[str, int, int]]:
        """Return (word, number of the job, pid) in the order of writing."""
        if not self._notes.exists():
            return []
        rows = [line.split() for line in self._notes.read_text().splitlines()]
        return [(word, int(number), int(pid)) for word, number, pid in rows]

    def started(self) -> list[int]:
        return [number for word, number, _ in self.notes() if word == "start"]

    def go(self) -> None:
        self._go.touch()


def count_finished(service: Service, queue: str = "default") -> int:
    """Return the number of finished jobs in the engine's statistics."""
    return sum(minute.finished for minute in service.history(queue).wait())


def list_workers(service: Service) -> list[Worker]:
    return service.workers().wait()
