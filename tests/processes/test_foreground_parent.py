"""Foreground parent as a real process, with a small child in the place of a worker."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.worker_process import LIMIT_S, wait_until
from windlass.processes import foreground_parent
from windlass.processes.foreground_parent import Plan, read_plan

HERE = Path(__file__).parent
BARE = [sys.executable, "-I", "-S"]


class Parent:
    """A running parent and what its child and its recoveries wrote down."""

    def __init__(
        self,
        place: Path,
        action: str,
        times_s: tuple[float, float],
        is_burst: bool,
        log_format: str,
        before: Sequence[str],
    ) -> None:
        self.place = place
        ours, theirs = socket.socketpair()
        recovery = [*BARE, str(HERE / "foreground_recovery.py"), str(place)]
        command = [*BARE, str(HERE / "foreground_child.py"), action, str(place)]
        plan = Plan(0, "", ours.fileno(), theirs.fileno(), *times_s, is_burst, log_format, recovery, command)
        self.process = subprocess.Popen(
            [*before, *BARE, foreground_parent.__file__, *plan.arguments()],
            pass_fds=(ours.fileno(), theirs.fileno()),
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        ours.close()
        theirs.close()

    def read(self, name: str) -> list[str]:
        path = self.place / name
        return path.read_text().splitlines() if path.exists() else []

    def children(self) -> list[int]:
        """Return the pids of the children in the order of their starts."""
        return [int(line.split()[0]) for line in self.read("started")]

    def recoveries(self) -> list[tuple[object, ...]]:
        return [ast.literal_eval(line) for line in self.read("recoveries")]

    def wait_for_note(self, word: str, times: int = 1) -> None:
        wait_until(lambda: self.read("notes").count(word) >= times, f"{word} is noted: {self.read('notes')}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> tuple[int, str]:
        """Return the exit code and the log."""
        _, log = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, log


Start = Callable[..., Parent]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Parent] = []

    def begin(
        action: str,
        *,
        grace_s: float = 60,
        unwind_s: float = 60,
        is_burst: bool = False,
        log_format: str = "text",
        before: Sequence[str] = (),  # words before the command
    ) -> Parent:
        started.append(Parent(tmp_path, action, (grace_s, unwind_s), is_burst, log_format, before))
        return started[-1]

    yield begin
    for parent in started:
        parent.process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.process.pid, signal.SIGKILL)
        parent.process.communicate()


def state_of(pid: int) -> str:
    """Return the letter of the process's state, T if it is stopped; empty if there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def test_the_plan_survives_the_command_line() -> None:
    plan = Plan(7, "ab", 3, 4, 1.5, 15.0, True, "json", ["a", "--", ""], ["b", "ä"])
    assert read_plan(plan.arguments()) == plan


@pytest.mark.parametrize(
    ("action", "is_burst", "code", "recovered"),
    [
        ("ends", False, 0, 0),
        ("exits_unready", False, 7, 0),  # wrong usage, a failed import
        ("exits", True, 7, 1),
    ],
)
def test_an_exit_by_the_childs_decision_is_passed_through(
    start: Start, action: str, is_burst: bool, code: int, recovered: int
) -> None:
    parent = start(action, is_burst=is_burst)
    assert parent.wait() == (code, "")
    assert len(parent.children()) == 1
    assert len(parent.recoveries()) == recovered


def test_a_killed_child_is_recovered_and_started_again(start: Start) -> None:
    parent = start("waits")
    parent.wait_for_note("ready")
    first = parent.children()[0]
    os.kill(first, signal.SIGKILL)
    parent.wait_for_note("ready", times=2)
    parent.signal(signal.SIGTERM)
    code, log = parent.wait()
    assert code == 0
    assert f" ERROR windlass.supervisor: Worker process {first} was ended by SIGKILL; restarting in 0.5 s.\n" in log
    (_, group, first_id), (_, again, second_id) = (line.split() for line in parent.read("started"))
    assert group == again == str(parent.process.pid)  # the group of the terminal
    assert first_id != second_id
    loaded = '{"type":"LoadedMessage","settings":"s"}'
    assert parent.recoveries() == [(first, -9, 0, True, first_id, loaded)]


def test_a_child_that_crashes_again_and_again_waits_longer(start: Start) -> None:
    parent = start("exits", log_format="json")
    wait_until(lambda: len(parent.children()) == 3, "it was started three times")
    parent.signal(signal.SIGTERM)
    code, log = parent.wait()
    lines = [json.loads(line) for line in log.splitlines()]
    pauses = [line["message"].rpartition("restarting in ")[2] for line in lines]
    assert pauses[:2] == ["0.5 s.", "1 s."]
    assert (lines[0]["level"], lines[0]["logger"], lines[0]["pid"]) == (
        "error",
        "windlass.supervisor",
        parent.process.pid,
    )
    assert code in (0, 7)  # the third may not have ended yet


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_a_message_and_a_further_one_is_urgent(start: Start, number: signal.Signals) -> None:
    parent = start("ignores")
    parent.wait_for_note("ready")
    parent.signal(number)
    parent.wait_for_note("stop")
    parent.signal(number)
    parent.wait_for_note("now")
    parent.signal(number)
    assert parent.wait()[0] == 128 + signal.SIGKILL
    assert [recovery[1:3] for recovery in parent.recoveries()] == [(-9, 1)]  # killed by its parent: no job is at fault


