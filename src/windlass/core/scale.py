"""Scale: how many workers the jobs of a queue need. No I/O, no memory of earlier answers."""

from __future__ import annotations

import math

import msgspec

JOBS_PER_SLOT = 10
WORKERS_MAX = 100_000
SLOTS_MAX = 100_000
TARGET_MAX = 1_000_000


class Load(msgspec.Struct, frozen=True):
    """Jobs that workers are needed for."""

    queued: int
    oldest_age_ms: int  # of queued jobs; 0 if there are none
    running: int


class ScaleTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Goal of a scaler: how many jobs a worker may have, and how long a job may wait."""

    slots: int = 1  # jobs that a worker runs at once
    target: int = 0  # queued and running jobs per worker; 0: ten per slot
    target_age_ms: int = 0  # a job may wait this long; 0: any time
    min: int = 0  # workers
    max: int = 100  # workers

    @property
    def jobs_per_worker(self) -> int:
        return self.target or JOBS_PER_SLOT * self.slots


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Wanted number of workers, and the facts that it was computed from."""

    queue: str
    workers: int
    backlog: int  # queued jobs that can be taken; 0 while the queue is paused
    running: int
    oldest_age_ms: int  # how long the oldest of the backlog has been ready
    is_paused: bool


def needed_workers(load: Load, goal: ScaleTarget) -> int:
    """Return the number of workers, without the bounds `min` and `max`.

    Running jobs keep their workers. The share of a worker shrinks in proportion to the delay of the oldest job, but
    never below its slots: more workers would find no jobs.
    """
    share: float = goal.jobs_per_worker
    if goal.target_age_ms and load.oldest_age_ms > goal.target_age_ms:
        share = max(min(goal.slots, share), share * goal.target_age_ms / load.oldest_age_ms)
    busy = math.ceil(load.running / goal.slots)
    return max(busy, math.ceil((load.running + load.queued) / share))


def wanted_workers(load: Load, goal: ScaleTarget) -> int:
    return min(max(needed_workers(load, goal), goal.min), goal.max)
