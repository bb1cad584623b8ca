"""Embedded engine of a directory, inspected from outside: its processes, locks and replies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from windlass.store.embedded import supervisor

PATIENCE_S = 20.0


def wait_until(is_true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, f"the condition was not met within {PATIENCE_S:g} s"
        time.sleep(0.005)


@contextlib.contextmanager
def new_data_dir() -> Iterator[Path]:
    """Yield a directory for an engine in a new parent directory, so that it can be moved and replaced."""
    parent = Path(tempfile.mkdtemp(prefix="wl-"))
    yield parent / "data"
    for directory in parent.iterdir():
        wait_until(lambda directory=directory: is_stopped(directory))  # type: ignore[misc]
    shutil.rmtree(parent)


def send_command(data_dir: Path, command: bytes) -> str:
    return supervisor.send_command(str(data_dir / supervisor.SOCKET), command)


def engine_pid(data_dir: Path) -> int:
    found = re.search(r"process_id:(\d+)", send_command(data_dir, b"INFO server"))
    assert found, "the engine does not answer"
    return int(found[1])


def is_known_ready(data_dir: Path) -> bool:
    """Return whether the supervisor knows that the engine is ready. Users may know it slightly earlier."""
    state = json.loads((data_dir / supervisor.STATE).read_text())
    return state.get("ready_pid") is not None and state["ready_pid"] == state["engine_pid"]


def supervisor_pid(data_dir: Path) -> int:
    return int(json.loads((data_dir / supervisor.STATE).read_text())["keeper_pid"])


def is_free(lock: Path) -> bool:
    if not lock.exists():
        return True
    with open(lock, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def is_stopped(data_dir: Path) -> bool:
    return is_free(data_dir / supervisor.SUPERVISOR_LOCK) and is_free(data_dir / supervisor.ENGINE_LOCK)


def remove_tree(path: Path) -> None:
    """Remove with `rm -rf`, which ignores files that others remove at the same time."""
    subprocess.run(["rm", "-rf", path], check=False)


def increment_file(data_dir: Path) -> Path:
    (found,) = (data_dir / "appendonlydir").glob("*.incr.aof")
    return found
