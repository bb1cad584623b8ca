"""The SDK's own way: the service, straight to the engine."""

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

from ..history import Seen
from ..judging.final import key_of
from .life import Refused, Unanswered
from .wishes import Wish
from .working import Conduct, Manner

T = TypeVar("T")


async def asked(question: Awaitable[T]) -> T:
    """What is no refusal says nothing of what became of the call."""
    try:
        return await question
    except Refusal as refusal:
        raise Refused(refusal.code) from refusal
    except (WindlassError, OSError, asyncio.IncompleteReadError) as error:
        raise Unanswered(f"{type(error).__name__}: {error}") from error


class EngineCounter:
    is_repeatable = True

    def __init__(self, service: Service, durability: Durability | None = None) -> None:
        self._service = service
        self._durability = durability
        self._ids: dict[str, bytes] = {}

    async def enqueue(self, wishes: Sequence[Wish]) -> list[Seen]:
        await asked(self._service.store.open())
        jobs = [self._job(wish) for wish in wishes]
        answers = await asked(self._service.enqueue(jobs, durability=self._durability))
        found = []
        for job, answer in zip(jobs, answers, strict=True):
            if isinstance(answer, Refusal):
                found.append(Seen(id=format_id(job.id), code=answer.code))
            else:
                found.append(Seen(id=format_id(answer.id), outcome=answer.status, is_durable=answer.is_durable))
        for wish in wishes:
            del self._ids[wish.key]
        return found

    def _job(self, wish: Wish) -> NewJob:
        """The same id when it is asked for again."""
        job_id = self._ids.setdefault(wish.key, self._service.store.new_id(wish.queue))
        return NewJob(
            id=job_id, queue=wish.queue, name=wish.name, lane=wish.lane, priority=wish.priority,
            delay_ms=wish.delay_ms, payload=Blob(msgspec.json.encode(wish.payload)),
            retry=Backoff(tries=wish.tries, base_ms=10),
            callback=Callback(url=wish.callback) if wish.callback else None,
        )  # fmt: skip


class EngineBench:
    manners: frozenset[Manner] = frozenset(("finish", "extend", "retry", "give_up", "release", "sleep", "abandon"))
    link = ""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def ready(self) -> None:
        """The store opens by itself."""

    async def take(self, conduct: Conduct) -> list[Seen]:
        request = Take(
            queues=conduct.queues, most=conduct.most, lease_ms=conduct.lease_ms, wait_ms=conduct.wait_ms
        )  # fmt: skip
        return [lease_of(job) for job in (await asked(self._service.take(request))).jobs]

    async def finish(self, held: Seen) -> Seen:
        answer = await asked(self._service.finish([Finish(parse_id(held.id), held.token)]).one())
        return Seen(outcome=answer or "finished")

    async def fail(self, held: Seen, *, final: bool, delay_ms: int) -> Seen:
        then: Literal["retry", "final"] = "final" if final else "retry"
        request = Fail(id=parse_id(held.id), token=held.token, then=then, delay_ms=delay_ms)
        return Seen(outcome=await asked(self._service.fail([request]).one()))

    async def release(self, held: Seen) -> Seen:
        return Seen(outcome=await asked(self._service.release([LeaseRef(parse_id(held.id), held.token)]).one()))

    async def extend(self, held: Seen, lease_ms: int) -> Seen:
        answer = await asked(self._service.extend([LeaseRef(parse_id(held.id), held.token)], lease_ms=lease_ms).one())
        return Seen(lease_until_ms=answer.deadline_at_ms or 0, lease_ms=lease_ms)


def lease_of(job: Job) -> Seen:
    """A job as its taker was given it."""
    leased_at_ms, until_ms = job.started_at_ms or 0, job.lease_deadline_at_ms or 0
    return Seen(
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
