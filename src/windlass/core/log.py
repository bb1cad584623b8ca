"""Log lines of jobs. The holder of a lease stores them with its job; each line keeps the number of its attempt."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

LINES_KEPT = 200  # per job: the newest lines
BYTES_KEPT = 64 * 1024


class LogLine(msgspec.Struct, frozen=True):
    """A line to store. `at_ms` is the writer's clock and is only displayed."""

    at_ms: int
    level: str  # debug, info, warning, error, critical, or any other word
    text: str


class Log(msgspec.Struct, frozen=True):
    """Lines from the holder of a lease. Token 0 stands for the current holder."""

    id: bytes
    token: int
    lines: Sequence[LogLine]


class KeptLine(msgspec.Struct, frozen=True):
    """A stored line. `attempt` is the attempt that wrote it."""

    attempt: int
    at_ms: int
    level: str
    text: str


class Logs(msgspec.Struct, frozen=True):
    """The last lines of a job, oldest first, and the number of older lines that were dropped."""

    lines: list[KeptLine]
    dropped: int = 0
