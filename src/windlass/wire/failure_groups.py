"""Shapes of failed jobs grouped by error."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.ids import format_id
from windlass.core.stats.failure_groups import LOOKED_AT_MAX, FailureGroup
from windlass.core.validation.bounds import NAME_MAX, QUEUE_MAX

from .fields import Id
from .shape import RequestShape, ResponseShape


class ListFailuresQuery(RequestShape, frozen=True, kw_only=True):
    queue: Annotated[str, Meta(max_length=QUEUE_MAX, description="Empty: all queues.")] = ""
    name: Annotated[str, Meta(max_length=NAME_MAX, description="A pattern: * and ?.")] = ""
    looked_at: Annotated[
        int, Meta(ge=1, le=LOOKED_AT_MAX, description="About how many of the last failed jobs to examine.")
    ] = 2_000


class FailureGroupShape(ResponseShape, frozen=True, kw_only=True):
    """Failed jobs with the same queue, name and shape of the last error."""

    queue: str
    name: str
    error_shape: Annotated[
        str, Meta(description="The first line of the error, with ids, numbers and quoted texts masked.")
    ]
    count: int
    consequences: Annotated[
        int, Meta(description="Examined jobs that failed only because of the jobs of this group; not in `count`.")
    ] = 0
    first_at_ms: int
    last_at_ms: int
    sample: Annotated[Id, Meta(description="The job of the group that failed last.")]
    sample_error: str


class FailuresShape(ResponseShape, frozen=True, kw_only=True):
    """Groups of failed jobs, the largest first. List the jobs of a group by GET /jobs with its queue, name and
    `error_shape`."""

    groups: list[FailureGroupShape]
    other_consequences: Annotated[
        int, Meta(description="Examined jobs that failed only because of jobs that were not examined; in no group.")
    ] = 0
    looked_at: int
    is_all: Annotated[bool, Meta(description="All failed jobs were examined.")]
    at_ms: Annotated[int, Meta(description="When the jobs were read; the answer may be 5 seconds old.")]


def failure_group_shape(group: FailureGroup) -> FailureGroupShape:
    return FailureGroupShape(
        queue=group.queue,
        name=group.name,
        error_shape=group.error_shape,
        count=group.count,
        consequences=group.consequences,
        first_at_ms=group.first_at_ms,
        last_at_ms=group.last_at_ms,
        sample=format_id(group.sample),
        sample_error=group.sample_error,
    )
