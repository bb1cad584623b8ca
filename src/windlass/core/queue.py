"""What can be configured of a queue, and what is known of one. Defaults here are the engine's defaults too."""

from __future__ import annotations

import msgspec

from .stats.histogram import Histogram, percentile

DAY_MS = 86_400_000
FOREVER_MS = 2**48 - 1  # as a lease: no deadline; as a retention: until deleted


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    lease_ms: int = 30_000  # how long a lease holds without a heartbeat
    max_length: int = 0  # waiting jobs; 0: no bound
    max_bytes: int = 0  # bytes of jobs that have not ended; 0: no bound
    history_length: int = 0  # finished jobs kept for people to look at
    history_bytes: int = 16 * 1024 * 1024  # bytes of that history
    retention_ms: int = 14 * DAY_MS  # how long failed and cancelled jobs stay
    name_lanes: bool = False  # one lane per job name, so that jobs can be taken by name
    aging_ms: int = 0  # this much waiting is worth one step of priority; 0: strict priority
    fair_share: bool = False  # lanes of equal priority take turns by weight, however long each is


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Read from the indexes themselves at one instant."""

    queue: str
    queued: int
    scheduled: int
    waiting: int
    running: int  # dispatched ones included
    finished: int
    failed: int
    cancelled: int
    history: int
    bytes: int  # of jobs that have not ended
    lanes: int  # lanes with waiting jobs, besides the default one
    waiting_takers: int
    oldest_age_ms: int | None  # how long the oldest takeable job has been takeable
    next_due_at_ms: int | None
    blocked_lanes: int  # lanes that a limit or a pause holds back
    is_paused: bool


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """What is paused: the queue, or one lane or name of it."""

    queue: str
    lane: str = ""
    name: str = ""
    since_ms: int
    reason: str


class HeldUp(msgspec.Struct, frozen=True, kw_only=True):
    """What holds a lane back: a limit, with its key if it has one, or a pause of the lane or of its name."""

    limit: str = ""
    key: str | None = None
    pause: str = ""  # lane or name


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a queue that wait in one line: they agree in lane, name (in a queue with name_lanes) and limits."""

    lane: str  # empty: the default one
    name: str
    is_hidden: bool
    limits: tuple[str, ...]  # that its jobs count against, as name or name:key
    queued: int
    oldest_age_ms: int
    held_by: HeldUp | None


class Lanes(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor` is empty at the end."""

    lanes: list[Lane]
    cursor: str


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a queue within one minute."""

    at_ms: int
    enqueued: int = 0
    taken: int = 0
    finished: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    recovered: int = 0
    wait_ms: int = 0  # sum over the jobs taken: from takeable to taken
    run_ms: int = 0  # sum over the jobs finished: from start to end
    waits: Histogram = ()  # the jobs taken, by how long they had waited
    runs: Histogram = ()  # the jobs finished, by how long they ran

    @property
    def wait_p50_ms(self) -> int | None:
        return percentile(self.waits, 0.5)

    @property
    def wait_p95_ms(self) -> int | None:
        return percentile(self.waits, 0.95)

    @property
    def run_p50_ms(self) -> int | None:
        return percentile(self.runs, 0.5)

    @property
    def run_p95_ms(self) -> int | None:
        return percentile(self.runs, 0.95)
