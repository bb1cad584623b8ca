"""SIGSTOP and SIGCONT: a process that is there, holds what it holds, and does nothing; later it goes on as if
nothing had been."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

from ..deployment import Deployment
from .fault import Fault

PULSES = 8


def _of(role: str) -> Callable[[Deployment, float, random.Random], str]:
    def do(deployment: Deployment, length_s: float, chance: random.Random) -> str:
        found = [member for member in deployment.members(role) if member.is_alive]
        if not found:
            return "nobody"
        member = chance.choice(found)
        member.signal(signal.SIGSTOP)
        time.sleep(length_s)
        member.signal(signal.SIGCONT)
        return member.name

    return do


def _engine(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    thaw = deployment.engine.freeze(chance)
    try:
        time.sleep(length_s)
    finally:
        thaw()
    if deployment.engine.topology in ("sentinel", "cluster"):
        time.sleep(1.0)
        deployment.engine.revive()  # whoever was replaced meanwhile follows the new one
    return "engine"


def _slow_engine(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    """Stopped and let go again and again: it does everything, late."""
    for _ in range(PULSES):
        thaw = deployment.engine.freeze(chance)
        try:
            time.sleep(length_s / PULSES * 0.8)
        finally:
            thaw()
        time.sleep(length_s / PULSES * 0.2)
    return "engine"


# Longer than the leases of the clients: what it held has been given to others when it goes on.
WORKER = Fault("worker-stop", "SIGSTOP of a worker beyond its leases, then SIGCONT", _of("worker"),
    shortest_s=1.0, longest_s=6.0, weight=3)  # fmt: skip
SERVER = Fault("server-stop", "SIGSTOP of a server, then SIGCONT", _of("server"), shortest_s=0.5, longest_s=5.0)
ENGINE = Fault(
    "engine-stop",
    "SIGSTOP of the engine (behind Sentinel and in a cluster: of a primary, possibly until others declare it dead), "
    "then SIGCONT",
    _engine,
    shortest_s=0.3,
    longest_s=4.0,
)
SLOW = Fault("engine-slow", "the engine is stopped for four fifths of the time", _slow_engine, longest_s=4.0)
