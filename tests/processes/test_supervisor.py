"""Supervisor of several real processes on an event loop: deaths, restarts, stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from windlass.pauses import Pauses
from windlass.processes.supervised_process import SupervisedProcess
from windlass.processes.supervision_policy import describe_exit, graceful_stop
from windlass.processes.supervisor import ExitVerdict, Supervisor

pytestmark = pytest.mark.anyio
CHILD = str(Path(__file__).with_name("supervised_child.py"))
QUICK = Pauses(0.001, 1.0)
log = logging.getLogger("supervised")


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


class SmallSupervisor(Supervisor[SupervisedProcess]):
    """Use of the supervisor with the program of these tests."""

    def __init__(
        self, directory: Path, wanted: int = 1, *, grace_s: float = 60.0, unwind_s: float = 60.0, **options: Any
    ) -> None:
        policy = graceful_stop(grace_s, unwind_s)
        super().__init__(wanted, policy, log, "small process", **{"pauses": QUICK, **options})
        self.command = [sys.executable, CHILD, str(directory)]
        self.verdicts: dict[int, ExitVerdict] = {}  # by exit code
        self.exits: list[tuple[int, bool]] = []  # code, and whether the supervisor had killed the process
        self.made = 0  # processes
        self.directory = directory
        self.set_mode("work")

    def set_mode(self, mode: str) -> None:
        (self.directory / "mode").write_text(mode)

    def noted(self, name: str) -> list[str]:
        file = self.directory / name
        return file.read_text().split() if file.exists() else []

    @property
    def ready(self) -> list[int]:
        return [process.pid for process in self.processes if process.is_ready]

    def make_process(self, number: int) -> SupervisedProcess:
        self.made += 1
        return SupervisedProcess(number)

    async def look_again(self) -> None:
        """Make the supervisor look at its processes, and wait until it has."""
        self.wake()
        await until(lambda: not self._changed.is_set())

    async def start_process(self, process: SupervisedProcess) -> None:
        await process.start(lambda descriptor: [*self.command, str(descriptor)])

    def receive(self, process: SupervisedProcess, line: bytes) -> None:
        if line != b"ready\n":
            raise ValueError("not a known line")
        process.is_ready = self.was_ready = True
        self.wake()

    def process_ended(self, process: SupervisedProcess, code: int) -> None:
        self.exits.append((code, process.was_killed))

    def judge_exit(self, process: SupervisedProcess, code: int) -> ExitVerdict:
        return self.verdicts.get(code) or super().judge_exit(process, code)


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


async def end_of(task: asyncio.Task[int]) -> int:
    async with asyncio.timeout(30):
        return await asyncio.shield(task)


@contextlib.asynccontextmanager
async def running(supervisor: SmallSupervisor) -> AsyncIterator[asyncio.Task[int]]:
    """Run the supervisor; at the end, kill its processes and check that none is left."""
    task = asyncio.create_task(supervisor.run())
    try:
        yield task
    finally:
        supervisor.stop()
        for process in supervisor.processes:
            process.signal(signal.SIGKILL)
        await end_of(task)
    assert not any(is_running(int(pid)) for pid in supervisor.noted("pids"))


def pauses_in(caplog: pytest.LogCaptureFixture) -> list[float]:
    return [float(pause) for pause in re.findall(r"; restarting in (\S+) s\.", caplog.text)]


# Starts and deaths


async def test_a_killed_process_is_replaced_and_the_others_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = SmallSupervisor(tmp_path, 3)
    async with running(supervisor):
        await until(lambda: len(supervisor.ready) == 3)
        killed, *others = supervisor.ready
        number = supervisor.processes[0].number
        os.kill(killed, signal.SIGKILL)
        await until(lambda: len(supervisor.ready) == 3 and killed not in supervisor.ready)
        assert set(others) < set(supervisor.ready)
        assert supervisor.processes[-1].number == number
        assert f"Small process {killed} was ended by SIGKILL; restarting in 0.001 s." in caplog.text


async def test_processes_that_die_together_do_not_lengthen_each_others_pauses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = SmallSupervisor(tmp_path, 3)
    async with running(supervisor):
        await until(lambda: len(supervisor.ready) == 3)
        killed = supervisor.ready
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: len(supervisor.ready) == 3 and not set(killed) & set(supervisor.ready))
        assert pauses_in(caplog) == [0.001] * 3


async def test_a_process_that_ends_at_once_again_and_again_is_started_less_and_less_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = SmallSupervisor(tmp_path)
    async with running(supervisor):
        await until(lambda: supervisor.ready)
        supervisor.set_mode("exit 3")
        os.kill(supervisor.ready[0], signal.SIGKILL)
        await until(lambda: len(pauses_in(caplog)) >= 5)
        assert pauses_in(caplog)[:5] == [0.001, 0.002, 0.004, 0.008, 0.016]
        supervisor.set_mode("work")
        await until(lambda: supervisor.ready)


async def test_a_process_that_has_run_long_enough_restarts_with_the_shortest_pause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = SmallSupervisor(tmp_path, steady_s=0.0)
    supervisor.was_ready = True
    supervisor.set_mode("exit 3")
    async with running(supervisor):
        await until(lambda: len(pauses_in(caplog)) >= 3)
        assert set(pauses_in(caplog)) == {0.001}


@pytest.mark.parametrize("code", [2, 75])
async def test_a_first_process_that_fails_ends_the_supervisor_with_its_code(tmp_path: Path, code: int) -> None:
    supervisor = SmallSupervisor(tmp_path, 3)
    supervisor.set_mode(f"exit {code}")
    async with running(supervisor) as task:
        assert await end_of(task) == code
    assert len(supervisor.noted("pids")) == 1


async def test_the_others_start_when_the_first_is_proven(tmp_path: Path) -> None:
    supervisor = SmallSupervisor(tmp_path, 3)
    supervisor.set_mode("silent")
    async with running(supervisor):
        await until(lambda: supervisor.noted("pids"))
        supervisor.set_mode("work")
        await supervisor.look_again()
        assert supervisor.made == 1
        supervisor.receive(supervisor.processes[0], b"ready\n")
        await until(lambda: len(supervisor.ready) == 3)
    assert len(supervisor.noted("pids")) == 3


async def test_a_command_that_cannot_run_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = SmallSupervisor(tmp_path)
    command, supervisor.command = supervisor.command, [str(tmp_path / "nowhere")]
    async with running(supervisor):
        await until(lambda: len(pauses_in(caplog)) >= 3)
        assert "Could not start a small process (" in caplog.text
        assert pauses_in(caplog)[:3] == [0.001, 0.002, 0.004]
        supervisor.command = command
        await until(lambda: supervisor.ready)


async def test_a_line_that_cannot_be_read_is_logged_and_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = SmallSupervisor(tmp_path)
    supervisor.set_mode("garbled")
    async with running(supervisor):
        await until(lambda: supervisor.ready)
        assert "Ignored a malformed message of small process" in caplog.text


# Verdicts


async def test_finish_starts_no_other_and_waits_for_those_that_run(tmp_path: Path) -> None:
    supervisor = SmallSupervisor(tmp_path, 2)
    supervisor.verdicts = {0: ExitVerdict.FINISH, -signal.SIGKILL: ExitVerdict.FINISH}
    async with running(supervisor) as task:
        await until(lambda: len(supervisor.ready) == 2)
        for pid in supervisor.ready:
            assert not task.done()
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: pid not in supervisor.ready)
        assert await end_of(task) == 0
    assert len(supervisor.noted("pids")) == 2
    assert supervisor.noted("orders") == []


async def test_hold_starts_no_other_before_all_are_restarted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = SmallSupervisor(tmp_path)
    supervisor.verdicts = {3: ExitVerdict.HOLD}
    supervisor.set_mode("exit 3")
    async with running(supervisor):
        await until(lambda: supervisor.exits)
        await supervisor.look_again()
        assert supervisor.made == 1
        supervisor.set_mode("work")
        supervisor.restart_all()
        await until(lambda: supervisor.ready)
        assert pauses_in(caplog) == []


async def test_restart_all_replaces_every_process_after_its_work(tmp_path: Path) -> None:
    supervisor = SmallSupervisor(tmp_path, 2)
    async with running(supervisor):
        await until(lambda: len(supervisor.ready) == 2)
        before = supervisor.ready
        supervisor.restart_all()
        await until(lambda: len(supervisor.ready) == 2 and not set(before) & set(supervisor.ready))
        assert supervisor.noted("orders") == ["stop", "stop"]
        assert supervisor.exits == [(0, False), (0, False)]


async def test_restart_all_ends_the_pauses(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = SmallSupervisor(tmp_path, pauses=Pauses(1e6, 1e6))
    supervisor.was_ready = True
    supervisor.set_mode("exit 3")
    async with running(supervisor):
        await until(lambda: pauses_in(caplog))
        supervisor.set_mode("work")
        supervisor.restart_all()
        await until(lambda: supervisor.ready)


async def test_the_number_of_processes_can_change(tmp_path: Path) -> None:
    supervisor = SmallSupervisor(tmp_path, 1)
    async with running(supervisor):
        await until(lambda: supervisor.ready)
        supervisor.scale(3)
        await until(lambda: len(supervisor.ready) == 3)
        supervisor.scale(1)
        await until(lambda: len(supervisor.processes) == 1)
        assert supervisor.processes[0].number == 1
        assert supervisor.noted("orders") == ["stop", "stop"]


# Stops


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT])
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """Signal that does not end the tests where the supervisor has no handler."""
    before = signal.signal(request.param, lambda *_: None)
    yield request.param
    signal.signal(request.param, before)


async def test_a_signal_stops_all_processes_by_one_order_each(tmp_path: Path, number: signal.Signals) -> None:
    supervisor = SmallSupervisor(tmp_path, 2)
    async with running(supervisor) as task:
        await until(lambda: len(supervisor.ready) == 2)
        os.kill(os.getpid(), number)
        assert await end_of(task) == 0
    assert supervisor.noted("orders") == ["stop", "stop"]
    assert supervisor.exits == [(0, False), (0, False)]


async def test_the_second_request_is_urgent_and_the_third_kills(tmp_path: Path) -> None:
    supervisor = SmallSupervisor(tmp_path)
    supervisor.set_mode("stubborn")
    async with running(supervisor) as task:
        await until(lambda: supervisor.ready)
        supervisor.stop()
        await until(lambda: supervisor.noted("orders") == ["stop"])
        supervisor.stop()
        await until(lambda: supervisor.noted("orders") == ["stop", "now"])
        assert not task.done()
        supervisor.stop()
        assert await end_of(task) == 0
    assert supervisor.exits == [(-signal.SIGKILL, True)]


async def test_a_busy_process_ends_by_the_second_request(tmp_path: Path) -> None:
    supervisor = SmallSupervisor(tmp_path)
    supervisor.set_mode("busy")
    async with running(supervisor) as task:
        await until(lambda: supervisor.ready)
        supervisor.stop()
        await until(lambda: supervisor.noted("orders") == ["stop"])
        supervisor.stop()
        assert await end_of(task) == 0
    assert supervisor.noted("orders") == ["stop", "now"]
    assert supervisor.exits == [(0, False)]


async def test_a_process_that_ignores_the_order_is_killed_after_the_grace(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = SmallSupervisor(tmp_path, grace_s=0.05, unwind_s=0.0)
    supervisor.set_mode("stubborn")
    async with running(supervisor) as task:
        await until(lambda: supervisor.ready)
        (pid,) = supervisor.ready
        supervisor.stop()
        assert await end_of(task) == 0
    assert supervisor.exits == [(-signal.SIGKILL, True)]
    assert f"Small process {pid} does not end; killing it." in caplog.text


async def test_a_stop_while_a_process_starts_reaches_it_and_starts_no_other(tmp_path: Path) -> None:
    supervisor = SmallSupervisor(tmp_path)
    start = supervisor.start_process

    async def stop_and_start(process: SupervisedProcess) -> None:
        supervisor.stop()
        await start(process)

    async with running(supervisor) as task:
        await until(lambda: supervisor.ready)
        supervisor.start_process = stop_and_start  # type: ignore[method-assign]
        supervisor.scale(3)
        assert await end_of(task) == 0
    assert supervisor.made == 2
    assert supervisor.exits == [(0, False)] * 2


async def test_a_stop_during_a_pause_starts_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = SmallSupervisor(tmp_path, pauses=Pauses(1e6, 1e6))
    supervisor.was_ready = True
    supervisor.set_mode("exit 3")
    async with running(supervisor) as task:
        await until(lambda: pauses_in(caplog))
        supervisor.stop()
        assert await end_of(task) == 0
    assert len(supervisor.noted("pids")) == 1


SUPERVISING = """
import asyncio, sys
from pathlib import Path
from tests.processes.test_supervisor import SmallSupervisor

asyncio.run(SmallSupervisor(Path(sys.argv[1]), 2).run())
"""


async def test_the_processes_of_a_killed_supervisor_stop(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", SUPERVISING, str(tmp_path)],
        env=environment,
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        pids = tmp_path / "pids"
        await until(lambda: parent.poll() is not None or (pids.exists() and len(pids.read_text().split()) == 2))
        started = [int(pid) for pid in pids.read_text().split()]
    finally:
        parent.kill()
        _, errors = parent.communicate(timeout=30)
    await until(lambda: not any(map(is_running, started)))
    assert len(started) == 2
    assert "The parent of this child is gone; the process stops." in errors


@pytest.mark.parametrize(
    ("code", "text"), [(0, "ended with exit code 0"), (-9, "was ended by SIGKILL"), (-99, "was ended by signal 99")]
)
async def test_exits_in_words(code: int, text: str) -> None:
    assert describe_exit(code) == text
