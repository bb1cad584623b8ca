"""kill -9 of a process, which is started again a moment later."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from ..engines import EmbeddedEngineProcess, StandaloneEngine
from ..managed_process import ManagedProcess
from .fault import NO_TARGET, Fault, Inject

PARENT = "worker-process"  # the parent of a worker: its process is killed alone
FAILOVER_S = 4.0  # longer than sentinels and cluster nodes need to replace a primary


def _kill_and_restart(process: ManagedProcess, length_s: float) -> str:
    process.kill()
    time.sleep(length_s)
    process.start()
    return process.name


def _kill_one_of(role: str) -> Inject:
    def inject(deployment: Deployment, length_s: float, rng: random.Random) -> str:
        targets = [process for process in deployment.processes(role) if process.is_alive and process.name != PARENT]
        if not targets:
            return NO_TARGET
        return _kill_and_restart(rng.choice(targets), length_s)

    return inject


def _kill_worker_process(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    """Kill the process that runs the jobs of a worker. The parent frees them and starts another, after a pause that
    grows if it dies again soon. Other children of the parent free the jobs: they stay."""
    for process in deployment.processes(PARENT):
        if process.kill_child_with(deployment.history_of(process.name)):
            time.sleep(length_s)
            return process.name
    return NO_TARGET


def _kill_loops(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    """Kill every process that runs background loops, which are all servers, at the same instant."""
    for process in deployment.servers:
        process.kill()
    time.sleep(length_s)
    for process in deployment.servers:
        process.start()
    return "all servers"


def _kill_engine(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    deployment.engine.kill(rng)
    # A primary without a file that returns before its death is noticed is an empty primary. Operators avoid that.
    time.sleep(length_s + (FAILOVER_S if deployment.engine.topology in ("sentinel", "cluster") else 0.0))
    deployment.engine.revive()
    return "engine"


def _lose_power(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    engine = deployment.engine
    assert isinstance(engine, StandaloneEngine | EmbeddedEngineProcess)
    lost = engine.lose_power(rng)
    time.sleep(length_s)
    engine.revive()
    return f"engine, {lost}"


WORKER = Fault("worker-kill", "kill -9 of a worker; it comes back", _kill_one_of("worker"), weight=4)
WORKER_PROCESS = Fault(
    "worker-process-kill",
    "kill -9 of the process below the parent of `windlass worker`; the parent frees its jobs and starts another",
    _kill_worker_process,
    ("standalone", "embedded", "sentinel", "cluster", "namespace", "scripts"),
    longest_s=1.0,
    weight=4,
)
PRODUCER = Fault("producer-kill", "kill -9 of a producer; it comes back", _kill_one_of("producer"), weight=2)
SERVER = Fault("server-kill", "kill -9 of a server; it comes back", _kill_one_of("server"), weight=3)
LOOPS = Fault("loops-kill", "kill -9 of all servers, and so of the loops in them, at once", _kill_loops, weight=2)
ENGINE = Fault(
    "engine-kill",
    "kill -9 of the engine (behind Sentinel and in a cluster: of a primary); "
    "it restarts with its file, or a replica takes over",
    _kill_engine,
    shortest_s=0.0,
    longest_s=2.0,
    weight=4,
)
POWER = Fault(
    "power-loss",
    "kill -9 of the engine, and what it had not synced is dropped, at random places, also in the middle of a write",
    _lose_power,
    ("standalone", "embedded"),
    shortest_s=0.0,
    longest_s=1.0,
    weight=3,
)
