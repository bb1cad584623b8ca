"""Outcomes of leased jobs: each kind, refusals, and an engine that is away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.background.lease_owner import ref
from tests.support.engine_process import EngineProcess
from tests.support.lossy_connection import LIMIT_S, open_lossy_connection
from windlass.background.outcomes import TRANSIENT, Outcome, report_outcomes
from windlass.core.errors import EngineUnavailable, StaleLease
from windlass.core.job import Job, NewJob
from windlass.core.operations import CompleteWithChildren, Fail, FailOutcome, Finish, FinishOutcome, LeaseRef, Take
from windlass.retry_loop import RetryLoop
from windlass.service import Service
from windlass.store.operation import BatchOperation
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

RETRIES = RetryLoop(logging.getLogger("windlass.tests"), "Could not report the jobs", TRANSIENT)


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(LIMIT_S):
        yield service


async def take(service: Service, count: int) -> list[Job]:
    await service.enqueue([NewJob(queue="q", name="n", result_ttl_ms=60_000) for _ in range(count)])
    return (await service.take(Take(queues=("q",), most=count))).jobs


async def states(service: Service, jobs: Sequence[Job]) -> list[str]:
    return [(await service.job([job.id]).one()).job.state.label for job in jobs]


async def test_answers_come_in_the_order_of_the_outcomes(opened: Service) -> None:
    released, failed, finished, again, stale = jobs = await take(opened, 5)
    outcomes: list[Outcome] = [
        ref(released),
        Fail(id=failed.id, token=failed.lease_token),
        Finish(finished.id, finished.lease_token),
        CompleteWithChildren(id=again.id, token=again.lease_token, then="again", delay_ms=60_000),
        LeaseRef(stale.id, stale.lease_token + 1_000),
    ]
    answers = await report_outcomes(opened, outcomes, RETRIES)
    assert (answers[1:3], type(answers[4])) == (["failed", None], StaleLease)
    assert await states(opened, jobs) == ["queued", "failed", "finished", "scheduled", "running"]


class InterruptedService(Service):
    """Service whose first failures do not reach the engine."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.finished: list[Finish] = []
        self.interruptions_left = 1

    def finish(self, requests: Sequence[Finish]) -> BatchOperation[FinishOutcome]:
        self.finished.extend(requests)
        return super().finish(requests)

    def fail(self, requests: Sequence[Fail]) -> BatchOperation[FailOutcome]:
        if self.interruptions_left:
            self.interruptions_left -= 1
            raise EngineUnavailable("away")
        return super().fail(requests)


async def test_an_outcome_with_an_answer_is_not_repeated(opened: Service, caplog: pytest.LogCaptureFixture) -> None:
    failed, finished = jobs = await take(opened, 2)
    service = InterruptedService(opened.store)
    end = Finish(finished.id, finished.lease_token)
    answers = await report_outcomes(service, [Fail(id=failed.id, token=failed.lease_token), end], RETRIES)
    assert (answers, service.finished) == (["failed", None], [end])
    assert "Could not report the jobs; trying again" in caplog.text
    assert await states(opened, jobs) == ["failed", "finished"]


async def test_outcomes_are_repeated_until_the_engine_is_back(
    opened: Service, engine: EngineProcess, caplog: pytest.LogCaptureFixture
) -> None:
    (job,) = await take(opened, 1)
    with open_lossy_connection(engine) as connection:
        async with connection.store_like(opened.store, patience_s=0.2) as store:
            connection.cut()
            reporting = asyncio.create_task(report_outcomes(Service(store), [Finish(job.id, job.lease_token)], RETRIES))
            while "Could not report the jobs; trying again" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            connection.restore()
            assert await reporting == [None]
    assert await states(opened, [job]) == ["finished"]
