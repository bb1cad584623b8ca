"""Processor time of a process and its children, from /proc."""

import os
from pathlib import Path
from typing import NamedTuple

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Stat(NamedTuple):
    pid: int
    parent: int
    ticks: int  # of the process, and of its children that have ended


def parse_stat(text: str) -> Stat:
    """Read a line of /proc/PID/stat. The name of the program may contain spaces and brackets."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Stat(int(head.split()[0]), int(fields[1]), sum(map(int, fields[11:15])))


def cpu_us(pid: int) -> float:
    """Return the processor time of a process and its direct children, living and ended."""
    ticks = sum(stat.ticks for stat in _stats() if pid in (stat.pid, stat.parent))
    return 1e6 * ticks / TICKS_PER_S


def _stats() -> list[Stat]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found.append(parse_stat(path.read_text()))
        except OSError:  # it has ended
            continue
    return found
