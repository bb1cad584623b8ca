"""Fast enqueue of a simple job makes the same job as the general path."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.connections import open_sync_connection
from tests.support.engine_process import EngineProcess
from tests.support.fork import run_in_fork
from windlass.core.errors import BadInput, EngineUnavailable, QueueFull, TooLarge
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.service import Service
from windlass.store.batching.random_ids import random_tail
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.store import Store

PAYLOAD = Blob(b"\x81\xa1n\x07", Codec.MSGPACK)


def template(**fields: object) -> JobTemplate:
    return JobTemplate(NewJob(queue="q", name="n", **fields))  # type: ignore[arg-type]


def queued(service: Service) -> int:
    (stats,) = service.stats(["q"]).wait()
    return stats.queued


def without_own_fields(job: Job) -> Job:
    return msgspec.structs.replace(job, id=b"", created_at_ms=0, run_at_ms=0, sequence=0)


@pytest.mark.parametrize("fields", [{}, {"priority": -3, "timeout_ms": 5_000, "tags": ("a", "b"), "trace": "t"}])
def test_the_job_equals_that_of_the_general_path(service: Service, fields: dict[str, object]) -> None:
    queued(service)
    own = template(**fields)
    fast = service.enqueue_one(PreparedJob(own, PAYLOAD)).wait()
    general = service.enqueue([PreparedJob(own, PAYLOAD)]).one().wait()
    assert (fast.status, fast.revision, fast.is_durable) == ("queued", 1, True)
    first, second = (service.job([answer.id]).one().wait().job for answer in (fast, general))
    assert without_own_fields(first) == without_own_fields(second)


def test_the_first_call_opens_the_store(service: Service) -> None:
    assert service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait().status == "queued"
    assert queued(service) == 1


def test_other_jobs_take_the_general_path(service: Service) -> None:
    queued(service)
    assert service.enqueue_one(NewJob(queue="q", name="n")).wait().status == "queued"
    assert service.enqueue_one(PreparedJob(template(delay_ms=60_000), PAYLOAD)).wait().status == "scheduled"
    first = service.enqueue_one(PreparedJob(template(unique="u"), PAYLOAD)).wait()
    again = service.enqueue_one(PreparedJob(template(unique="u"), PAYLOAD)).wait()
    assert (again.status, again.id) == ("existing", first.id)


def test_a_given_id_is_kept_and_repeating_it_is_harmless(service: Service) -> None:
    queued(service)
    job = PreparedJob(template(), PAYLOAD, service.store.new_id("q"))
    assert [service.enqueue_one(job).wait().status for _ in range(2)] == ["queued", "existing"]
    assert queued(service) == 1


def test_refusals_are_raised(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait()
    with pytest.raises(QueueFull):
        service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait()
    with pytest.raises(BadInput, match="durability"):
        service.enqueue_one(PreparedJob(template(), PAYLOAD), durability="paper").wait()  # type: ignore[arg-type]
    with pytest.raises(TooLarge):
        service.enqueue_one(PreparedJob(template(), Blob(bytes(2_000_000)))).wait()
    assert queued(service) == 1


def test_changed_limits_are_reloaded(service: Service, store: Store) -> None:
    service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait()
    other = store.clone()
    Service(other).limit(Limit(name="one", matches=Matcher(queue="q"), running=1)).wait()
    other.close_sync()
    ids = [service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait().id for _ in range(2)]
    assert [len(service.job([job_id]).one().wait().job.limits) for job_id in ids] == [1, 1]
    assert queued(service) == 3


def test_the_clock_offset_of_a_test_applies(service: Service, store: Store) -> None:
    before = service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait()
    store.clock_offset_ms = 86_400_000
    after = service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait()
    first, second = (service.job([answer.id]).one().wait().job for answer in (before, after))
    assert second.created_at_ms - first.created_at_ms >= 86_400_000


def test_an_engine_that_lost_its_functions_receives_them_again(service: Service, store: Store) -> None:
    service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait()
    with open_sync_connection(store.endpoint) as connection:  # type: ignore[arg-type]
        connection.call("FUNCTION", "FLUSH", "SYNC")
    assert service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait().status == "queued"
    assert queued(service) == 2


def test_other_operations_may_be_in_flight(service: Service) -> None:
    queued(service)
    wait = service.enqueue([NewJob(queue="q", name="n")]).start_sync()
    assert service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait().status == "queued"
    assert len(wait()) == 1
    assert queued(service) == 2


def test_after_a_lost_connection_the_job_is_enqueued_once(engine: EngineProcess, service: Service) -> None:
    service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait()
    with open_sync_connection(parse_url(engine.unix_url)) as connection:
        connection.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert service.enqueue_one(PreparedJob(template(), PAYLOAD)).wait().status == "queued"
    assert queued(service) == 2


def test_a_forked_child_uses_other_random_numbers() -> None:
    random_tail()
    of_child = run_in_fork(lambda: random_tail().hex())
    assert bytes.fromhex(of_child) != random_tail()


def test_a_problem_of_the_first_attempt_counts_against_the_patience(engine: EngineProcess) -> None:
    """Without patience, a call that meets a lost connection is not repeated."""
    with open_sync_connection(parse_url(engine.unix_url)) as control:
        connection = SyncReconnectingConnection(parse_url(engine.unix_url), patience_s=0.0)
        try:
            assert connection.call_packed(b"*1\r\n$4\r\nPING\r\n") == b"PONG"
            control.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            with pytest.raises(EngineUnavailable):
                connection.call_packed(b"*1\r\n$4\r\nPING\r\n")
            assert connection.call_packed(b"*1\r\n$4\r\nPING\r\n") == b"PONG"
        finally:
            connection.close()
