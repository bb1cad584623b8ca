"""Operations that are sent before their caller waits for the result, on a shared connection."""

from __future__ import annotations

import pytest

from tests.support.connections import open_sync_connection
from tests.support.engine_process import EngineProcess
from tests.support.fork import run_in_fork
from windlass.core.errors import Refusal
from windlass.core.job import NewJob
from windlass.core.operations import Enqueued, Finish, Take
from windlass.service import Service
from windlass.store.connection.connection import ConnectionLost, EngineReplyError
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.store import Store


def jobs(count: int = 3) -> list[NewJob]:
    return [NewJob(queue="q", name="n") for _ in range(count)]


def queued(service: Service) -> int:
    (stats,) = service.stats(["q"]).wait()
    return stats.queued


def statuses(answers: list[Enqueued | Refusal]) -> set[str]:
    return {answer.status for answer in answers if isinstance(answer, Enqueued)}


def test_replies_reach_their_senders_in_any_order(endpoint: Endpoint) -> None:
    with open_sync_connection(endpoint) as connection:
        first, second = connection.send("ECHO", 1), connection.send("ECHO", 2)
        wrong = connection.send("NONSENSE")
        assert connection.call("ECHO", 3) == b"3"
        assert connection.receive(second) == b"2"
        with pytest.raises(EngineReplyError):
            connection.receive(wrong)
        assert connection.receive(first) == b"1"
        connection.send("ECHO", "not awaited")
        assert connection.call("ECHO", 4) == b"4"


def test_commands_sent_on_a_lost_connection_fail(engine: EngineProcess) -> None:
    with open_sync_connection(parse_url(engine.url)) as connection:
        came = connection.send("ECHO", 1)
        lost = connection.send("ECHO", 2)
        assert connection.receive(came) == b"1"
        connection.close()
        with pytest.raises(ConnectionLost):
            connection.receive(lost)


def test_a_child_process_does_not_read_the_replies_of_its_parent(endpoint: Endpoint) -> None:
    with open_sync_connection(endpoint) as connection:
        sent = connection.send("ECHO", "for the parent")

        def in_child() -> str:
            try:
                return str(connection.receive(sent))
            except ConnectionLost as lost:
                return str(lost)

        assert "before a fork" in run_in_fork(in_child)
        assert connection.receive(sent) == b"for the parent"


def test_an_operation_is_sent_before_its_result_is_awaited(service: Service) -> None:
    queued(service)
    wait = service.enqueue(jobs()).start_sync()
    assert queued(service) == 3
    assert statuses(wait()) == {"queued"}
    assert queued(service) == 3


def test_an_empty_operation_has_an_empty_result(service: Service) -> None:
    assert service.enqueue([]).start_sync()() == []


def test_an_operation_that_needs_the_engine_time_reads_it_first(service: Service) -> None:
    wait = service.enqueue([NewJob(queue="q", name="n", delay_ms=60_000)]).start_sync()
    assert statuses(wait()) == {"scheduled"}


def test_an_operation_is_repeated_after_the_engine_was_away(engine: EngineProcess, service: Service) -> None:
    queued(service)
    engine.freeze()
    waits = [service.enqueue(jobs()).start_sync(), service.enqueue(jobs()).start_sync()]
    engine.kill()
    engine.start()
    assert [len(wait()) for wait in waits] == [3, 3]
    assert queued(service) == 6


def test_an_engine_that_lost_its_functions_receives_them_again(engine: EngineProcess, service: Service) -> None:
    queued(service)
    with open_sync_connection(parse_url(engine.unix_url)) as connection:
        connection.call("FUNCTION", "FLUSH", "SYNC")
    assert statuses(service.enqueue(jobs()).start_sync()()) == {"queued"}


@pytest.mark.anyio
async def test_in_an_event_loop_an_operation_is_sent_when_started(store: Store) -> None:
    store.open_sync()
    async with store.clone() as clone:
        service = Service(clone)
        await service.enqueue(jobs(4))
        taking = Take(queues=("q",), most=2)
        held = (await service.take(taking)).jobs
        answer = service.finish_and_take([Finish(job.id, job.lease_token) for job in held], [], taking).start()
        before = await service.stats(["q"])  # on the same connection, so it sees the effect of the earlier command
        assert [(stats.queued, stats.running) for stats in before] == [(0, 2)]
        assert len((await answer).taken.jobs) == 2


@pytest.mark.anyio
async def test_in_an_event_loop_an_operation_is_repeated_after_a_lost_connection(
    engine: EngineProcess, store: Store
) -> None:
    store.open_sync()
    async with store.clone() as clone:
        service = Service(clone)
        await service.enqueue(jobs(4))
        held = (await service.take(Take(queues=("q",), most=2))).jobs
        engine.freeze()
        ends = [Finish(job.id, job.lease_token) for job in held]
        answer = service.finish_and_take(ends, [], Take(queues=("q",), most=2)).start()
        engine.kill()
        engine.start()
        found = await answer
        assert [type(answer) for answer in found.finished] == [type(None)] * 2
        assert len(found.taken.jobs) == 2
