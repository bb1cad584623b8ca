"""A wall clock that can be moved from outside while the process runs.

The file named in FAULTS_CLOCK holds the offset in seconds, as a double. Python's `time` follows it; the engine's clock
does not, and nothing may depend on the difference. Put this folder first on the path."""

import mmap
import os
import struct
import time


def _shift(path: str) -> None:
    with open(path, "rb") as file:
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    real_time, real_time_ns = time.time, time.time_ns

    def shift_s() -> float:
        return float(struct.unpack("d", shared[:8])[0])

    time.time = lambda: real_time() + shift_s()
    time.time_ns = lambda: real_time_ns() + int(shift_s() * 1e9)


if "FAULTS_CLOCK" in os.environ:
    _shift(os.environ["FAULTS_CLOCK"])
