"""Measure a backup: `python tools/measure_backup.py JOBS [--live]`. Seconds, memory, and the latency of jobs beside it.

Starts an engine of its own with an append-only file (`everysec`), adds jobs of 300 bytes, and runs `windlass backup`
while one client adds, takes and finishes jobs."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.engine_process import EngineProcess
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.embedded.private_engine import PREFIX
from windlass.store.embedded.supervisor import STATE
from windlass.store.store import Store

BATCH = 2_000
PAYLOAD = Blob(json.dumps({"text": "x" * 285}).encode())
QUIET_S = 10.0
MIB = 1 << 20


class Probe(threading.Thread):
    """Adds, takes and finishes one job after the other, and notes how long each round takes."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.rounds: list[tuple[float, float]] = []
        self._service = Service(Store(parse_url(url)))
        self.is_over = False

    def run(self) -> None:
        service = self._service
        while not self.is_over:
            began = time.perf_counter()
            service.enqueue([NewJob(queue="probe", name="n", payload=PAYLOAD)]).wait()
            jobs = service.take(Take(queues=("probe",), most=1)).wait().jobs
            service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
            self.rounds.append((began, (time.perf_counter() - began) * 1000))
            time.sleep(0.002)

    def describe(self, since: float, until: float) -> str:
        found = sorted(took for began, took in self.rounds if since <= began < until)
        cuts = statistics.quantiles(found, n=1000)
        return f"p50 {cuts[499]:.2f} ms, p99 {cuts[989]:.2f} ms, longest {found[-1]:.0f} ms, of {len(found):,} rounds"

    def longest(self, since: float) -> str:
        found = sorted(((took, began - since) for began, took in self.rounds if began >= since), reverse=True)
        return ", ".join(f"{took:.0f} ms after {at_s:.1f} s" for took, at_s in found[:6])


def fill(url: str, jobs: int) -> None:
    service = Service(Store(parse_url(url)))
    for _ in range(jobs // BATCH):
        service.enqueue([NewJob(queue="mail", name="send", payload=PAYLOAD)] * BATCH).wait()
    service.store.close_sync()


def memory_of_copy(directory: Path) -> int:
    """Return the peak memory of the private engine, in bytes; 0: it does not run."""
    for file in directory.glob(f"{PREFIX}*/{STATE}"):
        try:
            pid = json.loads(file.read_text()).get("engine_pid")
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except (OSError, ValueError):
            continue
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
    return 0


def main() -> None:
    jobs, options = int(sys.argv[1]), sys.argv[2:]
    config = ("--appendonly", "yes", "--appendfsync", "everysec")
    with EngineProcess("valkey", config=config) as engine, tempfile.TemporaryDirectory(prefix="wlm-") as folder:
        fill(engine.unix_url, jobs)
        connection = SyncConnection.open(parse_url(engine.unix_url))  # type: ignore[arg-type]
        probe = Probe(engine.unix_url)
        probe.start()
        began = time.perf_counter()
        time.sleep(QUIET_S)
        backup, peak = time.perf_counter(), 0
        command = [
            sys.executable,
            "-m",
            "windlass",
            "backup",
            f"{folder}/b.jsonl.gz",
            "--url",
            engine.unix_url,
            *options,
        ]
        with subprocess.Popen(command, env=os.environ | {"TMPDIR": folder}) as process:
            while process.poll() is None:
                peak = max(peak, memory_of_copy(Path(folder)))
                time.sleep(0.1)
        ended = time.perf_counter()
        probe.is_over = True
        probe.join()
        used = connection.call("INFO", "memory").decode().partition("used_memory:")[2].split()[0]
        fork_us = connection.call("INFO", "stats").decode().partition("latest_fork_usec:")[2].split()[0]
        print(f"jobs {jobs:,}; backup {ended - backup:.1f} s; exit code {process.returncode}")
        print(
            f"engine {int(used) / MIB:,.0f} MiB; copy at most {peak / MIB:,.0f} MiB; fork {int(fork_us) / 1000:.1f} ms"
        )
        print(f"command {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:,.0f} MiB")
        print(f"before: {probe.describe(began, backup)}")
        print(f"during: {probe.describe(backup, ended)}")
        print(f"longest: {probe.longest(backup)}")


if __name__ == "__main__":
    main()
