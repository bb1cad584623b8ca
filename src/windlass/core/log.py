"""What running code says: lines that the holder of a lease leaves with its job, kept with the number of the attempt."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

LINES_KEPT = 200  # of each job: the last ones
BYTES_KEPT = 64 * 1024


class LogLine(msgspec.Struct, frozen=True):
    """A line to be kept. `at_ms` is the writer's own clock; nothing is decided by it."""

    at_ms: int
    level: str  # debug, info, warning, error, critical, or a word of the writer's own
    text: str


class Log(msgspec.Struct, frozen=True):
    """Lines from the holder of a lease. Token 0 means whoever holds the job now."""

    id: bytes
    token: int
    lines: Sequence[LogLine]


class KeptLine(msgspec.Struct, frozen=True):
    """A line as it is read: `attempt` is the one that said it."""

    attempt: int
    at_ms: int
    level: str
    text: str


class Logs(msgspec.Struct, frozen=True):
    """The last lines of a job, oldest first, and how many went before them to keep it bounded."""

    lines: list[KeptLine]
    dropped: int = 0
