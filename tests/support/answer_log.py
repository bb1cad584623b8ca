"""Producers and workers that log the answers they receive, for later checks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from tests.service.machines.invariants import check, snapshot
from windlass.core.errors import AlreadyEnded, Refusal, StaleLease
from windlass.core.job import Durability, Job, NewJob
from windlass.core.operations import Enqueued, Finish, Take
from windlass.service import Service
from windlass.store.store import Store

LEASE_MS = 30_000
QUEUES = ("a", "b")


class AnswerLog:
    """Answers that producers and workers received."""

    def __init__(self) -> None:
        self.accepted: set[bytes] = set()
        self.finished: set[bytes] = set()
        self.taken_again: list[bytes] = []
        self.tokens: dict[bytes, list[int]] = {}
        self.is_over = False
        self.expected: tuple[type[Refusal], ...] = (StaleLease,)  # refusals of reports

    def check(self, at_least: int, *, may_run_again: bool = False) -> None:
        assert len(self.accepted) > at_least, "too few jobs were accepted for a test"
        assert may_run_again or self.taken_again == [], "a job whose end was acknowledged ran again"
        assert self.accepted <= self.finished, "an acknowledged job is lost"
        for tokens in self.tokens.values():
            assert tokens == sorted(set(tokens)), "tokens only grow, and none is given twice"

    def record_taken(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.tokens.setdefault(job.id, []).append(job.lease_token)
            if job.id in self.finished:
                self.taken_again.append(job.id)

    def record_finished(self, jobs: list[Job], answers: list[Refusal | None]) -> None:
        for job, answer in zip(jobs, answers, strict=True):
            # A finish that is repeated after a lost answer finds the job ended by this same worker.
            if answer is None or isinstance(answer, AlreadyEnded):
                self.finished.add(job.id)
            else:
                assert isinstance(answer, self.expected), answer


async def produce(
    service: Service, log: AnswerLog, queues: Sequence[str] = QUEUES, durability: Durability | None = None
) -> None:
    while not log.is_over:
        jobs = [NewJob(queue=random.choice(queues), name="n", priority=random.randint(0, 2)) for _ in range(5)]
        for answer in await service.enqueue(jobs, durability=durability):
            assert isinstance(answer, Enqueued)
            if answer.is_durable:
                log.accepted.add(answer.id)


async def work(service: Service, log: AnswerLog, queues: Sequence[str] = QUEUES) -> None:
    leased: list[Job] = []
    while not log.is_over:
        done = [Finish(job.id, job.lease_token) for job in leased]
        answer = await service.finish_and_take(done, [], Take(queues=tuple(queues), most=4, lease_ms=LEASE_MS))
        log.record_finished(leased, answer.finished)
        leased = answer.taken.jobs
        log.record_taken(leased)
        if not leased:
            await asyncio.sleep(0.005)


async def drain(service: Service, log: AnswerLog, queues: Sequence[str] = QUEUES) -> None:
    """Let the leases of lost answers expire, then finish all remaining jobs."""
    service.store.clock_offset_ms += LEASE_MS + 1_000
    while jobs := (await service.take(Take(queues=tuple(queues), most=500))).jobs:
        log.record_taken(jobs)
        log.record_finished(jobs, await service.finish([Finish(job.id, job.lease_token) for job in jobs]))


def check_invariants(store: Store) -> None:
    """Check that the whole namespace is consistent at this instant."""
    seconds, micros = store._sync_connection.call("TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000 + store.clock_offset_ms
    check(snapshot(store._sync_connection, store.root(0), now_ms))
