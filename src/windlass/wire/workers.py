"""Shapes of worker registrations and heartbeats."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.ids import format_id
from windlass.core.operations import Worker
from windlass.core.validation.bounds import (
    DURATION_MAX,
    MEMORY_MAX,
    NAME_MAX,
    NAMES_PER_WORKER,
    PAGE_MAX,
    QUEUES_PER_TAKE,
    UINT32_MAX,
    VERSION_MAX,
)

from .fields import Id, QueueName
from .shape import RequestShape, ResponseShape, component_name

WorkerId = Annotated[str, Meta(description="The id of a worker, a UUID that the worker generates.")]


class WorkerShape(RequestShape, frozen=True, kw_only=True):
    """A worker's description of itself."""

    host: Annotated[str, Meta(max_length=255)] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31)] = 0
    queues: Annotated[tuple[QueueName, ...], Meta(max_length=QUEUES_PER_TAKE)] = ()
    slots: Annotated[int, Meta(ge=0, le=1_000_000, description="Jobs that it runs at the same time.")] = 1
    name: Annotated[str, Meta(max_length=255)] = ""
    names: Annotated[
        tuple[Annotated[str, Meta(max_length=NAME_MAX)], ...],
        Meta(
            max_length=NAMES_PER_WORKER,
            description="Names of the jobs that it can run. Jobs with a name that no worker of their queue knows are "
            "reported. Empty: it may run jobs of any name.",
        ),
    ] = ()
    version: Annotated[str, Meta(max_length=VERSION_MAX, description="The version of its client library.")] = ""
    python: Annotated[str, Meta(max_length=VERSION_MAX, description="The version of its Python interpreter.")] = ""
    memory_bytes: Annotated[
        int, Meta(ge=0, le=MEMORY_MAX, description="The memory that its process uses now. Register again to update it.")
    ] = 0
    beat_ms: Annotated[
        int,
        Meta(
            ge=100,
            le=DURATION_MAX,
            description="The longest time between heartbeats, in milliseconds. After it the worker counts as lost.",
        ),
    ] = 30_000


class ExpectedShape(ResponseShape, frozen=True, kw_only=True):
    now_ms: Annotated[int, Meta(description="The engine's time.")]
    silent_at_ms: Annotated[int, Meta(description="When it counts as lost without a further heartbeat.")]


class HeldJobShape(ResponseShape, frozen=True, kw_only=True):
    id: Id
    since_ms: int


class RegisteredShape(ResponseShape, frozen=True, kw_only=True):
    """A registered worker and the jobs that it holds, the longest held first; of many jobs, only the first."""

    id: WorkerId
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    name: str
    names: Annotated[tuple[str, ...], Meta(description="Names of the jobs that it can run; empty: any.")] = ()
    url: Annotated[str, Meta(description="The URL to which jobs are pushed; empty: the worker takes jobs itself.")] = ""
    version: Annotated[str, Meta(description="The version of its client library; empty: not known.")] = ""
    python: Annotated[str, Meta(description="The version of its Python interpreter; empty: not known.")] = ""
    memory_bytes: Annotated[
        int, Meta(description="The memory of its process at its last registration; 0: not known.")
    ] = 0
    component: Annotated[
        str, Meta(description="The part of a server that is listed here, such as downloads; empty: a worker.")
    ] = ""
    started_at_ms: int
    silent_at_ms: Annotated[int, Meta(description="When it counts as lost without a further heartbeat.")]
    beat_at_ms: Annotated[int, Meta(description="The time of its last heartbeat.")] = 0
    running_count: int
    running: list[HeldJobShape]
    stopping_since_ms: Annotated[int | None, Meta(description="When it was asked to stop.")]


class BeatShape(RequestShape, frozen=True, kw_only=True):
    """A heartbeat. Without a body it only reports that the worker is alive."""

    held: Annotated[
        tuple[Id, ...] | None,
        Meta(
            description="All jobs that the worker has taken and not reported yet. The answer then lists the leases of "
            "this worker that are not among them. Use one worker id per process: jobs of another process under the "
            "same id count as not listed."
        ),
    ] = None


class UnclaimedShape(ResponseShape, frozen=True, kw_only=True):
    """A lease of the worker that its heartbeat did not list."""

    id: Id
    token: Annotated[int, Meta(description="The token of the lease.")]


@component_name("HeardShape")
class HeartbeatReplyShape(ResponseShape, frozen=True, kw_only=True, omit_defaults=True):
    is_asked_to_stop: Annotated[bool, Meta(description="Take no more jobs, finish the running jobs, and deregister.")]
    unclaimed: Annotated[
        tuple[UnclaimedShape, ...],
        Meta(
            description="Leases at least two seconds old that are not in `held`: the answer to a take was lost. "
            "Release them, and do not start them if that answer still arrives."
        ),
    ] = ()


@component_name("AskedToStopShape")
class StopRequestedShape(ResponseShape, frozen=True, kw_only=True):
    was_asked: Annotated[bool, Meta(description="Whether a stop was requested before.")]


class WorkersShape(ResponseShape, frozen=True, kw_only=True):
    workers: list[RegisteredShape]


class ListWorkersQuery(RequestShape, frozen=True, kw_only=True):
    start: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="How many workers to skip.")] = 0
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class GivenBackShape(ResponseShape, frozen=True, kw_only=True):
    given_back: Annotated[int, Meta(description="Jobs that other workers can take now.")]


def registered_shape(worker: Worker) -> RegisteredShape:
    info = worker.info
    return RegisteredShape(
        id=format_id(worker.id),
        host=info.host,
        pid=info.pid,
        queues=info.queues,
        slots=info.slots,
        name=info.name,
        names=info.names,
        url=info.url,
        version=info.version,
        python=info.python,
        memory_bytes=info.memory_bytes,
        component=info.component,
        started_at_ms=worker.started_at_ms,
        silent_at_ms=worker.silent_at_ms,
        beat_at_ms=worker.beat_at_ms,
        running_count=worker.running_count,
        running=[HeldJobShape(id=format_id(job.id), since_ms=job.since_ms) for job in worker.running],
        stopping_since_ms=worker.stopping_since_ms,
    )
