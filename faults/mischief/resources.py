"""What runs out: the engine's disk, its memory."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from ..engines import Alone
from .fault import AT_ONE_ADDRESS, Fault


def _disk(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    """No file of the engine may grow from here on. With an fsync before each answer it ends itself; somebody starts it
    again when there is room."""
    engine = deployment.engine
    assert isinstance(engine, Alone)
    size = max((path.stat().st_size for path in engine.node.directory.glob("appendonlydir/*")), default=0)
    engine.may_write(max(size, 1))
    time.sleep(length_s)
    if engine.node.has_ended:
        engine.node.kill()
        engine.revive()
        return "engine, which ended itself"
    engine.may_write(None)
    return "engine, which refused writes"


def _memory(deployment: Deployment, length_s: float, chance: random.Random) -> str:
    used = int(_info(deployment, "used_memory"))
    deployment.engine.ask("CONFIG", "SET", "maxmemory", max(1, used - 100_000))
    time.sleep(length_s)
    deployment.engine.ask("CONFIG", "SET", "maxmemory", 0)
    return "engine"


def _info(deployment: Deployment, name: str) -> str:
    text: str = deployment.engine.ask("INFO", "memory").decode()
    return next(line.partition(":")[2] for line in text.splitlines() if line.startswith(f"{name}:"))


DISK = Fault("disk-full", "files of the engine cannot grow for a while", _disk, ("standalone",), 0.5, 2.0)
MEMORY = Fault(
    "memory-full",
    "`maxmemory` is set below the used memory, with `noeviction`, for a while",
    _memory,
    AT_ONE_ADDRESS,
    0.5,
    3.0,
)
