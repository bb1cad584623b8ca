"""Producers and workers that write down what they were told, to be judged afterwards."""

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


class Witness:
    """What callers were told."""

    def __init__(self) -> None:
        self.accepted: set[bytes] = set()
        self.finished: set[bytes] = set()
        self.came_back: list[bytes] = []
        self.runs: dict[bytes, list[int]] = {}
        self.is_over = False
        self.expected: tuple[type[Refusal], ...] = (StaleLease,)  # of reports, besides their success

    def judge(self, at_least: int, *, may_run_again: bool = False) -> None:
        assert len(self.accepted) > at_least, "the test did not get to do anything"
        assert may_run_again or self.came_back == [], "a job whose end was acknowledged ran again"
        assert self.accepted <= self.finished, "an acknowledged job is lost"
        for tokens in self.runs.values():
            assert tokens == sorted(set(tokens)), "tokens only grow, and none is given twice"

    def saw(self, jobs: list[Job]) -> None:
        for job in jobs:
            self.runs.setdefault(job.id, []).append(job.lease_token)
            if job.id in self.finished:
                self.came_back.append(job.id)

    def was_told(self, jobs: list[Job], answers: list[Refusal | None]) -> None:
        for job, answer in zip(jobs, answers, strict=True):
            # After a lost answer the repeated finish finds its job ended: by this very worker.
            if answer is None or isinstance(answer, AlreadyEnded):
                self.finished.add(job.id)
            else:
                assert isinstance(answer, self.expected), answer


async def produce(
    service: Service, witness: Witness, queues: Sequence[str] = QUEUES, durability: Durability | None = None
) -> None:
    while not witness.is_over:
        jobs = [NewJob(queue=random.choice(queues), name="n", priority=random.randint(0, 2)) for _ in range(5)]
        for answer in await service.enqueue(jobs, durability=durability):
            assert isinstance(answer, Enqueued)
            if answer.is_durable:
                witness.accepted.add(answer.id)


async def work(service: Service, witness: Witness, queues: Sequence[str] = QUEUES) -> None:
    held: list[Job] = []
    while not witness.is_over:
        done = [Finish(job.id, job.lease_token) for job in held]
        answer = await service.finish_and_take(done, [], Take(queues=tuple(queues), most=4, lease_ms=LEASE_MS))
        witness.was_told(held, answer.finished)
        held = answer.taken.jobs
        witness.saw(held)
        if not held:
            await asyncio.sleep(0.005)


async def drain(service: Service, witness: Witness, queues: Sequence[str] = QUEUES) -> None:
    """Leases of lost answers run out, then everything that is left is worked off."""
    service.store.clock_offset_ms += LEASE_MS + 1_000
    while jobs := (await service.take(Take(queues=tuple(queues), most=500))).jobs:
        witness.saw(jobs)
        witness.was_told(jobs, await service.finish([Finish(job.id, job.lease_token) for job in jobs]))


def check_invariants(store: Store) -> None:
    """The whole namespace is consistent at this instant."""
    seconds, micros = store._sync_connection.call("TIME")
    now_ms = int(seconds) * 1000 + int(micros) // 1000 + store.clock_offset_ms
    check(snapshot(store._sync_connection, store.root(0), now_ms))
