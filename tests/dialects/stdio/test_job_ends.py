"""Unsuccessful ends of jobs through a processor: job_failed, del_job and requests to cancel; and the uuids of jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.dialects.stdio.processor_client import (
    OPTIONS,
    SessionClient,
    W,
    add,
    idle,
    job_uuid,
    message_line,
    parse_assignment,
    running_session,
    worker_line,
    worker_uuid,
)
from windlass.core.ids import format_id
from windlass.core.job import Blob, NewJob, Timeline
from windlass.core.operations import Listing, Take, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store
from windlass.store.waiting.wakeups import BLOCK_S

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

TICK = message_line("tick", {"uuid": "t", "timestamp": 1})
HOUR_MS = 3_600_000


@pytest.fixture
async def service(store: Store) -> AsyncIterator[Service]:
    yield Service(store)
    await store.close()


@pytest.fixture
async def processor(service: Service) -> AsyncIterator[SessionClient]:
    async with running_session(service) as processor:
        yield processor


def delete(uuid: str, queue_name: str = "q") -> str:
    return message_line("job_queue/del_job", {"uuid": uuid, "queue_name": queue_name}, "producer")


async def only_job(service: Service, state: str, queue: str = "q") -> Timeline:
    (job,) = (await service.jobs(Listing(queue=queue, state=state))).jobs
    return await service.job([job.id]).one()


async def listed(processor: SessionClient, word: str = "list_queue_jobs") -> list[dict[str, Any]]:
    processor.send(message_line(f"job_queue/{word}", {"queue_name": "q"}))
    rows: list[dict[str, Any]] = (await processor.receive())["payload"]["jobs"]
    return rows


async def start(processor: SessionClient, service: Service, job: NewJob) -> dict[str, str]:
    """Enqueue a job, and let the worker accept it. Return the names under which it reports."""
    await service.enqueue([job])
    processor.send(idle())
    payload = (await processor.receive())["payload"]
    named = {"uuid": payload["uuid"], "queue_name": "q"}
    await processor.list_jobs_after(message_line("job_queue/job_accepted", named))
    return named


# job_failed


@pytest.mark.parametrize("topic", ["job_queue/job_failed", f"job_queue/workers/{W}/job_failed"])
async def test_a_failed_job_without_a_policy_ends_and_its_worker_is_idle(
    processor: SessionClient, service: Service, topic: str
) -> None:
    processor.send(add(1), add(2), idle())
    await processor.assignments(1)
    failed = {"uuid": job_uuid(1), "queue_name": "q", "error": {"type": "DiskFull", "message": "no space", "code": 28}}
    processor.send(worker_line("job_accepted", W, 1), message_line(topic, failed), idle())
    assert await processor.assignments(1) == [(W, job_uuid(2))], "it is idle, and gets one job, not two"
    timeline = await only_job(service, "failed")
    (attempt,) = timeline.attempts
    assert (timeline.job.unique, attempt.reason, attempt.attempt) == (job_uuid(1), "error", 1)
    assert attempt.error is not None
    assert json.loads(attempt.error.data) == failed["error"]


async def test_a_failure_is_retried_on_request_with_growing_delays(processor: SessionClient, service: Service) -> None:
    processor.send(add(1))
    for attempt in (1, 2, 3):
        processor.send(idle())
        await processor.assignments(1)
        await processor.list_jobs_after(worker_line("job_failed", W, 1, should_retry=True, message="later"))
        timeline = await only_job(service, "scheduled")
        delay_ms = timeline.job.run_at_ms - timeline.attempts[-1].ended_at_ms
        assert 0.9 <= delay_ms / (1_000 * 2 ** (attempt - 1)) <= 1.1
        service.store.clock_offset_ms += delay_ms + 1
    processor.send(idle())
    await processor.assignments(1)
    await processor.list_jobs_after(worker_line("job_failed", W, 1, final=True))
    assert len((await only_job(service, "failed")).attempts) == 4


async def test_the_number_of_attempts_is_the_policy_of_jobs_that_are_added_here(service: Service) -> None:
    async with running_session(service, OPTIONS._replace(attempts=2)) as processor:
        processor.send(add(1))
        for state in ("scheduled", "failed"):
            processor.send(idle())
            await processor.assignments(1)
            await processor.list_jobs_after(worker_line("job_failed", W, 1))
            assert (await only_job(service, state)).job.unique == job_uuid(1)
            service.store.clock_offset_ms += 60_000


@pytest.mark.parametrize(
    ("retry", "fields", "state"),
    [
        (Backoff(tries=3), {}, "scheduled"),
        (Backoff(tries=3), {"final": True}, "failed"),
        (Backoff(tries=3), {"should_retry": False}, "failed"),
        (Backoff(tries=1), {"should_retry": True}, "failed"),
        (Backoff(tries=0, base_ms=5_000), {}, "scheduled"),
        (Backoff(tries=0), {}, "failed"),
        (Backoff(tries=0), {"should_retry": True}, "scheduled"),
    ],
)
async def test_a_retry_policy_decides(
    processor: SessionClient, service: Service, retry: Backoff, fields: dict[str, Any], state: str
) -> None:
    named = await start(processor, service, NewJob(queue="q", name="n", retry=retry))
    await processor.list_jobs_after(message_line("job_queue/job_failed", named | fields))
    assert (await only_job(service, state)).attempts[0].reason == "error"


async def test_a_retried_job_is_assigned_when_it_is_due(processor: SessionClient, service: Service) -> None:
    await start(processor, service, NewJob(queue="q", name="n", unique="u", retry=Backoff(tries=2, base_ms=20)))
    job = (await only_job(service, "running")).job
    processor.send(message_line("job_queue/job_failed", {"uuid": job.key, "queue_name": "q"}))
    async with asyncio.timeout(BLOCK_S / 2):  # then the watch would poll anyway
        assert await processor.assignments(1) == [(W, job.key)]


async def test_failures_that_have_no_effect_are_logged(
    processor: SessionClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    processor.send(add(1), idle())
    await processor.assignments(1)
    await processor.list_jobs_after(
        worker_line("job_failed", W, 77), worker_line("job_failed", worker_uuid(2), 1),
        worker_line("job_failed", W, 1, should_retry="yes"),
    )  # fmt: skip
    levels = [record.levelname for record in caplog.records]
    assert (levels.count("WARNING"), levels.count("ERROR")) == (2, 1)
    assert (await only_job(service, "running")).job.state is State.DISPATCHED


async def test_failures_in_several_partitions(divided_store: Callable[[int], Store]) -> None:
    store = divided_store(4)
    service = Service(store)
    queues = [f"q{number}" for number in range(8)]
    async with running_session(service) as processor:
        processor.send(*(add(number, name) for number, name in enumerate(queues)))
        processor.send(*(idle(worker_uuid(number + 1), queue_name=name) for number, name in enumerate(queues)))
        given = {uuid: worker for worker, uuid in await processor.assignments(8)}
        processor.send(
            *(
                worker_line("job_failed", given[job_uuid(number)], number, name, error=number)
                for number, name in enumerate(queues)
            )
        )
        await processor.list_jobs_after()
        for number, name in enumerate(queues):
            (attempt,) = (await only_job(service, "failed", name)).attempts
            assert attempt.error == Blob(str(number).encode())
    await store.close()


# del_job


async def test_a_deleted_job_is_not_dispatched(processor: SessionClient, service: Service) -> None:
    processor.send(add(1), add(2), delete(job_uuid(1)), idle())
    assert await processor.assignments(1) == [(W, job_uuid(2))]
    timeline = await only_job(service, "cancelled")
    assert (timeline.job.unique, timeline.attempts[0].reason) == (job_uuid(1), "cancelled")


async def test_jobs_of_other_dialects_are_deleted_by_id(processor: SessionClient, service: Service) -> None:
    later = NewJob(queue="q", name="n", unique="key", delay_ms=HOUR_MS)
    (made,) = await service.enqueue([later])
    await processor.list_jobs_after(delete("key"))
    assert (await only_job(service, "scheduled")).job.unique == "key", "a unique key is no uuid"
    await processor.list_jobs_after(delete(format_id(made.id)))  # type: ignore[union-attr]
    assert (await only_job(service, "cancelled")).job.unique == "key"


async def test_a_deletion_without_effect_is_logged(
    processor: SessionClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    (made,) = await service.enqueue([NewJob(queue="other", name="n")])
    await processor.list_jobs_after(
        delete("unknown"), delete(job_uuid(1)), delete(format_id(made.id)), add(2), delete(job_uuid(2)),
        delete(job_uuid(2)), message_line("job_queue/del_job", {"uuid": "u"}),
    )  # fmt: skip
    levels = [record.levelname for record in caplog.records]
    assert (levels.count("WARNING"), levels.count("ERROR")) == (4, 1)
    assert len((await service.jobs(Listing(queue="other", state="queued"))).jobs) == 1


@pytest.mark.parametrize("is_accepted", [False, True])
async def test_the_worker_of_a_deleted_job_is_asked_to_stop(
    processor: SessionClient, service: Service, is_accepted: bool
) -> None:
    processor.send(add(1), idle())
    await processor.assignments(1)
    if is_accepted:
        await processor.list_jobs_after(worker_line("job_accepted", W, 1))
    processor.send(delete(job_uuid(1)))
    message = await processor.receive()
    assert message["topic"] == f"default/job_queue/workers/{W}/job_cancelled"
    assert message["payload"] == {"uuid": job_uuid(1), "queue_name": "q"}
    assert (await only_job(service, "running")).job.is_cancel_requested
    await processor.list_jobs_after(worker_line("job_failed", W, 1, message="stopped", should_retry=True))
    timeline = await only_job(service, "cancelled")
    assert timeline.attempts[-1].error == Blob(b'{"message":"stopped"}')


async def test_a_deleted_job_ends_when_its_worker_is_silent(processor: SessionClient, service: Service) -> None:
    processor.send(add(1), idle())
    await processor.assignments(1)
    processor.send(delete(job_uuid(1)))
    await processor.receive()
    service.store.clock_offset_ms += OPTIONS.accept_ms
    processor.send(TICK, idle(worker_uuid(2)))
    assert (await processor.list_jobs_after())["payload"]["jobs"] == []
    assert (await only_job(service, "cancelled")).job.unique == job_uuid(1)


async def test_no_message_is_sent_to_a_worker_that_reads_none(processor: SessionClient, service: Service) -> None:
    worker = b"s" * 16
    await processor.list_jobs_after(add(1))
    await service.register(worker, WorkerInfo(name="sdk", queues=("q",)))
    await service.take(Take(queues=("q",), worker=worker))
    assert (await processor.list_jobs_after(delete(job_uuid(1))))["topic"].endswith("list_queue_jobs_response")
    assert (await only_job(service, "running")).job.is_cancel_requested


async def test_a_cancel_from_elsewhere_reaches_the_worker_with_its_next_message(
    processor: SessionClient, service: Service
) -> None:
    named = await start(processor, service, NewJob(queue="q", name="n"))
    job = (await only_job(service, "running")).job
    assert await service.cancel([job.id]).one() == "requested"
    for _ in range(2):
        processor.send(message_line("job_queue/worker_progress", named | {"progress": 0.5}))
        message = await processor.receive()
        assert message["topic"] == f"default/job_queue/workers/{W}/job_cancelled"
        assert message["payload"] == named
    await processor.list_jobs_after(message_line("job_queue/job_failed", named))
    assert (await only_job(service, "cancelled")).job.id == job.id


# Uuids


async def test_lists_show_uuids_and_not_unique_keys(processor: SessionClient, service: Service) -> None:
    """Also of jobs whose payload is too long for a page, wherever the uuid is in it."""
    long = "x" * 5_000
    nested_uuid = Blob(json.dumps({"a": {"uuid": "n"}, "b": long}).encode())
    made = await service.enqueue([
        NewJob(queue="q", name="key", unique="=foo", priority=-500),
        NewJob(queue="q", name="long", unique="=long", payload=Blob(json.dumps({"data": long}).encode()), priority=500),
        NewJob(queue="q", name="nested", unique="n", payload=nested_uuid),
    ])  # fmt: skip
    last = {"queue_name": "q", "command": "last", "data": long, "uuid": job_uuid(2)}
    await processor.list_jobs_after(add(1, command="first", data=long), message_line("job_queue/add_job", last))
    key, long_one, nested = (format_id(job.id) for job in made)  # type: ignore[union-attr]
    expected = {"key": key, "long": long_one, "nested": nested, "first": job_uuid(1), "last": job_uuid(2)}
    rows = await listed(processor)
    assert {row["command"]: row["uuid"] for row in rows} == expected
    assert [(rows[at]["command"], rows[at]["priority"]) for at in (0, -1)] == [("key", 0), ("long", 9)]
    processor.send(*(idle(worker_uuid(number)) for number in range(1, 6)))
    given = [await processor.receive() for _ in range(5)]
    assert {message["payload"]["command"] for message in given if "args" in message["payload"]} == {
        "key", "long", "nested",
    }  # fmt: skip
    assert {message["payload"]["command"]: message["payload"]["uuid"] for message in given} == expected
    dispatched = await listed(processor, "list_queue_dispatched")
    assert {row["command"]: row["uuid"] for row in dispatched} == expected
    for message in given:
        worker, uuid = parse_assignment(message)
        named = {"uuid": uuid, "queue_name": "q"}
        processor.send(message_line("job_queue/job_accepted", named, worker))
    assert {row["command"]: row["uuid"] for row in await listed(processor, "list_queue_progress")} == expected
