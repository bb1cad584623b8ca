"""Shapes of failed jobs grouped by error."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.ids import format_id
from windlass.core.stats.failure_groups import LOOKED_AT_MAX, FailureGroup
from windlass.core.validation.bounds import NAME_MAX, QUEUE_MAX

from .fields import Given, Id, Shape


class FailuresQuery(Shape, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Empty: all queues.")] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern: * and ?.")] = ""
    looked_at: Annotated[int, Meta(ge=1, le=LOOKED_AT_MAX, description="How many of the last failed jobs, about.")] = (
        2_000
    )


class FailureGroupShape(Given, frozen=True, kw_only=True):
    """Failed jobs of one queue and name whose last errors have one shape."""

    queue: str
    name: str
    error_shape: Annotated[str, Meta(description="The first line, with ids, numbers and quoted texts masked.")]
    count: int
    first_at_ms: int
    last_at_ms: int
    sample: Annotated[Id, Meta(description="The one that failed last.")]
    sample_error: str


class FailuresShape(Given, frozen=True, kw_only=True):
    """The largest group first. The jobs of one: GET /jobs with its queue, name and `error_shape`."""

    groups: list[FailureGroupShape]
    looked_at: int
    is_all: Annotated[bool, Meta(description="There are no others.")]
    at_ms: Annotated[int, Meta(description="When this was read; it may be 5 seconds old.")]


def _group(group: FailureGroup) -> FailureGroupShape:
    return FailureGroupShape(
        queue=group.queue,
        name=group.name,
        error_shape=group.error_shape,
        count=group.count,
        first_at_ms=group.first_at_ms,
        last_at_ms=group.last_at_ms,
        sample=format_id(group.sample),
        sample_error=group.sample_error,
    )
