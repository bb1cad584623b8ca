"""kill -9 of a process, which comes back a moment later."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from ..deployment import Deployment
from ..processes import Member
from .fault import Fault

NOTICED_S = 4.0  # more than sentinels and nodes take to put another in its place


def _kill(member: Member, length_s: float) -> str:
    member.kill()
    time.sleep(length_s)
    member.start()
    return member.name


def _of(role: str) -> Callable[[Deployment, float, random.Random], str]:
    def do(deployment: Deployment, length_s: float, chance: random.Random) -> str:
        found = [member for member in deployment.members(role) if member.is_alive]
        if not found:
            return "nobody"
        return _kill(chance.choice(found), length_s)

    return do


def _loops(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    """Every process that runs loops, at the same instant: all servers."""
    for member in deployment.servers:
        member.kill()
    time.sleep(length_s)
    for member in deployment.servers:
        member.start()
    return "all servers"


def _engine(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    deployment.engine.kill(chance)
    # A primary that keeps nothing and is back before anybody noticed is a primary of nothing: that is for nobody to do.
    time.sleep(length_s + (NOTICED_S if deployment.engine.topology in ("sentinel", "cluster") else 0.0))
    deployment.engine.revive()
    return "engine"


WORKER = Fault("worker-kill", "kill -9 of a worker; it comes back", _of("worker"), weight=4)
PRODUCER = Fault("producer-kill", "kill -9 of a producer; it comes back", _of("producer"), weight=2)
SERVER = Fault("server-kill", "kill -9 of a server; it comes back", _of("server"), weight=3)
LOOPS = Fault("loops-kill", "kill -9 of all servers, and so of the loops in them, at once", _loops, weight=2)
ENGINE = Fault(
    "engine-kill",
    "kill -9 of the engine (behind Sentinel and in a cluster: of a primary); "
    "it restarts with its file, or a replica takes over",
    _engine,
    shortest_s=0.0,
    longest_s=2.0,
    weight=4,
)
