"""Jobs whose name no worker knows: the worker says so, and so do explain and the queue."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from windlass import Windlass
from windlass.core.explain.unknown_names import UnknownName
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.service.queues import UNKNOWN_NAMES_MS
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
SENTENCE = 'No worker has a task called "send_mial"; did you mean "send_mail"?'
LIMIT_S = 30


def add_tasks(app: Windlass) -> None:
    @app.task(queue="mail")
    async def send_mail(number: int) -> int:
        return number

    @app.task(queue="mail")
    async def check_inbox() -> None: ...


async def until_set_aside(service: Service, job_id: bytes) -> None:
    """Wait until a worker has taken the job and given it back."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            has_lanes = (await service.configuration("mail")).name_lanes
            if has_lanes and (await service.job([job_id]).one()).job.state.label == "queued":
                return
            await asyncio.sleep(0.02)


async def until_idle(service: Service) -> None:
    """Wait until a taker waits at the queue."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            if (await service.stats(["mail"]))[0].waiting_takers:
                return
            await asyncio.sleep(0.02)


async def test_a_job_of_an_unknown_task_does_not_look_healthy(
    app: Windlass, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    add_tasks(app)
    service = await app.aservice()
    with caplog.at_level(logging.WARNING, "windlass.worker"):
        async with working(app):
            job = await service.enqueue([NewJob(queue="mail", name="send_mial")]).one()
            await until_set_aside(service, job.id)
            found = await service.explain(job.id)
            assert [reason.sentence for reason in found.reasons] == [SENTENCE]
            assert await service.unknown_names("mail") == [
                UnknownName(name="send_mial", suggestion="send_mail", sentence=SENTENCE)
            ]
    assert (
        'This worker has no task called "send_mial"; did you mean "send_mail"? '
        "Its jobs wait for a worker that has it." in caplog.text
    )


async def test_a_scheduled_job_of_an_unknown_task_is_found_while_the_worker_is_idle(store: Store, working: Any) -> None:
    """The worker waits for jobs of any name. On a connection to the engine, its wait shows which worker it is."""
    app = Windlass()
    app.connect(store)
    add_tasks(app)
    service = await app.aservice()
    job = await service.enqueue([NewJob(queue="mail", name="send_mial", delay_ms=3_600_000)]).one()
    async with working(app):
        await until_idle(service)
        assert SENTENCE in [reason.sentence for reason in (await service.explain(job.id)).reasons]


async def test_a_worker_registers_the_names_of_its_tasks(app: Windlass, working: Any) -> None:
    add_tasks(app)
    service = await app.aservice()
    async with working(app):
        (worker,) = await service.workers()
        assert worker.info.names == ("check_inbox", "send_mail")


async def test_a_worker_with_very_many_tasks_registers_no_names(app: Windlass, working: Any) -> None:
    for number in range(1_001):

        @app.task(name=f"task {number}", queue="mail")
        async def run() -> None: ...

    service = await app.aservice()
    async with working(app):
        (worker,) = await service.workers()
        assert worker.info.names == ()


async def test_a_known_job_is_not_reported(app: Windlass, working: Any) -> None:
    add_tasks(app)
    service = await app.aservice()
    async with working(app):
        job = await service.enqueue([NewJob(queue="mail", name="send_mail", delay_ms=UNKNOWN_NAMES_MS)]).one()
        assert len((await service.explain(job.id)).reasons) == 1


# Queues


async def test_a_worker_reports_queues_that_do_not_exist_yet(
    app: Windlass, working: Any, caplog: pytest.LogCaptureFixture
) -> None:
    add_tasks(app)
    service = await app.aservice()
    await service.enqueue([NewJob(queue="video", name="cut")]).one()
    with caplog.at_level(logging.WARNING, "windlass.worker"):
        async with working(app, queues=("mial", "mail", "vidoe", "video")):
            pass
    assert [record.getMessage() for record in caplog.records if "does not exist" in record.getMessage()] == [
        'Queue "mial" does not exist yet; did you mean "mail"? The worker waits for its first job.',
        'Queue "vidoe" does not exist yet; did you mean "video"? The worker waits for its first job.',
    ]
