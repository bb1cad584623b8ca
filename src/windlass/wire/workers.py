"""Shapes of worker registrations and heartbeats."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.ids import format_id
from windlass.core.operations import Worker
from windlass.core.validation.bounds import DURATION_MAX, PAGE_MAX, QUEUES_PER_TAKE, UINT32_MAX

from .fields import Given, Id, QueueName, Shape

WorkerId = Annotated[str, Meta(description="The id of a worker, a UUID of its own making.")]


class WorkerShape(Shape, frozen=True, kw_only=True):
    """What a worker says of itself."""

    host: Annotated[str, Meta(max_length=255)] = ""
    pid: Annotated[int, Meta(ge=0, le=2**31)] = 0
    queues: Annotated[tuple[QueueName, ...], Meta(max_length=QUEUES_PER_TAKE)] = ()
    slots: Annotated[int, Meta(ge=0, le=1_000_000, description="Jobs that it runs at once.")] = 1
    name: Annotated[str, Meta(max_length=255)] = ""
    beat_ms: Annotated[
        int, Meta(ge=100, le=DURATION_MAX, description="It will beat at least this often; silent, it is lost.")
    ] = 30_000


class ExpectedShape(Given, frozen=True, kw_only=True):
    now_ms: Annotated[int, Meta(description="The engine's time.")]
    silent_at_ms: Annotated[int, Meta(description="When it counts as lost unless it beats.")]


class HeldJobShape(Given, frozen=True, kw_only=True):
    id: Id
    since_ms: int


class RegisteredShape(Given, frozen=True, kw_only=True):
    """A worker, and what it holds: of many jobs, those it has held longest."""

    id: WorkerId
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    name: str
    url: Annotated[str, Meta(description="Where jobs are pushed to it; empty: it takes them itself.")] = ""
    started_at_ms: int
    silent_at_ms: Annotated[int, Meta(description="When it counts as lost unless it beats.")]
    beat_at_ms: Annotated[int, Meta(description="When it was last heard.")] = 0
    running_count: int
    running: list[HeldJobShape]
    stopping_since_ms: Annotated[int | None, Meta(description="When it was asked to end.")]


class BeatShape(Shape, frozen=True, kw_only=True):
    """A heartbeat. Without a body it says only that the worker is alive."""

    held: Annotated[
        tuple[Id, ...] | None,
        Meta(
            description="All jobs that the worker has taken and not reported yet. The answer then names the leases "
            "that it does not know. Use one id per process: jobs of another process under that id are not known here."
        ),
    ] = None


class UnclaimedShape(Given, frozen=True, kw_only=True):
    """A lease under the worker's name that its heartbeat did not name."""

    id: Id
    token: Annotated[int, Meta(description="The token of the lease.")]


class HeardShape(Given, frozen=True, kw_only=True, omit_defaults=True):
    is_asked_to_stop: Annotated[bool, Meta(description="Take no more, end what runs, and leave.")]
    unclaimed: Annotated[
        tuple[UnclaimedShape, ...],
        Meta(
            description="Leases of at least two seconds that are not in `held`: the answer that brought them was lost. "
            "Release them, and do not begin them should that answer still arrive."
        ),
    ] = ()


class AskedToStopShape(Given, frozen=True, kw_only=True):
    was_asked: Annotated[bool, Meta(description="Whether it was asked before.")]


class WorkersShape(Given, frozen=True, kw_only=True):
    workers: list[RegisteredShape]


class WorkersQuery(Shape, frozen=True, kw_only=True):
    start: Annotated[int, Meta(ge=0, le=UINT32_MAX, description="How many to pass over.")] = 0
    most: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 100


class GivenBackShape(Given, frozen=True, kw_only=True):
    given_back: Annotated[int, Meta(description="Jobs that others may take now.")]


def _registered(worker: Worker) -> RegisteredShape:
    info = worker.info
    return RegisteredShape(
        id=format_id(worker.id),
        host=info.host,
        pid=info.pid,
        queues=info.queues,
        slots=info.slots,
        name=info.name,
        url=info.url,
        started_at_ms=worker.started_at_ms,
        silent_at_ms=worker.silent_at_ms,
        beat_at_ms=worker.beat_at_ms,
        running_count=worker.running_count,
        running=[HeldJobShape(id=format_id(one.id), since_ms=one.since_ms) for one in worker.running],
        stopping_since_ms=worker.stopping_since_ms,
    )
