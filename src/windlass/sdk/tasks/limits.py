"""Limits that are declared with a task.

They count jobs of the task's name in its queue. A worker sets them in the engine when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from windlass.core.errors import BadInput
from windlass.core.limits import limit as core
from windlass.core.limits.condition import Condition, Scalar
from windlass.core.validation.matchers import check_matcher
from windlass.sdk.durations import Duration, duration_ms
from windlass.wire.limits import ConditionShape, condition_of

# A path into the arguments (`"order.shop"`), or a function of them. The limit holds for each value separately.
Key: TypeAlias = str | Callable[..., Any]
# Paths into the arguments, each with a value or with conditions such as {"gt": 7}. Only calls that meet all of them
# count.
Where: TypeAlias = Mapping[str, Scalar | Mapping[str, Any]]
META = "$windlass"  # the reserved key of a payload, see arguments.py


class Limit:
    """Concurrency limit: at most `running` jobs of the task run at once, in total or per key."""

    def __init__(self, running: int, *, key: Key = "", name: str = "", where: Where | None = None) -> None:
        self.running = running
        self.key = key
        self.name = name
        self.where = _parse_where(where or {})

    def make_engine_limit(self, name: str, matches: core.Matcher, key: str) -> core.Limit:
        return core.Limit(name=name, matches=matches, running=self.running, key=key)


class Rate:
    """Rate limit: at most `count` jobs of the task start per time, in total or per key, `burst` of them in a row."""

    def __init__(
        self,
        count: int,
        *,
        per: Duration = "1s",
        burst: int = 0,
        key: Key = "",
        name: str = "",
        where: Where | None = None,
    ) -> None:
        self.count = count
        self.per_ms = duration_ms("per", per)
        self.burst = burst
        self.key = key
        self.name = name
        self.where = _parse_where(where or {})

    def make_engine_limit(self, name: str, matches: core.Matcher, key: str) -> core.Limit:
        return core.Limit(name=name, matches=matches, rate=self.count, per_ms=self.per_ms, burst=self.burst, key=key)


def _parse_where(where: Where) -> dict[str, Scalar | Condition]:
    try:
        shapes = msgspec.convert(where, dict[str, Scalar | ConditionShape])
    except msgspec.ValidationError as error:
        raise BadInput(f"where is no condition on arguments: {error}") from error
    payload = {path: condition_of(value) for path, value in shapes.items()}
    check_matcher(core.Matcher(payload=payload))
    return payload


def make_engine_limits(task: str, queue: str, limits: Sequence[Limit | Rate]) -> list[core.Limit]:
    """Convert the limits of a task to the engine's limits.

    The value of a computed key is stored with each job, under the limit's number.
    """
    return [
        limit.make_engine_limit(
            limit.name or f"{task}:{at}",
            core.Matcher(queue=queue, name=task, payload=limit.where),
            f"{META}.keys.{at}" if callable(limit.key) else limit.key,
        )
        for at, limit in enumerate(limits)
    ]


def compute_keys(limits: Sequence[Limit | Rate], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Compute the keys that are functions of a call's arguments."""
    return {str(at): limit.key(**arguments) for at, limit in enumerate(limits) if callable(limit.key)}
