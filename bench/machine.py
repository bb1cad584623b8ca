"""Environment of a measurement: machine, engine, and versions of all participants."""

import os
import platform
import re
from pathlib import Path

from .engine import Engine
from .peers import PEERS, WINDLASS
from .peers.environment import version


def machine() -> str:
    return f"{os.cpu_count()} hardware threads of {_processor()}, {platform.system()} {platform.release()}"


def _processor() -> str:
    try:
        found = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = []
    return f"{found[0]} ({platform.machine()})" if found else platform.machine()


def versions() -> dict[str, str]:
    product, engine = engine_version()
    return {
        "Windlass": version(WINDLASS),
        product: engine,
        "Python": platform.python_version(),
        **{peer.title: version(who) for who, peer in PEERS.items() if who != WINDLASS},
    }


def engine_version() -> tuple[str, str]:
    """Return the product, and its version with the allocator, which affects its speed."""
    with Engine() as engine:
        server, allocator = engine.info("server"), engine.allocator()
    product, field = ("Valkey", "valkey_version") if "valkey_version" in server else ("Redis", "redis_version")
    return product, f"{server[field]} (memory by {allocator})"
