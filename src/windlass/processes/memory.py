"""How much memory a process uses, and a cap on what a job may add to it. Linux knows both; elsewhere there is no cap.

Two guards. In the child, a limit on the data a process may map (RLIMIT_DATA: the heap and private mappings, but no
program files and no reservations, which RLIMIT_AS counts too): an allocation fails, and the job gets a MemoryError
where it asked for too much. In the parent, a look at what is really resident, for what that limit does not count
(shared memory) and for code that raises it.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

PAGE_BYTES = resource.getpagesize()
_COUNTED = (b"RssAnon:", b"RssShmem:", b"VmSwap:")  # not RssFile: the kernel takes mapped files back when it must


def used_bytes(pid: int) -> int:
    """What a process uses and could not give back; 0 where that cannot be known, or when it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_COUNTED))


class OwnMemory:
    """The calling process. Reads through one open file, since it is asked after each job."""

    def __init__(self) -> None:
        self._statm = -1
        with contextlib.suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def resident_bytes(self) -> int:
        return self._pages(1) * PAGE_BYTES

    @contextlib.contextmanager
    def capped(self, memory_bytes: int) -> Iterator[None]:
        """Lets the process map at most `memory_bytes` more than now. Programs that it starts get the same limit."""
        if not memory_bytes or self._statm < 0:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        cap = self._pages(5) * PAGE_BYTES + memory_bytes
        if hard != resource.RLIM_INFINITY:
            cap = min(cap, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (cap, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))

    def _pages(self, field: int) -> int:
        return int(os.pread(self._statm, 200, 0).split()[field]) if self._statm >= 0 else 0
