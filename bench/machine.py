"""What was measured on, and with what: the machine, the engine, the versions of everything that took part."""

import os
import platform
import re
from pathlib import Path

import windlass

from .engine import Engine

PEERS = Path(__file__).resolve().parent / "peers"


def machine() -> str:
    return f"{os.cpu_count()} hardware threads of {_processor()}, {platform.system()} {platform.release()}"


def _processor() -> str:
    try:
        found = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = []
    return f"{found[0]} ({platform.machine()})" if found else platform.machine()


def versions() -> dict[str, str]:
    with Engine() as engine:
        server = engine.info("server")
    is_valkey = "valkey_version" in server
    return {
        "windlass": windlass.__version__,
        "Valkey" if is_valkey else "Redis": server["valkey_version" if is_valkey else "redis_version"],
        "Python": platform.python_version(),
        **peers(),
    }


def peers() -> dict[str, str]:
    """Each peer's own package, as its requirements pin it."""
    found = {}
    for file in sorted(PEERS.glob("*/requirements.txt")):
        name = file.parent.name.partition("_")[0]
        pins = dict(re.findall(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?==([^\s;]+)", file.read_text(), re.MULTILINE))
        found[file.parent.name] = next((pins[known] for known in (name, f"py{name}") if known in pins), "?")
    return found
