"""Configuration, statistics, pauses and lanes of a queue. The engine uses the same defaults as this module."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .stats.histogram import Histogram, percentile
from .text.humanize import quote_text
from .text.similar_names import describe_missing_queue

DAY_MS = 86_400_000
FOREVER_MS = 2**48 - 1  # as a lease: no deadline; as a retention: until deleted


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    lease_ms: int = 30_000  # how long a lease lasts without a heartbeat
    max_length: int = 0  # waiting jobs; 0: unlimited
    max_bytes: int = 0  # bytes of jobs that have not ended; 0: unlimited
    history_length: int = 0  # finished jobs kept for inspection
    history_bytes: int = 16 * 1024 * 1024  # bytes of the history
    retention_ms: int = 14 * DAY_MS  # how long failed and cancelled jobs are kept
    name_lanes: bool = False  # one lane per job name, so that jobs can be taken by name
    aging_ms: int = 0  # waiting time that raises the priority by one step; 0: strict priority
    fair_share: bool = False  # lanes of equal priority take turns by weight, regardless of their lengths
    lease_renewal: bool = True  # False: a lease is fixed, and heartbeats do not extend it
    index: tuple[str, ...] = ()  # paths of payload fields that find its jobs, see core/limits/payload_index.py


Property: TypeAlias = int | bool | tuple[str, ...] | None  # value of a property; None: the default


FIXED_LEASE_PREFIX = "job_queue_"  # queues of the Jobber dialect: their leases are fixed, unless they are configured
_DEFAULTS = Configuration()
_FIXED_LEASE_DEFAULTS = Configuration(lease_renewal=False)


def default_configuration(queue: str) -> Configuration:
    """Return the properties of a queue that was never configured."""
    return _FIXED_LEASE_DEFAULTS if queue.startswith(FIXED_LEASE_PREFIX) else _DEFAULTS


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a queue, read from its indexes at one instant."""

    queue: str
    queued: int
    scheduled: int
    waiting: int
    suspended: int = 0  # jobs whose code waits for a time, a signal or child jobs
    running: int  # includes dispatched jobs
    finished: int
    failed: int  # includes consequences
    consequences: int = 0  # failed jobs that failed only because of another job
    cancelled: int
    history: int
    bytes: int  # of jobs that have not ended
    lanes: int  # lanes with waiting jobs, without the default lane
    waiting_takers: int
    oldest_age_ms: int | None  # how long the oldest takeable job has been takeable
    next_due_at_ms: int | None
    blocked_lanes: int  # lanes blocked by a limit or a pause
    is_paused: bool

    @property
    def held(self) -> int:
        """Number of jobs whose records the queue holds, in any state."""
        unended = self.queued + self.scheduled + self.waiting + self.suspended + self.running
        return unended + self.finished + self.failed + self.cancelled + self.history

    @property
    def failures(self) -> int:
        """Number of jobs that failed by themselves."""
        return self.failed - self.consequences


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of queues by name, with their statistics."""

    stats: list[QueueStats]
    after: str  # name after which the next page begins; empty: this is the last page


class QueueSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of all queues, where they are too many to be read at once: each as it was read last."""

    queue_count: int
    stats: list[QueueStats]  # of the queues that were read so far, by name
    busiest: list[QueueStats]  # the first of these by `busy_order`
    totals: dict[str, int]  # of these, by counter
    is_in_turns: bool  # some of them are read at a time
    read_since_ms: int | None  # no figure is older; None: not all queues were read so far


BUSIEST_MAX = 500
SURVEY_TOTALS = ("queued", "running", "scheduled", "suspended", "waiting", "failures", "failed")


def busy_order(stats: QueueStats) -> tuple[int, int, str]:
    """Return the place of a queue among others, the busiest first."""
    return -(stats.queued + stats.running), -stats.failures, stats.queue


def survey_of(stats: list[QueueStats], read_at_ms: int) -> QueueSurvey:
    """Return the survey of queues that were all read at once."""
    return QueueSurvey(
        queue_count=len(stats),
        stats=stats,
        busiest=sorted(stats, key=busy_order)[:BUSIEST_MAX],
        totals={counter: sum(getattr(queue, counter) for queue in stats) for counter in SURVEY_TOTALS},
        is_in_turns=False,
        read_since_ms=read_at_ms,
    )


class QueuePresence(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a queue exists: it holds something or is configured, was used within two days, or is served."""

    queue: str
    exists: bool
    suggestion: str = ""  # an existing queue with a similar name, if this queue does not exist

    @property
    def sentence(self) -> str:
        return describe_missing_queue(f"Queue {quote_text(self.queue)} does not exist", self.suggestion)


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """A pause of a queue, or of one lane or name in it."""

    queue: str
    lane: str = ""
    name: str = ""
    since_ms: int
    reason: str


class HeldUp(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a lane is blocked: a limit, with its key if it has keys, or a pause of the lane or of its name."""

    limit: str = ""
    key: str | None = None
    pause: str = ""  # lane or name


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of a queue that share one order: they have the same lane, name (in a queue with name_lanes) and limits."""

    lane: str  # empty: the default lane
    name: str
    is_hidden: bool
    limits: tuple[str, ...]  # limits that its jobs count against, as name or name:key
    queued: int
    oldest_age_ms: int
    held_by: HeldUp | None


class Lanes(msgspec.Struct, frozen=True, kw_only=True):
    """A page of lanes. `cursor` is empty on the last page."""

    lanes: list[Lane]
    cursor: str


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a queue for one minute."""

    at_ms: int
    enqueued: int = 0
    taken: int = 0
    finished: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    recovered: int = 0
    wait_ms: int = 0  # sum over the taken jobs: from takeable to taken
    run_ms: int = 0  # sum over the finished jobs: from start to end
    waits: Histogram = ()  # taken jobs by waiting time
    runs: Histogram = ()  # finished jobs by run time

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
