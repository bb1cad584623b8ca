"""Times between `kill -9` of a worker and the next run of its job.

    python -m bench.programs.killed_worker [--kills 30] [--workers 1] [--pause 1s]
        [--lease 30s] [--kill worker|all] [OPTION…]

Each kill has a fresh worker with `OPTION…`, whose job has run for up to a second. `--workers 2` starts another one
beside it, which can take the job. `--pause` is the retry pause of the task. `--kill all` kills the parent as well: what
remains is the lease.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.support.engine_process import EngineProcess
from windlass import Backoff, Windlass

LIMIT_S = 120.0
LOOK_EVERY_S = 0.002

app = Windlass()


@app.task(lease=os.environ.get("BENCH_LEASE", "30s"), retry=Backoff(tries=9, base=os.environ.get("BENCH_PAUSE", "1s")))
def held(notes: str) -> None:
    with open(notes, "a") as file:
        file.write(f"{os.getpid()} {time.monotonic_ns()}\n")
    while not Path(notes + ".go").exists():
        time.sleep(0.01)


def read(notes: Path) -> list[list[int]]:
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [[int(word) for word in line.split()] for line in lines]


def wait_for_run(notes: Path, count: int) -> list[int]:
    give_up_at_s = time.monotonic() + LIMIT_S
    while len(read(notes)) < count:
        if time.monotonic() > give_up_at_s:
            raise TimeoutError(f"run {count} did not begin")
        time.sleep(LOOK_EVERY_S)
    return read(notes)[count - 1]


class Crew:
    """Workers, started and ready."""

    def __init__(self, count: int, url: str, options: list[str]) -> None:
        command = [
            sys.executable,
            "-m",
            "windlass",
            "worker",
            "bench.programs.killed_worker:app",
            "--url",
            url,
            "-c",
            "1",
        ]
        self.processes = [
            subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for _ in range(count)
        ]
        for process in self.processes:
            assert process.stdout is not None
            while "Stop with" not in (line := process.stdout.readline()):
                assert line, "a worker ended"

    def kill(self, pid: int, everything: bool) -> int:
        """Kill a worker, and its parent too, and return the instant."""
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if everything and parent != os.getpid():
            os.kill(parent, signal.SIGSTOP)
        killed_at_ns = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        if everything and parent != os.getpid():
            os.kill(parent, signal.SIGKILL)
        return killed_at_ns

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=LIMIT_S)


def measure(url: str, directory: Path, number: int, given: argparse.Namespace) -> float:
    notes = directory / f"notes-{number}"
    crew = Crew(given.workers, url, given.options)
    held.enqueue(str(notes))
    pid = wait_for_run(notes, 1)[0]
    time.sleep(random.random())
    killed_at_ns = crew.kill(pid, given.kill == "all")
    began_at_ns = wait_for_run(notes, 2)[1]
    Path(f"{notes}.go").touch()
    crew.stop()
    return (began_at_ns - killed_at_ns) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--pause", default="1s")
    parser.add_argument("--lease", default="30s")
    parser.add_argument("--kill", choices=["worker", "all"], default="worker")
    given, given.options = parser.parse_known_args()
    os.environ.update(BENCH_LEASE=given.lease, BENCH_PAUSE=given.pause)
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        engine = EngineProcess()
        engine.start()
        try:
            app.redirect(url=engine.unix_url, data_dir=None, namespace=None)
            found = sorted(measure(engine.unix_url, Path(directory), number, given) for number in range(given.kills))
        finally:
            engine.kill()
    picks = {
        "p50": median(found),
        "p90": found[int(0.9 * len(found))],
        "p99": found[int(0.99 * len(found))],
        "max": found[-1],
    }
    print(f"{given.kills} kills: least {found[0]:.0f} ms", *(f"{name} {value:.0f} ms" for name, value in picks.items()))


if __name__ == "__main__":
    main()
