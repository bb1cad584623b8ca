"""Workers whose jobs end with a connection: connect_worker and disconnect_worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.helpers import counts, new, put, take
from windlass.core.errors import UnknownWorker
from windlass.core.operations import WorkerInfo
from windlass.core.retry import Backoff
from windlass.service import Service
from windlass.store.commands import workers
from windlass.store.store import Store

A, B = b"a" * 16, b"b" * 16


def test_jobs_run_again_and_have_spent_an_attempt(service: Service) -> None:
    service.register(A, WorkerInfo()).wait()
    put(service, new(lease_ms=600_000), new(lease_ms=600_000), new())
    held = take(service, worker=A, most=2)
    (other,) = take(service, worker=B)
    connection = service.connect_worker(A).wait()
    assert service.disconnect_worker(A, connection).wait() == 2
    assert service.workers().wait() == []
    again = take(service, most=5)
    assert {(job.id, job.attempt) for job in again} == {(job.id, 2) for job in held}
    timeline = service.job([held[0].id]).one().wait()
    assert [attempt.reason for attempt in timeline.attempts] == ["crashed"]
    assert b"WorkerDisconnected" in timeline.attempts[0].error.data  # type: ignore[union-attr]
    assert service.job([other.id]).one().wait().job.worker == B


def test_a_job_without_further_tries_fails(service: Service) -> None:
    service.register(A, WorkerInfo()).wait()
    put(service, new(retry=Backoff(tries=1)))
    (job,) = take(service, worker=A)
    service.disconnect_worker(A, service.connect_worker(A).wait()).wait()
    timeline = service.job([job.id]).one().wait()
    assert (timeline.job.state.label, timeline.attempts[-1].reason) == ("failed", "crashed")


def test_a_newer_connection_keeps_the_jobs(service: Service) -> None:
    service.register(A, WorkerInfo()).wait()
    put(service, new())
    take(service, worker=A)
    first, second = service.connect_worker(A).wait(), service.connect_worker(A).wait()
    assert service.disconnect_worker(A, first).wait() == 0
    assert counts(service) == {"running": 1}
    service.register(A, WorkerInfo(name="described again")).wait()
    assert service.disconnect_worker(A, second).wait() == 1


def test_a_worker_that_has_gone_is_left_alone(service: Service) -> None:
    with pytest.raises(UnknownWorker):
        service.connect_worker(A).wait()
    service.register(A, WorkerInfo()).wait()
    connection = service.connect_worker(A).wait()
    service.forget(A).wait()
    service.register(A, WorkerInfo()).wait()
    put(service, new())
    take(service, worker=A)
    assert service.disconnect_worker(A, connection).wait() == 0
    assert counts(service) == {"running": 1}


def test_more_jobs_than_one_call_takes_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "GIVEN_BACK_PER_CALL", 2)
    service.register(A, WorkerInfo()).wait()
    put(service, *(new() for _ in range(4)))
    take(service, worker=A, most=4)
    assert service.disconnect_worker(A, service.connect_worker(A).wait()).wait() == 4
    assert counts(service) == {"queued": 4}


def test_in_every_partition(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    service.register(A, WorkerInfo()).wait()
    for queue in "abcde":
        put(service, new(queue=queue))
        assert len(take(service, queue=queue, worker=A)) == 1
    assert service.disconnect_worker(A, service.connect_worker(A).wait()).wait() == 5
    service.store.close_sync()
