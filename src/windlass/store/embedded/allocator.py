"""Choice of an engine's memory allocator: jemalloc where the system has it (decision 0055).

This module finds out whether jemalloc can be preloaded. The supervisor (`supervisor.py`) preloads it, and starts the
engine without it after a failed start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIBRARY = "libjemalloc.so.2"  # without a slash, the loader searches its usual paths
VERSION_TIMEOUT_S = 10.0


def preload_for(server: Path) -> str:
    """Return the LD_PRELOAD for this server: the current value and jemalloc. Empty: do not change it.

    This starts the server with jemalloc instead of searching for the library: only the loader knows its paths, and
    whether library and server fit together.
    """
    if sys.platform != "linux":
        return ""
    preload = ":".join(filter(None, (os.environ.get("LD_PRELOAD"), LIBRARY)))
    try:
        completed = subprocess.run(  # noqa: S603 -- the server to be started
            [server, "--version"],
            env={**os.environ, "LD_PRELOAD": preload},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    # The loader names a library that it could not preload, jemalloc starts its error messages with its name, and a
    # server that was built with jemalloc has it in its version.
    return "" if "jemalloc" in completed.stdout + completed.stderr else preload
