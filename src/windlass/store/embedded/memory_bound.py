"""Default memory bound of an embedded engine: a share of the memory of this machine or container."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

# The other half is for copies of pages while the engine rewrites its file (it forks), for fragmentation, and for the
# servers and workers of the same machine.
SHARE = 0.5

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
MEMORY_INFO = Path("/proc/meminfo")


def default_memory_max() -> int:
    return int(available_memory() * SHARE)


def describe_memory_bound(bound: int) -> str:
    """Return a phrase about the memory that an engine may use; 0 means no bound."""
    if not bound:
        return "as much memory as it needs, without a bound"
    return f"at most {bound / 2**30:,.2f} GiB of memory, and refuses new jobs beyond"


def available_memory() -> int:
    """Return the bytes available to this process: the machine's memory, or the bound of a cgroup around it."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *cgroup_bounds()])


def free_memory() -> int:
    """Return the bytes that a new process could use: what the kernel counts as available, within the bounds."""
    with contextlib.suppress(OSError):
        for line in MEMORY_INFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1_024, available_memory())
    return available_memory()


def cgroup_bounds(mounted: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> Iterator[int]:
    """Yield the memory bounds of this process's cgroup and of all above it, of version 2 and 1."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield from _bounds_upwards(mounted, path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _bounds_upwards(mounted / "memory", path, "memory.limit_in_bytes")


def _bounds_upwards(top: Path, path: str, name: str) -> Iterator[int]:
    # In a container, the path may be the host's, or lead out of the mounted tree: then only the top is visible.
    parts = [part for part in path.split("/") if part]
    inner = [] if ".." in parts else parts
    for depth in range(len(inner), -1, -1):
        try:
            text = top.joinpath(*inner[:depth], name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():  # else "max"
            yield int(text)
