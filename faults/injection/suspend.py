"""SIGSTOP and SIGCONT: a process keeps its connections and leases, does nothing, and later continues."""

from __future__ import annotations

import random
import signal
import time

from ..deployment import Deployment
from .fault import NO_TARGET, Fault, Inject

PULSES = 8


def _suspend_one_of(role: str) -> Inject:
    def inject(deployment: Deployment, length_s: float, rng: random.Random) -> str:
        targets = [process for process in deployment.processes(role) if process.is_alive]
        if not targets:
            return NO_TARGET
        process = rng.choice(targets)
        process.signal(signal.SIGSTOP)
        time.sleep(length_s)
        process.signal(signal.SIGCONT)
        return process.name

    return inject


def _suspend_engine(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    thaw = deployment.engine.freeze(rng)
    try:
        time.sleep(length_s)
    finally:
        thaw()
    if deployment.engine.topology in ("sentinel", "cluster"):
        time.sleep(1.0)
        deployment.engine.revive()  # a replaced primary must follow the new one
    return "engine"


def _slow_engine(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    """Suspend and continue the engine repeatedly: it answers everything, late."""
    for _ in range(PULSES):
        thaw = deployment.engine.freeze(rng)
        try:
            time.sleep(length_s / PULSES * 0.8)
        finally:
            thaw()
        time.sleep(length_s / PULSES * 0.2)
    return "engine"


# Longer than the leases of the clients: other workers have its jobs when it continues.
WORKER = Fault("worker-stop", "SIGSTOP of a worker beyond its leases, then SIGCONT", _suspend_one_of("worker"),
    shortest_s=1.0, longest_s=6.0, weight=3)  # fmt: skip
SERVER = Fault(
    "server-stop", "SIGSTOP of a server, then SIGCONT", _suspend_one_of("server"), shortest_s=0.5, longest_s=5.0
)
ENGINE = Fault(
    "engine-stop",
    "SIGSTOP of the engine (behind Sentinel and in a cluster: of a primary, possibly until others declare it dead), "
    "then SIGCONT",
    _suspend_engine,
    shortest_s=0.3,
    longest_s=4.0,
)
SLOW = Fault("engine-slow", "the engine is stopped for four fifths of the time", _slow_engine, longest_s=4.0)
