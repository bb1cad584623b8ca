"""What was measured on, and with what: the machine, the engine, the versions of everything that took part."""

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
    with Engine() as engine:
        server = engine.info("server")
    is_valkey = "valkey_version" in server
    return {
        "Windlass": version(WINDLASS),
        "Valkey" if is_valkey else "Redis": server["valkey_version" if is_valkey else "redis_version"],
        "Python": platform.python_version(),
        **{peer.title: version(who) for who, peer in PEERS.items() if who != WINDLASS},
    }
