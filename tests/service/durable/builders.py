"""Builders for the tests of durable operations. They block."""

from __future__ import annotations

from typing import Any

from tests.service.helpers import new, put, take
from windlass.core.durable import (
    DurableState,
    Signal,
    Step,
    StoreStep,
    StreamWrite,
    Suspend,
    SuspendOutcome,
    Wait,
)
from windlass.core.job import Blob, Job
from windlass.core.operations import ANY_JOB_WITH_STEPS
from windlass.service import Service

HOUR_MS = 3_600_000


def take_with_steps(service: Service, **kw: Any) -> list[Job]:
    return take(service, wants=ANY_JOB_WITH_STEPS, **kw)


def start(service: Service, **kw: Any) -> Job:
    """Enqueue a job and take it."""
    put(service, new(**kw))
    (job,) = take_with_steps(service)
    return job


def store(service: Service, job: Job, name: str = "charge", value: bytes = b"1", **kw: Any) -> None:
    service.store_steps([StoreStep(id=job.id, token=job.lease_token, name=name, value=Blob(value), **kw)]).one().wait()


def suspend(service: Service, job: Job, *waits: Wait) -> SuspendOutcome:
    return service.suspend([Suspend(id=job.id, token=job.lease_token, waits=waits)]).one().wait()


def sleep(for_ms: int = HOUR_MS, name: str = "sleep") -> Wait:
    return Wait(name=name, kind="sleep", for_ms=for_ms)


def wait_for(signal: str = "approval", for_ms: int | None = None, name: str = "", schema: Blob | None = None) -> Wait:
    return Wait(name=name or f"signal:{signal}", kind="signal", signal=signal, for_ms=for_ms, schema=schema)


def send(service: Service, job: Job, name: str = "approval", value: bytes = b"true", **kw: Any) -> str:
    return service.signal([Signal(id=job.id, name=name, value=Blob(value), **kw)]).one().wait()


def state_of(service: Service, job: Job) -> DurableState:
    return service.durable_states([job.id]).one().wait()


def steps_of(service: Service, job: Job) -> dict[str, Step]:
    return {step.name: step for step in state_of(service, job).steps}


def pass_time(service: Service, ms: int) -> None:
    """Move the clock and let the scheduler act."""
    service.store.clock_offset_ms += ms
    service.promote().wait()


def write(service: Service, job: Job, *values: bytes, sequence: int = 0, outside: int | None = None) -> int:
    blobs = tuple(Blob(value) for value in values)
    request = StreamWrite(id=job.id, token=job.lease_token, values=blobs, sequence=sequence, outside=outside)
    return service.write_stream([request]).one().wait()


def contents(service: Service, job: Job, after: int = 0) -> list[bytes | None]:
    items = service.read_stream(job.id, after=after).wait().items
    return [item.value.data if item.value else None for item in items]