def test_a_child_that_does_not_end_is_killed_after_the_grace(start: Start) -> None:
    parent = start("ignores", grace_s=0.1, unwind_s=0.3)
    parent.wait_for_note("ready")
    parent.signal(signal.SIGTERM)
    code, log = parent.wait()
    assert code == 128 + signal.SIGKILL
    assert f"Worker process {parent.children()[0]} does not end; killing it." in log


def test_a_child_that_reads_no_messages_yet_is_terminated(start: Start) -> None:
    parent = start("hangs_unready")
    wait_until(parent.children, "it has started")
    parent.signal(signal.SIGTERM)
    assert parent.wait() == (128 + signal.SIGTERM, "")
    assert parent.recoveries() == []


def test_a_stop_during_a_pause_ends_it(start: Start) -> None:
    parent = start("exits")
    wait_until(lambda: len(parent.recoveries()) == 3, "it has ended three times")
    parent.signal(signal.SIGTERM)
    assert parent.wait()[0] == 0
    assert len(parent.children()) == 3


def test_a_recovery_is_not_awaited_beyond_the_limit(start: Start, tmp_path: Path) -> None:
    """It takes ten minutes."""
    (tmp_path / "slow").touch()
    parent = start("exits", is_burst=True, unwind_s=0.3)
    assert parent.wait()[0] == 7


def test_a_stop_ends_the_wait_for_a_recovery(start: Start, tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    parent = start("exits", is_burst=True, unwind_s=600)
    wait_until(parent.recoveries, "it is under way")
    parent.signal(signal.SIGTERM)
    wait_until(lambda: parent.signal(signal.SIGTERM) or parent.process.poll() is not None, "it ends")
    assert parent.wait()[0] == 7


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
def test_a_hangup_ends_the_child_and_then_the_parent(start: Start, number: signal.Signals) -> None:
    parent = start("waits")
    parent.wait_for_note("ready")
    parent.signal(number)
    assert parent.wait() == (128 + number, "")
    assert [recovery[1:3] for recovery in parent.recoveries()] == [(-number, 1)]


def test_signals_that_the_child_handles_are_passed_on(start: Start) -> None:
    parent = start("handles")
    parent.wait_for_note("ready")
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        parent.signal(number)
        parent.wait_for_note(number.name)
    parent.signal(signal.SIGTERM)
    assert parent.wait() == (0, "")


def test_an_ignored_hangup_stays_ignored(start: Start) -> None:
    """As `nohup` does it: neither the parent nor the child ends."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        parent = start("waits")
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    parent.wait_for_note("ready")
    os.killpg(parent.process.pid, signal.SIGHUP)
    parent.signal(signal.SIGTERM)
    assert parent.wait() == (0, "")


def test_a_suspended_parent_suspends_its_child(start: Start) -> None:
    parent = start("waits")
    parent.wait_for_note("ready")
    both = (parent.process.pid, parent.children()[0])
    parent.signal(signal.SIGTSTP)
    # The kernel does not stop a process by SIGTSTP in a group that no terminal controls, so only the parent stops here.
    wait_until(lambda: state_of(both[0]) == "T", "the parent is stopped")
    parent.signal(signal.SIGCONT)
    wait_until(lambda: "T" not in [state_of(pid) for pid in both], "both run again")
    parent.signal(signal.SIGTERM)
    assert parent.wait() == (0, "")


def test_the_child_notices_the_death_of_its_parent(start: Start) -> None:
    parent = start("waits")
    parent.wait_for_note("ready")
    parent.process.kill()
    parent.wait_for_note("alone")


# Orphans: the first process of a container inherits all of them

SUBREAPER = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
FIRST_PROCESS = ["unshare", "--pid", "--fork", "--kill-child"]


def may_unshare() -> bool:
    try:
        return subprocess.run([*FIRST_PROCESS, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_orphans_are_reaped(start: Start) -> None:
    parent = start("leaves_orphan", before=[*BARE, "-c", SUBREAPER])
    parent.wait_for_note("left")
    orphan = int((parent.place / "orphan").read_text())
    os.kill(parent.children()[0], signal.SIGKILL)
    wait_until(lambda: not state_of(orphan), "the parent has reaped it")
    parent.wait_for_note("left", times=2)


@pytest.mark.skipif(not may_unshare(), reason="needs the right to make a PID namespace")
def test_as_the_first_process_of_a_container(start: Start) -> None:
    outer = start("waits", before=FIRST_PROCESS)
    outer.wait_for_note("ready")
    [first] = [
        int(word) for word in Path(f"/proc/{outer.process.pid}/task/{outer.process.pid}/children").read_text().split()
    ]
    [worker] = [int(word) for word in Path(f"/proc/{first}/task/{first}/children").read_text().split()]
    os.kill(worker, signal.SIGKILL)
    outer.wait_for_note("ready", times=2)
    assert [recovery[1:3] for recovery in outer.recoveries()] == [(-9, 0)]
    os.kill(first, signal.SIGTERM)
    outer.wait_for_note("stop")
    assert outer.wait()[0] == 0
