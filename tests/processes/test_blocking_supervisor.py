"""Supervisor of one real child without an event loop: deaths, restarts, stops, and a child that survives it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from windlass.pauses import Pauses
from windlass.processes.blocking_supervisor import BlockingSupervisor
from windlass.processes.supervision_policy import RestartBackoff, StopOrder, StopPolicy, StopStep

CHILD = str(Path(__file__).with_name("supervised_child.py"))
QUICK = Pauses(0.001, 1.0)
ENDLESS = Pauses(1e6, 1e6)
PATIENT = StopPolicy(StopStep(StopOrder.STOP, 30.0), StopStep(StopOrder.KILL, 30.0))
IMPATIENT = StopPolicy(StopStep(StopOrder.STOP, 0.05), StopStep(StopOrder.KILL, 30.0))


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


class RecordedBackoff(RestartBackoff):
    """Backoff that remembers its pauses."""

    def __init__(self, pauses: Pauses, steady_s: float = 60.0) -> None:
        super().__init__(pauses, steady_s)
        self.pauses_s: list[float] = []

    def pause_after(self, ran_s: float) -> float:
        self.pauses_s.append(super().pause_after(ran_s))
        return self.pauses_s[-1]


class Program:
    """The child of these tests and its supervisor."""

    def __init__(self, directory: Path, pauses: Pauses = QUICK, policy: StopPolicy = PATIENT) -> None:
        self.directory = directory
        self.backoff = RecordedBackoff(pauses)
        self.supervisor = BlockingSupervisor(self._run_once, self.backoff, policy)
        self.codes: list[int | None] = []  # None: no child was started
        self.set_mode("work")

    def set_mode(self, mode: str) -> None:
        (self.directory / "mode").write_text(mode)

    @property
    def pids(self) -> list[int]:
        file = self.directory / "pids"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []

    def wait_for_children(self, count: int) -> int:
        """Wait until so many children were started and return the pid of the last one."""
        wait_until(lambda: len(self.pids) >= count)
        return self.pids[-1]

    def _run_once(self) -> None:
        child = self.supervisor.spawn([sys.executable, CHILD, str(self.directory)])
        self.codes.append(None if child is None else child.wait())


@contextlib.contextmanager
def cleaned_up(program: Program) -> Iterator[Program]:
    """Kill what is left of the children at the end."""
    try:
        yield program
    finally:
        program.supervisor.abandon()
        wait_until(lambda: not any(map(is_running, program.pids)))


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with cleaned_up(Program(tmp_path)) as program:
        yield program


def test_a_killed_child_is_restarted(program: Program) -> None:
    program.supervisor.start()
    first = program.wait_for_children(1)
    os.kill(first, signal.SIGKILL)
    second = program.wait_for_children(2)
    assert is_running(second)
    assert program.codes == [-signal.SIGKILL]
    assert program.supervisor.stop()
    assert program.codes == [-signal.SIGKILL, -signal.SIGTERM]
    assert not is_running(second)


def test_a_child_that_ends_at_once_is_started_less_and_less_often(program: Program) -> None:
    program.set_mode("exit 3")
    program.supervisor.start()
    wait_until(lambda: len(program.backoff.pauses_s) >= 4)
    assert program.backoff.pauses_s[:4] == [0.001, 0.002, 0.004, 0.008]
    assert program.codes[:4] == [3, 3, 3, 3]
    program.set_mode("work")
    wait_until(lambda: program.pids and is_running(program.pids[-1]))


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with cleaned_up(Program(tmp_path, policy=IMPATIENT)) as program:
        program.set_mode("stubborn")
        program.supervisor.start()
        program.wait_for_children(1)
        assert program.supervisor.stop()
        assert program.codes == [-signal.SIGKILL]


def test_a_stop_ends_a_pause_and_starts_no_other(tmp_path: Path) -> None:
    program = Program(tmp_path, pauses=ENDLESS)
    program.set_mode("exit 3")
    program.supervisor.start()
    wait_until(lambda: program.backoff.pauses_s)
    assert program.supervisor.stop()
    assert program.codes == [3]


def test_no_child_starts_once_a_stop_has_begun(program: Program) -> None:
    program.supervisor.abandon()
    assert program.supervisor.spawn([sys.executable, CHILD, str(program.directory)]) is None
    program.supervisor.start()
    assert program.supervisor.stop()
    assert program.codes == []


def test_abandon_kills_the_child_at_once(program: Program) -> None:
    program.set_mode("stubborn")
    program.supervisor.start()
    program.wait_for_children(1)
    program.supervisor.abandon()
    wait_until(lambda: program.codes)
    assert program.codes == [-signal.SIGKILL]
    assert program.supervisor.is_stopping


# Adoption


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Running process that no supervisor has started."""
    directory = tmp_path / "stranger"
    directory.mkdir()
    (directory / "mode").write_text("work")
    with subprocess.Popen([sys.executable, CHILD, str(directory)]) as process:
        wait_until((directory / "pids").exists)
        yield process
        process.kill()


def test_an_adopted_process_is_replaced_when_it_ends(program: Program, stranger: subprocess.Popen[bytes]) -> None:
    program.supervisor.adopt(stranger.pid, stranger.wait)
    program.supervisor.start()
    assert program.pids == []
    stranger.kill()
    child = program.wait_for_children(1)
    assert is_running(child)
    assert program.supervisor.stop()
    assert program.codes == [-signal.SIGTERM]


def test_an_adopted_process_is_stopped(program: Program, stranger: subprocess.Popen[bytes]) -> None:
    program.supervisor.adopt(stranger.pid, stranger.wait)
    program.supervisor.start()
    assert program.supervisor.stop()
    assert stranger.returncode == -signal.SIGTERM
    assert program.pids == []


def test_a_process_without_a_known_pid_is_awaited_but_not_stopped(tmp_path: Path) -> None:
    program = Program(tmp_path, policy=StopPolicy(StopStep(StopOrder.STOP, 0.0), StopStep(StopOrder.KILL, 0.0)))
    has_ended = threading.Event()
    program.supervisor.adopt(None, has_ended.wait)
    program.supervisor.start()
    assert not program.supervisor.stop()
    has_ended.set()
    assert program.pids == []


# Death of the supervisor


SUPERVISING = """
import sys
from pathlib import Path
from tests.processes.test_blocking_supervisor import Program

program = Program(Path(sys.argv[1]))
program.supervisor.start()
program.supervisor._thread.join()
"""


def test_the_child_survives_a_killed_supervisor(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SUPERVISING, str(tmp_path)]
    with subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2]) as parent:
        pids = tmp_path / "pids"
        wait_until(lambda: parent.poll() is not None or (pids.exists() and pids.read_text().endswith("\n")))
        parent.kill()
    child = int(pids.read_text())
    try:
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)
