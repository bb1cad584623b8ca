"""Limits as a developer writes them beside a task. They count jobs by the task's name, in its queue; a worker sets them
in the engine when it starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from windlass.core.limits import limit as core
from windlass.sdk.durations import Duration, duration_ms

# A path of the arguments (`"order.shop"`), or a function of them; each value has the limit for itself.
Key: TypeAlias = str | Callable[..., Any]
META = "$windlass"  # the reserved key of a payload, see arguments.py


class Limit:
    """At most so many of the task's jobs run at once, in all or per key."""

    def __init__(self, running: int, *, key: Key = "", name: str = "") -> None:
        self.running = running
        self.key = key
        self.name = name

    def make_engine_limit(self, name: str, matches: core.Matcher, key: str) -> core.Limit:
        return core.Limit(name=name, matches=matches, running=self.running, key=key)


class Rate:
    """At most so many of the task's jobs start per time, in all or per key; `burst` of them in a row."""

    def __init__(self, count: int, *, per: Duration = "1s", burst: int = 0, key: Key = "", name: str = "") -> None:
        self.count = count
        self.per_ms = duration_ms("per", per)
        self.burst = burst
        self.key = key
        self.name = name

    def make_engine_limit(self, name: str, matches: core.Matcher, key: str) -> core.Limit:
        return core.Limit(name=name, matches=matches, rate=self.count, per_ms=self.per_ms, burst=self.burst, key=key)


def make_engine_limits(task: str, queue: str, limits: Sequence[Limit | Rate]) -> list[core.Limit]:
    """What the engine is told. A key that is computed travels with each job, under its number."""
    matches = core.Matcher(queue=queue, name=task)
    return [
        one.make_engine_limit(
            one.name or f"{task}:{at}", matches, f"{META}.keys.{at}" if callable(one.key) else one.key
        )
        for at, one in enumerate(limits)
    ]


def compute_keys(limits: Sequence[Limit | Rate], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that functions make of a call's arguments."""
    return {str(at): one.key(**arguments) for at, one in enumerate(limits) if callable(one.key)}
