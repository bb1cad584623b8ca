"""Processor session in this process, over real pipes: lines on its stdin and messages on its stdout."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.dialects.stdio.processor_client import (
    LIMIT_S,
    OPTIONS,
    SessionClient,
    W,
    add,
    idle,
    instant,
    job_uuid,
    message_line,
    parse_assignment,
    running_session,
    worker_line,
    worker_uuid,
)
from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Listing, Take
from windlass.core.states import State
from windlass.dialects.stdio.envelope import Identity
from windlass.service import Service
from windlass.store.commands.push import DispatchResult
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

TICK = message_line("tick", {"uuid": "t", "timestamp": 1})


@pytest.fixture
async def service(store: Store) -> AsyncIterator[Service]:
    yield Service(store)
    await store.close()


@pytest.fixture
async def processor(service: Service) -> AsyncIterator[SessionClient]:
    async with running_session(service) as processor:
        yield processor


async def listed(processor: SessionClient, word: str) -> list[dict[str, Any]]:
    processor.send(message_line(f"job_queue/{word}", {"queue_name": "q"}))
    answer = await processor.receive()
    assert answer["topic"] == f"default/job_queue/{word}_response"
    payload = answer["payload"]
    assert payload["is_complete"]
    rows: list[dict[str, Any]] = payload["workers" if "worker" in word else "jobs"]
    return rows


async def of_state(service: Service, state: str) -> list[Any]:
    return (await service.jobs(Listing(queue="q", state=state))).jobs


async def test_the_life_of_a_job(processor: SessionClient, service: Service) -> None:
    processor.send(add(1, command="resize", args=[1.50, "ü"], reference_uuid="r"), idle())
    message = await processor.receive()
    assert parse_assignment(message) == (W, job_uuid(1))
    assert (message["service_name"], message["service_uuid"], message["service_host"]) == (
        "job_queue",
        "processor-1",
        "here",
    )
    payload = message["payload"]
    assert payload.pop("dispatched_at").endswith("Z")
    assert payload == {
        "uuid": job_uuid(1), "queue_name": "q", "command": "resize", "args": [1.5, "ü"], "reference_uuid": "r",
    }  # fmt: skip
    (dispatched,) = await listed(processor, "list_queue_dispatched")
    assert (dispatched["uuid"], dispatched["worker_uuid"]) == (job_uuid(1), W)
    processor.send(
        worker_line("job_accepted", W, 1, started_at=instant()), worker_line("worker_progress", W, 1, progress=0.25)
    )
    (processing,) = await listed(processor, "list_queue_progress")
    assert (processing["uuid"], processing["progress"], processing["worker_uuid"]) == (job_uuid(1), 0.25, W)
    (worker,) = await listed(processor, "list_queue_workers")
    assert (worker["worker_uuid"], worker["state"]) == (W, "busy")
    processor.send(worker_line("job_finished", W, 1, finished_at="then"))
    (worker,) = await listed(processor, "list_worker_queue")
    assert worker["state"] == "idle"
    (job,) = await of_state(service, "finished")
    ending = await service.result(job.id)
    assert ending is not None
    assert ending.result is not None
    assert json.loads(ending.result.data)["finished_at"] == "then"


async def test_an_idle_worker_gets_a_job_that_is_added_later(processor: SessionClient) -> None:
    processor.send(idle())
    processor.send(add(1))
    assert await processor.assignments(1) == [(W, job_uuid(1))]


async def test_priorities_then_first_in_first_out(processor: SessionClient) -> None:
    priorities = [5, 9, 0, None, "0", 4]
    processor.send(*(add(number, priority=priority) for number, priority in enumerate(priorities)))
    processor.send(*(idle(worker_uuid(1)) for _ in priorities))
    assert [uuid for _, uuid in await processor.assignments(6)] == [job_uuid(number) for number in (2, 4, 5, 0, 3, 1)]


async def test_every_idle_worker_gets_one_job_of_its_own_queue(processor: SessionClient) -> None:
    workers = [worker_uuid(number) for number in range(1, 31)]
    processor.send(*(idle(worker) for worker in workers), idle(worker_uuid(99), queue_name="other"))
    processor.send(*(add(number) for number in range(40)))
    given = await processor.assignments(30)
    assert {worker for worker, _ in given} == set(workers)
    assert {uuid for _, uuid in given} == {job_uuid(number) for number in range(30)}
    assert len((await processor.list_jobs_after())["payload"]["jobs"]) == 10


async def _delay_assignment(
    processor: SessionClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> asyncio.Event:
    """Let the engine assign a job, and hold back its reply until the returned event is set."""
    is_on_its_way, may_arrive = asyncio.Event(), asyncio.Event()
    run = service.store.run

    async def slow(flow: Any) -> Any:
        answer = await run(flow)
        if isinstance(answer, DispatchResult) and answer.taken.jobs:
            is_on_its_way.set()
            await may_arrive.wait()
        return answer

    monkeypatch.setattr(service.store, "run", slow)
    await processor.list_jobs_after(idle())
    await service.enqueue([NewJob(queue="q", name="n")])
    async with asyncio.timeout(LIMIT_S):
        await is_on_its_way.wait()
    return may_arrive


async def test_an_idle_message_for_another_queue_does_not_lose_an_assignment(
    processor: SessionClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_arrive = await _delay_assignment(processor, service, monkeypatch)
    await processor.list_jobs_after(idle(worker_uuid(2), queue_name="other"))
    may_arrive.set()
    assert parse_assignment(await processor.receive())[0] == W


async def test_assigned_jobs_are_written_after_the_end_of_the_input(
    processor: SessionClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_arrive = await _delay_assignment(processor, service, monkeypatch)
    asyncio.get_running_loop().call_later(0.1, may_arrive.set)
    _, written = await processor.wait_ended()
    assert [parse_assignment(one)[0] for one in written] == [W]


async def test_a_finished_job_triggers_the_next_assignment(processor: SessionClient) -> None:
    processor.send(add(1), add(2), add(3), idle())
    assert await processor.assignments(1) == [(W, job_uuid(1))]
    processor.send(worker_line("job_accepted", W, 1))
    processor.send(worker_line("job_finished", W, 1), idle())
    assert await processor.assignments(1) == [(W, job_uuid(2))]
    assert (
        len((await processor.list_jobs_after())["payload"]["jobs"]) == 1
    )  # the idle message after the end did not ask for a second job


async def test_a_recorded_dialogue_has_the_same_effect_in_one_write(processor: SessionClient, service: Service) -> None:
    texts = []
    for number in (1, 2):
        texts += [add(number), idle(), worker_line("job_accepted", W, number), worker_line("worker_busy", W, number)]
        texts += [worker_line("complete_job", W, number)]
    texts += [add(3), worker_line("job_accepted", W, 3)]  # the end of the second has made it idle
    os.write(processor._input_fd, "\n".join(texts).encode())
    _, written = await processor.wait_ended()
    assert [parse_assignment(one) for one in written] == [(W, job_uuid(number)) for number in (1, 2, 3)]
    assert {job.state for job in await of_state(service, "running")} == {State.RUNNING}
    assert len(await of_state(service, "finished")) == 2


async def test_an_old_idle_message_triggers_no_assignment(
    processor: SessionClient, caplog: pytest.LogCaptureFixture
) -> None:
    processor.send(add(1))
    assert len((await processor.list_jobs_after(idle(age_s=100)))["payload"]["jobs"]) == 1
    assert "more than a tick" in caplog.text
    assert [one["state"] for one in await listed(processor, "list_queue_workers")] == ["idle"]
    processor.send(idle(age_s=400, worker=worker_uuid(2)))
    assert len(await listed(processor, "list_queue_workers")) == 1
    assert "too old" in caplog.text
    processor.send(add(2))  # which triggers a dispatch: the first worker is idle all the same
    assert await processor.assignments(1) == [(W, job_uuid(1))]


async def test_a_worker_stays_idle_for_the_expiry_period(processor: SessionClient, service: Service) -> None:
    """The period is longer than a tick, so a worker with late ticks gets jobs without gaps."""
    await processor.list_jobs_after(idle())
    service.store.clock_offset_ms += 120_000  # two of the three ticks
    processor.send(add(1))
    assert await processor.assignments(1) == [(W, job_uuid(1))]
    await processor.list_jobs_after(worker_line("job_finished", W, 1))
    service.store.clock_offset_ms += 180_000
    assert len((await processor.list_jobs_after(add(2)))["payload"]["jobs"]) == 1


async def test_a_job_that_is_not_accepted_returns_to_the_front(processor: SessionClient, service: Service) -> None:
    processor.send(add(1), add(2), add(3), idle())
    assert await processor.assignments(1) == [(W, job_uuid(1))]
    service.store.clock_offset_ms += 120_000
    processor.send(TICK, idle(worker_uuid(2)))
    assert await processor.assignments(1) == [(worker_uuid(2), job_uuid(2))]
    service.store.clock_offset_ms += 60_000
    processor.send(TICK, idle(worker_uuid(3)))
    assert await processor.assignments(1) == [(worker_uuid(3), job_uuid(1))]


@pytest.mark.parametrize("trigger", ["tick", "add_job", "nothing"])
async def test_the_job_of_a_silent_worker_is_requeued(processor: SessionClient, service: Service, trigger: str) -> None:
    processor.send(add(1), idle())
    await processor.assignments(1)
    await processor.list_jobs_after(worker_line("job_accepted", W, 1))
    service.store.clock_offset_ms += 180_000
    processor.send(idle(worker_uuid(2)))
    if trigger == "add_job":
        processor.send(add(2, priority=9))
    elif trigger == "tick":
        processor.send(TICK)
    assert await processor.assignments(1) == [(worker_uuid(2), job_uuid(1))]
    if trigger == "tick":
        assert [one["worker_uuid"] for one in await listed(processor, "list_queue_workers")] == [worker_uuid(2)]


async def test_a_tick_purges_silent_workers(processor: SessionClient, service: Service) -> None:
    processor.send(idle())
    assert len(await listed(processor, "list_queue_workers")) == 1
    service.store.clock_offset_ms += 180_000
    processor.send(TICK)
    assert await listed(processor, "list_queue_workers") == []


async def test_progress_keeps_a_job(processor: SessionClient, service: Service) -> None:
    processor.send(add(1), idle())
    await processor.assignments(1)
    await processor.list_jobs_after(worker_line("job_accepted", W, 1))
    for _ in range(3):
        service.store.clock_offset_ms += 120_000
        await processor.list_jobs_after(
            message_line("job_queue/worker_progress", {"uuid": job_uuid(1), "queue_name": "q"}), TICK
        )
    assert len(await listed(processor, "list_progress_queue")) == 1


async def test_a_number_of_attempts_is_an_option(service: Service) -> None:
    async with running_session(service, OPTIONS._replace(attempts=2)) as processor:
        processor.send(add(1))
        for _ in range(2):
            processor.send(idle())
            await processor.assignments(1)
            service.store.clock_offset_ms += 180_000
        await processor.list_jobs_after(TICK)
        (job,) = await of_state(service, "failed")
        assert job.unique == job_uuid(1)


async def test_a_job_of_another_dialect_is_assigned_at_once(processor: SessionClient, service: Service) -> None:
    await processor.list_jobs_after(idle())
    (enqueued,) = await service.enqueue([NewJob(queue="q", name="resize", payload=Blob(b'{"size": 3}'), priority=-5)])
    payload = (await processor.receive())["payload"]
    assert (payload["command"], payload["args"], payload["priority"]) == ("resize", {"size": 3}, 0)
    uuid = {"queue_name": "q", "uuid": payload["uuid"]}
    processor.send(
        message_line("job_queue/job_accepted", uuid),
        message_line("job_queue/worker_progress", uuid | {"progress": 0.5}),
    )
    (job,) = await listed(processor, "list_queue_progress")
    assert (job["progress"], job["uuid"]) == (0.5, payload["uuid"])
    assert enqueued.status == "queued"  # type: ignore[union-attr]


async def test_a_worker_that_is_idle_again_gets_jobs_of_other_dialects(
    processor: SessionClient, service: Service
) -> None:
    for number in (1, 2, 3):
        processor.send(add(number), idle())
        await processor.assignments(1)
        await processor.list_jobs_after(worker_line("job_accepted", W, number), worker_line("job_finished", W, number))
        await service.enqueue([NewJob(queue="q", name=f"n{number}")])
        payload = (await processor.receive())["payload"]
        assert payload["command"] == f"n{number}"
        processor.send(
            message_line("job_queue/job_accepted", payload), message_line("job_queue/worker_progress", payload)
        )


async def test_jobs_taken_by_other_workers_are_not_assigned(processor: SessionClient, service: Service) -> None:
    await processor.list_jobs_after(add(1), add(2))
    (taken,) = (await service.take(Take(queues=("q",), lease_ms=60_000))).jobs
    assert taken.unique == job_uuid(1)
    processor.send(idle(), idle(worker_uuid(2)))
    assert [uuid for _, uuid in await processor.assignments(1)] == [job_uuid(2)]
    assert (await processor.list_jobs_after())["payload"]["jobs"] == []


async def test_unknown_jobs_and_other_workers_are_logged_as_warnings(
    processor: SessionClient, caplog: pytest.LogCaptureFixture
) -> None:
    words = ("job_accepted", "worker_progress", "job_finished")
    await processor.list_jobs_after(*(worker_line(word, W, 77) for word in words))
    assert caplog.text.count(job_uuid(77)) == len(words)
    processor.send(add(1), idle())
    await processor.assignments(1)
    caplog.clear()
    await processor.list_jobs_after(*(worker_line(word, worker_uuid(2), 1) for word in words))
    assert [record.levelname for record in caplog.records if job_uuid(1) in record.getMessage()] == ["WARNING"] * 3
    assert [one["worker_uuid"] for one in await listed(processor, "list_queue_dispatched")] == [W]


async def test_the_same_uuid_again_is_the_same_job(processor: SessionClient, caplog: pytest.LogCaptureFixture) -> None:
    answer = await processor.list_jobs_after(add(1), add(1, data=2), add(1, queue_name="other"))
    assert len(answer["payload"]["jobs"]) == 1
    assert caplog.text.count("already") == 1
    processor.send(idle())
    await processor.assignments(1)
    await processor.list_jobs_after(worker_line("job_finished", W, 1))
    assert (await processor.list_jobs_after(add(1)))["payload"]["jobs"] == []
    assert caplog.text.count("already") == 2


async def test_bad_lines_are_logged_and_survived(processor: SessionClient, caplog: pytest.LogCaptureFixture) -> None:
    processor.send(
        "nonsense", b"\xff\xfe", b'{"topic": "default/tick", "payload": "\x00"}', "[" * 5_000, "5", "", "   "
    )
    processor.send(add(1, priority=12), message_line("job_queue/add_job", None), message_line("unknown", {}))
    processor.send(
        '{"topic": "default/job_queue/add_job", "payload": {"uuid": "u", "queue_name": "q", "x": "\\ud800"}}'
    )
    processor.send(add(2, queue_name="x" * 300))
    assert (await processor.list_jobs_after())["payload"]["jobs"] == []
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 9
    processor.send(add(2), idle())
    assert await processor.assignments(1) == [(W, job_uuid(2))]


async def test_a_line_without_end_is_skipped(processor: SessionClient, caplog: pytest.LogCaptureFixture) -> None:
    def write() -> None:
        for _ in range(5):
            os.write(processor._input_fd, b"x" * 1024 * 1024)

    await asyncio.to_thread(write)
    await processor.list_jobs_after("")
    assert "it was skipped" in caplog.text


async def test_lists_have_a_window(processor: SessionClient) -> None:
    processor.send(add(1))
    for fields, count in (({"earlier_than": instant(60)}, 0), ({"later_than": instant(60), "earlier_than": "+inf"}, 1)):
        processor.send(message_line("list_job_queue", {"queue_name": "q"} | fields))
        assert len((await processor.receive())["payload"]["jobs"]) == count


async def test_namespaces_are_kept_apart(service: Service) -> None:
    identity = Identity(uuid="u", host="h", listener="in", publisher="out")
    async with running_session(service, identity=identity) as processor:
        processor.send(add(1), add(2).replace("default/", "in/"), idle().replace("default/", "in/"))
        message = await processor.receive()
        assert message["topic"].startswith("out/")
        assert message["payload"]["uuid"] == job_uuid(2)


async def test_a_topic_without_namespace_is_answered_in_the_publishers_namespace(service: Service) -> None:
    identity = Identity(uuid="u", host="h", listener="in", publisher="out")
    async with running_session(service, identity=identity) as processor:
        processor.send(*(text.replace("default/job_queue", "job_queue") for text in (add(1), idle())))
        message = await processor.receive()
        assert message["topic"] == f"out/job_queue/workers/{W}/job_assignment"
        assert message["payload"]["uuid"] == job_uuid(1)


async def test_the_end_of_the_input_is_the_end(processor: SessionClient, service: Service) -> None:
    processor.send(add(1))
    os.write(processor._input_fd, add(2).encode())  # the last line needs no end
    assert await processor.wait_ended() == (True, [])
    assert len(await of_state(service, "queued")) == 2


async def test_a_closed_stdout_ends_it_and_releases_unread_assignments(service: Service) -> None:
    async with running_session(service) as processor:
        await processor.list_jobs_after()
        processor._output_file.close()
        processor.send(add(1), idle())
        async with asyncio.timeout(30):
            assert await processor.running is False
        (job,) = await of_state(service, "queued")
        assert job.attempt == 0


async def test_a_slow_reader_slows_everything_down(service: Service) -> None:
    """Unread output fills bounded memory. Then nothing is assigned or read, and nothing is lost."""
    size, count = 200_000, 80
    async with running_session(service) as processor:
        texts = [
            text for number in range(count) for text in (add(number, data="x" * size), idle(worker_uuid(number + 1)))
        ]
        writing = asyncio.create_task(asyncio.to_thread(processor.send, *texts))
        await until_some(service, "running")
        await asyncio.wait({writing}, timeout=0.5)
        assert not writing.done()
        held = len(await of_state(service, "running")) + len(await of_state(service, "queued"))
        assert held * size < count * size / 2
        given = await processor.assignments(count)
        assert len({uuid for _, uuid in given}) == len({worker for worker, _ in given}) == count
        await writing


async def until_some(service: Service, state: str) -> None:
    while not await of_state(service, state):
        pass


async def test_a_slow_engine_slows_the_input_down(processor: SessionClient, service: Service) -> None:
    await processor.list_jobs_after()
    count, size = 60, 200_000
    await asyncio.to_thread(send_command, service.store, "CLIENT", "PAUSE", 600_000, "WRITE")
    try:
        texts = [add(number, data="x" * size) for number in range(count)]
        writing = asyncio.create_task(asyncio.to_thread(processor.send, *texts))
        await asyncio.wait({writing}, timeout=0.5)
        assert not writing.done()
    finally:
        await asyncio.to_thread(send_command, service.store, "CLIENT", "UNPAUSE")
    await writing
    assert len((await processor.list_jobs_after())["payload"]["jobs"]) == count


async def test_an_unavailable_engine_is_waited_for(engine: EngineProcess, caplog: pytest.LogCaptureFixture) -> None:
    config = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
    with EngineProcess("valkey", config=config) as own:
        store = Store(parse_url(own.unix_url), namespace="away", is_test=True, patience_s=0.1)
        async with running_session(Service(store)) as processor:
            await processor.list_jobs_after(add(1))
            await asyncio.to_thread(own.kill)
            processor.send(add(2), idle())
            while "The engine is unavailable" not in caplog.text:
                await asyncio.to_thread(time.sleep, 0.01)
            await asyncio.to_thread(own.start)
            assert await processor.assignments(1) == [(W, job_uuid(1))]
            processor.send(idle())
            assert await processor.assignments(1) == [(W, job_uuid(2))]
        await store.close()


async def test_queues_of_several_partitions(divided_store: Callable[[int], Store]) -> None:
    store = divided_store(4)
    queues = [f"q{number}" for number in range(8)]
    async with running_session(Service(store)) as processor:
        processor.send(*(idle(worker_uuid(number + 1), queue_name=name) for number, name in enumerate(queues)))
        processor.send(*(add(number, queue_name=name) for number, name in enumerate(queues)))
        assert len({uuid for _, uuid in await processor.assignments(8)}) == 8
        processor.send(*(idle(worker_uuid(number + 1), queue_name=name) for number, name in enumerate(queues)))
        await processor.list_jobs_after()
        await Service(store).enqueue([NewJob(queue=name, name="n") for name in queues])
        assert {(await processor.receive())["payload"]["queue_name"] for _ in queues} == set(queues)
    await store.close()


async def test_a_stop_handles_messages_that_were_read(processor: SessionClient, service: Service) -> None:
    await processor.list_jobs_after(add(1))
    processor.session.stop()
    assert await processor.running
    assert len(await of_state(service, "queued")) == 1
