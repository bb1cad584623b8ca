"""Private engine of the benchmarks: meters of its work, no-op jobs, and child processes."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple, Self

from tests.support.engine_process import EngineProcess
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.records import record
from windlass.store.store import Store

_log = logging.getLogger("windlass.store")

QUEUE = "bench"
NAMESPACE = "wl"
BULK = 1_000  # jobs per call
GROUP = 20  # calls that are metered together
CHILD_LIMIT_S = 120.0
NOT_COUNTED = ("info", "config", "client", "flushall", "function")  # our own control commands, and connecting


class Spent(NamedTuple):
    """Cost of a number of jobs."""

    jobs: int
    wall_s: float
    cpu_us: float  # of the engine's process: scripts, commands, reading and writing sockets
    script_us: float  # within FCALL; for raw commands, within the commands
    calls: int  # commands sent by clients
    commands: int  # all commands, including those that scripts call

    @property
    def per_s(self) -> float:
        return self.jobs / self.wall_s

    @property
    def cpu_us_per_job(self) -> float:
        return self.cpu_us / self.jobs

    @property
    def script_us_per_job(self) -> float:
        return self.script_us / self.jobs

    @property
    def calls_per_job(self) -> float:
        return self.calls / self.jobs

    @property
    def inner_per_job(self) -> float:
        return (self.commands - self.calls) / self.jobs


class Meter:
    """Result of `Engine.metered`, filled in when its block ends."""

    spent: Spent


class Engine:
    """Private engine with a control connection."""

    def __init__(self, config: Sequence[str] = ()) -> None:
        self._process = EngineProcess(config=config)

    def __enter__(self) -> Self:
        self._level = _log.level
        _log.setLevel(logging.ERROR)  # hides the warning that nothing is persistent, which is intended here
        self._process.start()
        self.control = SyncConnection.open(self.endpoint)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.control.close()
        self._process.remove()
        _log.setLevel(self._level)

    @property
    def url(self) -> str:
        return self._process.unix_url

    @property
    def endpoint(self) -> Endpoint:
        return parse_url(self.url)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def directory(self) -> Path:
        return self._process.directory

    def store(self) -> Store:
        return Store(self.endpoint, namespace=NAMESPACE)

    @contextlib.contextmanager
    def service(self) -> Iterator[Service]:
        """Open a service for blocking calls with `.wait()`."""
        store = self.store()
        try:
            yield Service(store)
        finally:
            store.close_sync()

    def empty(self) -> None:
        self.control.call("FLUSHALL", "SYNC")

    def info(self, section: str) -> dict[str, str]:
        text = self.control.call("INFO", section).decode()
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def allocator(self) -> str:
        """Return the allocator. The engine itself does not report a preloaded one."""
        maps = Path(f"/proc/{self._process.pid}/maps")
        has_jemalloc = maps.exists() and "libjemalloc" in maps.read_text()
        return "jemalloc" if has_jemalloc else self.info("memory")["mem_allocator"]

    def used_memory(self) -> int:
        return int(self.info("memory")["used_memory"])

    def _cpu_us(self) -> float:
        info = self.info("cpu")
        return 1e6 * (float(info["used_cpu_user"]) + float(info["used_cpu_sys"]))

    def _command_stats(self) -> dict[str, tuple[int, float]]:
        """Return calls and microseconds by command."""
        found = {}
        for name, line in self.info("commandstats").items():
            fields = dict(field.split("=") for field in line.split(","))
            found[name.removeprefix("cmdstat_")] = int(fields["calls"]), float(fields["usec"])
        return {name: stats for name, stats in found.items() if name.partition("|")[0] not in NOT_COUNTED}

    @contextlib.contextmanager
    def metered(self, jobs: int) -> Iterator[Meter]:
        meter = Meter()
        self.control.call("CONFIG", "RESETSTAT")
        cpu_us = self._cpu_us()
        began_at_s = perf_counter()
        yield meter
        wall_s = perf_counter() - began_at_s
        cpu_us = self._cpu_us() - cpu_us
        stats = self._command_stats()
        commands = sum(calls for calls, _ in stats.values())
        calls, script_us = stats.get("fcall", (commands, sum(us for _, us in stats.values())))
        meter.spent = Spent(jobs, wall_s, cpu_us, script_us, calls, commands)

    def usual_us(self, calls: Sequence[Callable[[], object]]) -> float:
        """Return the microseconds within a call: the median of small groups. If the operating system preempts the
        engine in the middle of a call, only few groups are affected."""
        groups = []
        for start in range(0, len(calls), GROUP):
            some = calls[start : start + GROUP]
            with self.metered(len(some)) as meter:
                for call in some:
                    call()
            groups.append(meter.spent.script_us_per_job)
        return median(groups)


def no_op_jobs(count: int) -> list[NewJob]:
    return [NewJob(queue=QUEUE, name="noop") for _ in range(count)]


def raw_jobs(count: int) -> list[tuple[bytes, bytes]]:
    """Return keys and values for the bare engine: the record of a no-op job."""
    packed = record.pack(no_op_jobs(1)[0], bytes(16), 0, 0)[16:]
    return [(b"j:%016d" % number, packed) for number in range(count)]


def fill(service: Service, count: int) -> set[bytes]:
    """Enqueue no-op jobs and return their ids."""
    ids: set[bytes] = set()
    for start in range(0, count, BULK):
        answers = service.enqueue(no_op_jobs(min(BULK, count - start))).wait()
        ids.update(answer.id for answer in answers if not isinstance(answer, Exception))
    assert len(ids) == count, "not every job was accepted"
    return ids


def fill_raw(control: SyncConnection, count: int, lanes: Sequence[str] = ("q",)) -> set[bytes]:
    """Store no-op jobs with raw commands, spread over several sorted sets."""
    jobs = raw_jobs(count)
    for start in range(0, count, BULK):
        commands: list[tuple[bytes | str | int | float, ...]] = []
        for at, (key, value) in enumerate(jobs[start : start + BULK], start):
            commands += [("SET", key, value), ("ZADD", lanes[at % len(lanes)], 0, key)]
        control.pipeline(commands)
    return {key for key, _ in jobs}


class Child:
    """Python child process that prints `ready`, starts on a signal, and prints its findings."""

    def __init__(self, module: str, *args: str) -> None:
        root = Path(__file__).resolve().parent.parent
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"bench.programs.{module}", *args],
            cwd=root,
            # With PYTHONUNBUFFERED, Python writes once and drops the bytes that a full pipe did not take.
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._watchdog = threading.Timer(CHILD_LIMIT_S, self._process.kill)
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._watchdog.cancel()
        self._process.kill()
        self._process.communicate()

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "ready\n", f"the child process did not start: {line!r}"

    def tell(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def findings(self) -> str:
        """Wait for the end of the process and return its output since `ready`."""
        assert self._process.stdout is not None
        output = self._process.stdout.read()
        assert self._process.wait() == 0, f"the child process failed with {self._process.returncode}"
        return output
