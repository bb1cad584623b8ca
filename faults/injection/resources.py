"""Exhausted resources of the engine: its disk and its memory."""

from __future__ import annotations

import random
import time

from ..deployment import Deployment
from ..engines import StandaloneEngine
from .fault import SINGLE_ADDRESS, Fault


def _fill_disk(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    """Let no file of the engine grow. With an fsync before each answer the engine exits and is started again later."""
    engine = deployment.engine
    assert isinstance(engine, StandaloneEngine)
    size = max((path.stat().st_size for path in engine.node.directory.glob("appendonlydir/*")), default=0)
    engine.limit_file_size(max(size, 1))
    time.sleep(length_s)
    if engine.node.has_exited:
        engine.node.kill()
        engine.revive()
        return "engine, which ended itself"
    engine.limit_file_size(None)
    return "engine, which refused writes"


def _fill_memory(deployment: Deployment, length_s: float, rng: random.Random) -> str:
    used = int(_memory_info(deployment, "used_memory"))
    deployment.engine.send_command("CONFIG", "SET", "maxmemory", max(1, used - 100_000))
    time.sleep(length_s)
    deployment.engine.send_command("CONFIG", "SET", "maxmemory", 0)
    return "engine"


def _memory_info(deployment: Deployment, name: str) -> str:
    text: str = deployment.engine.send_command("INFO", "memory").decode()
    return next(line.partition(":")[2] for line in text.splitlines() if line.startswith(f"{name}:"))


DISK = Fault(
    "disk-full", "files of the engine cannot grow for a while", _fill_disk, ("standalone", "scripts"), 0.5, 2.0
)
MEMORY = Fault(
    "memory-full",
    "`maxmemory` is set below the used memory, with `noeviction`, for a while",
    _fill_memory,
    SINGLE_ADDRESS,
    0.5,
    3.0,
)
