"""Which allocator an engine of ours runs with: jemalloc where the system has it (decision 0055).

Owns finding out whether it can be preloaded. Doing so, and doing without it after a bad start, is left to who starts
the engine (`keeper.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIBRARY = "libjemalloc.so.2"  # a name without a slash: the loader looks where it looks for any library
TRIAL_LIMIT_S = 10.0


def preload_for(server: Path) -> str:
    """The LD_PRELOAD for this server: what is set already, and jemalloc behind it. Empty: leave it as it is.

    Tried instead of searched for: only the loader knows where it looks, and whether library and server go together.
    """
    if sys.platform != "linux":
        return ""
    preload = ":".join(filter(None, (os.environ.get("LD_PRELOAD"), LIBRARY)))
    try:
        trial = subprocess.run(  # noqa: S603 -- the server that is to be started
            [server, "--version"],
            env={**os.environ, "LD_PRELOAD": preload},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRIAL_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    # The loader names what it could not preload, jemalloc begins a complaint with its name, and a server that was built
    # with it tells that as part of its version.
    return "" if "jemalloc" in trial.stdout + trial.stderr else preload
