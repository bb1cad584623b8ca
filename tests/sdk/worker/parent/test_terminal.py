"""`windlass worker` in a terminal: Ctrl-C, Ctrl-Z, a debugger and a closed terminal, under its parent."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.apps import terminal_tasks
from tests.sdk.apps.terminal_tasks import app, debugged, held
from tests.support.engine_process import EngineProcess
from tests.support.worker_process import LIMIT_S, JobNotes, children_of, wait_until
from windlass import JobHandle
from windlass.store.store import Store

# A shell with job control: its child is the foreground process group, so the terminal can stop and continue it.
SHELL = """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
while os.WIFSTOPPED(status := os.waitpid(child, os.WUNTRACED)[1]):
    pass
os._exit(os.waitstatus_to_exitcode(status) % 256)
"""


class Terminal:
    """A terminal with a worker as its foreground process group."""

    def __init__(self, *arguments: str, directory: Path) -> None:
        self._ours, theirs = pty.openpty()
        self.output = ""
        words = ["-m", "windlass", "worker", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SHELL, *words], cwd=directory, stdin=theirs, stdout=theirs, stderr=theirs
        )
        os.close(theirs)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, words: str) -> None:
        def is_shown() -> bool:
            self._read()
            return words in self.output

        try:
            wait_until(is_shown, words)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output}") from None

    def wait(self) -> int:
        wait_until(lambda: self._read() or self.process.poll() is not None, f"it ends: {self.output}")
        return self.process.wait()

    def _read(self) -> None:
        while select.select([self._ours], [], [], 0)[0]:
            try:
                self.output += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:  # all processes have closed it
                return

    @property
    def parent(self) -> int:
        [parent] = children_of(self.process.pid)
        return parent

    def close(self) -> None:
        """Kill what is left: the kernel signals the foreground group when its terminal or session leader is gone."""
        os.close(self._ours)
        if self.process.poll() is None:
            os.killpg(self.parent, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def terminal(engine: EngineProcess, store: Store) -> Iterator[Terminal]:
    app.connect(store)
    options = ("--url", engine.unix_url, "--namespace", store.namespace, "--grace", "10m")
    opened = Terminal("terminal_tasks:app", *options, directory=Path(terminal_tasks.__file__).parent)
    opened.wait_for("Stop with Ctrl-C.")
    yield opened
    opened.close()


def run_until_started(place: JobNotes) -> JobHandle[None]:
    handle = held.enqueue(place.path)
    wait_until((Path(place.path) / "started").exists, "it runs")
    return handle


def test_ctrl_c_once_is_gentle_and_twice_is_not(terminal: Terminal, place: JobNotes) -> None:
    handle = run_until_started(place)
    terminal.type("\x03")
    terminal.wait_for("running jobs have the grace period to finish")
    assert handle.state == "running"
    terminal.type("\x03")
    assert terminal.wait() == 0
    assert terminal.output.count("running jobs have the grace period to finish") == 1
    assert (handle.state, handle.info().attempt) == ("queued", 0)


def test_ctrl_z_suspends_both_processes(terminal: Terminal, place: JobNotes) -> None:
    [worker] = children_of(terminal.parent)
    both = (terminal.parent, worker)
    for _ in range(2):
        terminal.type("\x1a")
        wait_until(lambda: [_letter(pid) for pid in both] == ["T", "T"], "both are suspended")
        os.killpg(terminal.parent, signal.SIGCONT)  # fg
        wait_until(lambda: "T" not in [_letter(pid) for pid in both], "both continue")
    os.kill(terminal.parent, signal.SIGTSTP)
    wait_until(lambda: [_letter(pid) for pid in both] == ["T", "T"], "the parent has passed the signal on")
    os.kill(terminal.parent, signal.SIGCONT)
    terminal.type("\x03")
    assert terminal.wait() == 0


def _letter(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_debugger_reads_from_the_terminal(terminal: Terminal) -> None:
    handle = debugged.enqueue(7)
    terminal.wait_for("(Pdb)")
    terminal.type("p number * 6\n")
    terminal.wait_for("42")
    terminal.type("c\n")
    assert handle.result(LIMIT_S) == 7
    terminal.type("\x03")
    assert terminal.wait() == 0


def test_a_closed_terminal_gives_the_jobs_back(terminal: Terminal, place: JobNotes) -> None:
    handle = run_until_started(place)
    os.killpg(terminal.parent, signal.SIGHUP)
    assert terminal.wait() == 128 + signal.SIGHUP
    assert handle.state in ("queued", "scheduled")
