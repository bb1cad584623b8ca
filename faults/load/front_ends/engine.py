"""Direct calls of the engine through the service, as the SDK makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Literal, TypeVar

import msgspec

from windlass.core.errors import Refusal, WindlassError
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Callback, Durability, Job, NewJob
from windlass.core.operations import Fail, Finish, LeaseRef, Take
from windlass.core.retry import Backoff
from windlass.service import Service

from ...checks.final_state import key_of
from ...history import JobFacts
from ..context import CallRefused, CallUnanswered
from ..job_generator import JobRequest
from ..worker import JobAction, WorkerProfile

T = TypeVar("T")


async def call_engine(operation: Awaitable[T]) -> T:
    """Await an operation. Only a refusal is definite; after any other error the effect is unknown."""
    try:
        return await operation
    except Refusal as refusal:
        raise CallRefused(refusal.code) from refusal
    except (WindlassError, OSError, asyncio.IncompleteReadError) as error:
        raise CallUnanswered(f"{type(error).__name__}: {error}") from error


class EngineProducer:
    is_repeatable = True

    def __init__(self, service: Service, durability: Durability | None = None) -> None:
        self._service = service
        self._durability = durability
        self._ids: dict[str, bytes] = {}

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[JobFacts]:
        await call_engine(self._service.store.open())
        jobs = [self._new_job(request) for request in requests]
        answers = await call_engine(self._service.enqueue(jobs, durability=self._durability))
        facts = []
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Refusal):
                facts.append(JobFacts(id=format_id(job.id), code=answer.code))
            else:
                facts.append(JobFacts(id=format_id(answer.id), outcome=answer.status, is_durable=answer.is_durable))
        for request in requests:
            del self._ids[request.key]
        return facts

    def _new_job(self, request: JobRequest) -> NewJob:
        """Return the job, with the same id if the request is repeated."""
        job_id = self._ids.setdefault(request.key, self._service.store.new_id(request.queue))
        return NewJob(
            id=job_id, queue=request.queue, name=request.name, lane=request.lane, priority=request.priority,
            delay_ms=request.delay_ms, payload=Blob(msgspec.json.encode(request.payload)),
            retry=Backoff(tries=request.tries, base_ms=10),
            callback=Callback(url=request.callback) if request.callback else None,
        )  # fmt: skip


class EngineWorker:
    actions: frozenset[JobAction] = frozenset(("finish", "extend", "retry", "give_up", "release", "sleep", "abandon"))
    connection = ""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def ready(self) -> None:
        """Do nothing: the store connects by itself."""

    async def take(self, profile: WorkerProfile) -> list[JobFacts]:
        request = Take(
            queues=profile.queues, most=profile.most, lease_ms=profile.lease_ms, wait_ms=profile.wait_ms
        )  # fmt: skip
        return [lease_facts(job) for job in (await call_engine(self._service.take(request))).jobs]

    async def finish(self, lease: JobFacts) -> JobFacts:
        answer = await call_engine(self._service.finish([Finish(parse_id(lease.id), lease.token)]).one())
        return JobFacts(outcome=answer or "finished")

    async def fail(self, lease: JobFacts, *, final: bool, delay_ms: int) -> JobFacts:
        then: Literal["retry", "final"] = "final" if final else "retry"
        request = Fail(id=parse_id(lease.id), token=lease.token, then=then, delay_ms=delay_ms)
        return JobFacts(outcome=await call_engine(self._service.fail([request]).one()))

    async def release(self, lease: JobFacts) -> JobFacts:
        return JobFacts(outcome=await call_engine(self._service.release([_lease_ref(lease)]).one()))

    async def extend(self, lease: JobFacts, lease_ms: int) -> JobFacts:
        answer = await call_engine(self._service.extend([_lease_ref(lease)], lease_ms=lease_ms).one())
        return JobFacts(
            lease_until_ms=answer.deadline_at_ms or 0,
            lease_ms=lease_ms if answer.fixed_for_ms is None else answer.fixed_for_ms,
        )


def _lease_ref(lease: JobFacts) -> LeaseRef:
    return LeaseRef(parse_id(lease.id), lease.token)


def lease_facts(job: Job) -> JobFacts:
    """Return the facts of a taken job."""
    leased_at_ms, until_ms = job.started_at_ms or 0, job.lease_deadline_at_ms or 0
    return JobFacts(
        key=key_of(job.payload), id=job.key, queue=job.queue, name=job.name, lane=job.lane, priority=job.priority,
        tries=job.retry.tries, token=job.lease_token, attempt=job.attempt, sequence=job.sequence,
        leased_at_ms=leased_at_ms, lease_until_ms=until_ms, lease_ms=until_ms - leased_at_ms if until_ms else 0,
        limit_keys=limit_keys_of(job.payload), schedule=job.schedule, planned_at_ms=job.planned_at_ms or 0,
    )  # fmt: skip


def limit_keys_of(payload: Blob) -> tuple[str, ...]:
    try:
        value = msgspec.json.decode(payload.data)
    except msgspec.DecodeError:
        return ()
    return tuple(value.get("limit_keys", ())) if isinstance(value, dict) else ()
