"""Memory usage of a process, and a cap on the memory that a job may add. Only Linux supports the cap.

Two checks enforce the cap. In the child, RLIMIT_DATA limits the heap and private mappings (not program files and
reservations, which RLIMIT_AS would count as well): an allocation beyond it fails with a MemoryError in the job. The
parent checks the resident memory, because the limit does not count shared memory and a job can raise the limit.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator

with contextlib.suppress(ImportError):  # not on Windows (posix.py)
    import resource

PAGE_BYTES = mmap.PAGESIZE
_COUNTED = (b"RssAnon:", b"RssShmem:", b"VmSwap:")  # not RssFile: the kernel takes mapped files back when it must


def used_bytes(pid: int) -> int:
    """Return the memory of a process that the kernel cannot reclaim; 0 if it is unknown or the process has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_COUNTED))


class OwnMemory:
    """Memory of the calling process. It keeps one file open, because it is read after each job."""

    def __init__(self) -> None:
        self._statm = -1
        with contextlib.suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def resident_bytes(self) -> int:
        return self._pages(1) * PAGE_BYTES

    @contextlib.contextmanager
    def capped(self, memory_bytes: int) -> Iterator[None]:
        """Limit the process to `memory_bytes` more than it uses now. Programs that it starts inherit the limit."""
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
