"""Random jobs for producers, from a seed. Each has a unique key, which its payload carries through every front end."""

from __future__ import annotations

import itertools
import time
from typing import Any

import msgspec

from ..history import JobFacts
from .context import ClientContext


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    queue: str
    name: str = "work"
    lane: str = ""
    priority: int = 0
    delay_ms: int = 0
    tries: int = 0
    callback: str = ""  # URL
    group: str = ""  # in queues with a limit per group

    @property
    def limit_keys(self) -> tuple[str, ...]:
        return (limit_key(self.queue, self.group),) if self.group else ()

    @property
    def payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = {"key": self.key}
        return payload | ({"group": self.group, "limit_keys": list(self.limit_keys)} if self.group else {})

    def facts(self) -> JobFacts:
        return JobFacts(
            key=self.key, queue=self.queue, name=self.name, lane=self.lane, priority=self.priority, tries=self.tries,
            is_delayed=self.delay_ms > 0, expects_callback=bool(self.callback), limit_keys=self.limit_keys,
        )  # fmt: skip


def limit_key(queue: str, group: str) -> str:
    return f"{queue}/{group}"


class JobMix(msgspec.Struct, frozen=True, kw_only=True):
    """Options of generated jobs.

    Jobs of queues whose name begins with `limited` have a group. Jobs of queues whose name begins with `ordered` have
    nothing that would change their position."""

    queues: tuple[str, ...] = ("plain",)
    groups: int = 2
    callback: str = ""  # URL of the receiver; empty: no callbacks
    most: int = 5  # jobs at once
    is_bare: bool = False  # keys only, for front ends without further options


class JobGenerator:
    """Generator of jobs from the seed. Keys do not depend on it: a client that starts again uses new keys."""

    def __init__(self, context: ClientContext, mix: JobMix) -> None:
        self._random = context.random
        self._mix = mix
        self._prefix = f"{context.client}-{time.monotonic_ns():x}"
        self._numbers = itertools.count(1)

    def next_batch(self) -> list[JobRequest]:
        queue = self._random.choice(self._mix.queues)
        return [self.next_job(queue) for _ in range(self._random.randint(1, self._mix.most))]

    def next_job(self, queue: str) -> JobRequest:
        rng, key = self._random, f"{self._prefix}-{next(self._numbers)}"
        if self._mix.is_bare or queue.startswith("ordered"):
            return JobRequest(key=key, queue=queue)
        return JobRequest(
            key=key,
            queue=queue,
            priority=rng.choice((0, 0, 0, 1, -1)),
            delay_ms=rng.choice((0, 0, 0, 0, 50, 200)),
            tries=rng.choice((0, 0, 3)),
            callback=self._mix.callback if rng.random() < 0.3 else "",
            group=f"g{rng.randrange(self._mix.groups)}" if queue.startswith("limited") else "",
        )
