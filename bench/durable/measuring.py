"""Measurements of one system: rate and cost of durable steps, and the time until a workflow continues after a kill."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import NamedTuple

from bench.peers import WINDLASS
from bench.peers.process import PeerFailure, PeerProcess

from .systems import System

PROGRAMS = {WINDLASS: "durable.py"}
RECORDED_STEPS, HANGS_AT = 5, 3
CONTINUE_LIMIT_S = 60.0
LOOK_EVERY_S = 0.002


class Load(NamedTuple):
    """Workflows that run at once, how often they are started, and the steps of each."""

    workflows: int
    waves: int
    steps: int

    @property
    def total(self) -> int:
        return self.workflows * self.waves * self.steps


class Cost(NamedTuple):
    """Rate, and costs per step. Each includes the start and the end of the workflows."""

    per_s: float
    engine_cpu_us: float
    program_cpu_us: float
    stored_bytes: float
    written_bytes: float


class Note(NamedTuple):
    """Run of a recorded step."""

    number: int
    pid: int
    at_ns: int


def _program(system: System, *words: str) -> PeerProcess:
    return PeerProcess(system.peer, system.url, *words, program=PROGRAMS.get(system.peer, "app.py"))


def ran(system: System, way: str, load: Load) -> Cost:
    system.renew()
    with _program(system, "run", way, *map(str, load)) as program:
        program.wait_ready()
        before = system.cpu_us(), system.stored_bytes(), system.written_bytes()
        program.tell()
        found = program.findings()
    after = system.cpu_us(), system.stored_bytes(), system.written_bytes()
    if found["ran"] != load.total:
        raise PeerFailure(f"{system.peer} ran {found['ran']:,} steps instead of {load.total:,}")
    costs = [(now - then) / load.total for now, then in zip(after, before, strict=True)]
    return Cost(load.total / found["seconds"], costs[0], found["cpu_us"] / load.total, *costs[1:])


def parse_notes(text: str) -> list[Note]:
    """Read the complete lines of a file of recorded steps."""
    return [Note(*map(int, line.split())) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def is_repeated(notes: list[Note]) -> bool:
    """Report whether another step than the one that was running at the kill ran more than once."""
    numbers = [note.number for note in notes if note.number != HANGS_AT]
    return len(numbers) != len(set(numbers))


class Journal:
    """File to which the steps of a workflow are written, read until an expected run appears."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def wait_for(self, number: int, runs: int = 1) -> Note:
        def found() -> list[Note]:
            return [note for note in parse_notes(self.path.read_text()) if note.number == number]

        _wait(lambda: len(found()) >= runs, f"step {number} did not run")
        return found()[runs - 1]


def _wait(is_done: Callable[[], bool], complaint: str) -> None:
    give_up_at_s = monotonic() + CONTINUE_LIMIT_S
    while not is_done():
        if monotonic() > give_up_at_s:
            raise PeerFailure(complaint)
        sleep(LOOK_EVERY_S)


@contextlib.contextmanager
def _journal() -> Iterator[Journal]:
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        journal = Journal(Path(directory) / "steps")
        journal.path.touch()
        yield journal


def _begin(system: System, journal: Journal) -> PeerProcess:
    return _program(system, "begin", str(journal.path), str(RECORDED_STEPS), str(HANGS_AT))


def _kill(journal: Journal) -> int:
    """Kill the process that runs the hanging step, and return the instant before it."""
    pid = journal.wait_for(HANGS_AT).pid
    killed_at_ns = monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    return killed_at_ns


def _continued_ms(journal: Journal, killed_at_ns: int) -> float:
    again = journal.wait_for(HANGS_AT, runs=2)
    journal.wait_for(RECORDED_STEPS - 1)
    if is_repeated(parse_notes(journal.path.read_text())):
        raise PeerFailure("a stored step ran again")
    return (again.at_ns - killed_at_ns) / 1e6


def restarted_ms(system: System) -> float:
    """Kill a program that runs its own workflows, and start it again at once, as a supervisor without a pause does."""
    system.renew()
    with _journal() as journal:
        with _begin(system, journal):
            killed_at_ns = _kill(journal)
        with _program(system, "work", "1"):
            return _continued_ms(journal, killed_at_ns)


def supervised_ms(system: System, processes: int) -> float:
    """Kill a worker process under the parent of the worker, which replaces it."""
    system.renew()
    with _journal() as journal, _program(system, "work", str(processes)) as parent:
        with _begin(system, journal) as program:
            program.wait_ready()
        took_ms = _continued_ms(journal, _kill(journal))
        parent.stop()
    return took_ms
