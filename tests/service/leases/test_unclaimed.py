"""beat_holding and unclaimed: leases unknown to their holder, because the answer of its take was lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.admin.doctor_findings import assert_healthy, findings
from tests.service.helpers import counts, new, put, read, take
from windlass.core.errors import BadInput, StaleLease, UnknownWorker
from windlass.core.job import Job
from windlass.core.operations import Finish, HeartbeatReply, LeaseRef, WorkerInfo
from windlass.core.queue import FOREVER_MS
from windlass.service import Service
from windlass.store.store import Store

A, B = b"a" * 16, b"b" * 16
SETTLED_MS = 2_000  # as in lua/lib/leases/reports.lua
BEAT_MS = 60_000


@pytest.fixture
def held(service: Service) -> list[Job]:
    """Three jobs of the worker A, leased without end and long enough ago to be judged."""
    service.register(A, WorkerInfo(), beat_ms=BEAT_MS).wait()
    put(service, *(new() for _ in range(3)))
    jobs = take(service, worker=A, most=3, lease_ms=FOREVER_MS)
    service.store.clock_offset_ms += SETTLED_MS
    return jobs


def lease(job: Job) -> LeaseRef:
    return LeaseRef(job.id, job.lease_token)


def beat(service: Service, *named: Job) -> list[LeaseRef]:
    """Return the unclaimed leases of a heartbeat of A with these jobs, in the order of their grants."""
    return sorted(service.beat_holding(A, [job.id for job in named]).wait().unclaimed, key=lambda one: one.token)


def test_a_heartbeat_returns_leases_that_it_does_not_name(service: Service, held: list[Job]) -> None:
    assert service.beat_holding(A, [job.id for job in held]).wait() == HeartbeatReply(False, [])
    assert beat(service, held[1]) == [lease(held[0]), lease(held[2])]
    assert beat(service) == [lease(job) for job in held]


def test_it_moves_the_instant_of_silence_and_learns_that_it_must_stop(service: Service, held: list[Job]) -> None:
    service.stop_worker(A).wait()
    service.store.clock_offset_ms += 10_000
    assert service.beat_holding(A, [job.id for job in held]).wait() == HeartbeatReply(True, [])
    assert service.beat_holding(A, []).wait().is_asked_to_stop
    (worker,) = service.workers().wait()
    assert worker.beat_at_ms >= held[0].created_at_ms + SETTLED_MS + 10_000


def test_a_worker_that_is_not_registered_is_refused(service: Service) -> None:
    with pytest.raises(UnknownWorker):
        beat(service)


def test_a_heartbeat_without_leases_returns_nothing(service: Service, held: list[Job]) -> None:
    assert service.beat([A]).wait() == [False]
    assert_healthy(service)


def test_a_lease_is_not_judged_while_its_answer_may_be_on_its_way(service: Service) -> None:
    service.register(A, WorkerInfo(), beat_ms=BEAT_MS).wait()
    put(service, new())
    (job,) = take(service, worker=A)
    assert beat(service) == []
    service.store.clock_offset_ms += SETTLED_MS
    assert beat(service) == [lease(job)]


def test_neither_dispatched_jobs_nor_ended_ones_nor_those_of_others_are_named(service: Service) -> None:
    for worker in (A, B):
        service.register(worker, WorkerInfo(), beat_ms=BEAT_MS).wait()
    put(service, *(new() for _ in range(3)))
    take(service, worker=A, accept_ms=3_600_000)
    (ended,) = take(service, worker=A)
    take(service, worker=B)
    service.store.clock_offset_ms += SETTLED_MS
    service.finish([Finish(ended.id, ended.lease_token)]).one().wait()
    assert beat(service) == []


def test_an_overdue_redeliverable_job_goes_on_by_itself(service: Service) -> None:
    service.register(A, WorkerInfo(), beat_ms=BEAT_MS).wait()
    put(service, new(retake=True))
    take(service, worker=A, lease_ms=1_000)
    service.store.clock_offset_ms += SETTLED_MS
    service.recover().wait()
    assert beat(service) == []


def test_of_many_a_hundred_are_named_at_once(service: Service) -> None:
    service.register(A, WorkerInfo(), beat_ms=BEAT_MS).wait()
    put(service, *(new() for _ in range(250)))
    jobs = take(service, worker=A, most=250)
    service.store.clock_offset_ms += SETTLED_MS
    found = beat(service, *jobs[:20])
    assert len(found) == 100
    assert not {one.id for one in found} & {job.id for job in jobs[:20]}


def test_what_is_given_back_has_spent_no_attempt_and_its_old_lease_is_stale(service: Service, held: list[Job]) -> None:
    unclaimed = beat(service)
    assert service.release(unclaimed).wait() == ["queued"] * 3
    again = take(service, most=3)
    assert [(job.id, job.attempt) for job in again] == [(job.id, 1) for job in held]
    assert isinstance(service.release(unclaimed).wait()[0], StaleLease)
    assert beat(service) == []


def test_a_holder_that_is_not_registered_is_asked_about(service: Service) -> None:
    put(service, *(new() for _ in range(2)))
    jobs = take(service, worker=A, most=2, lease_ms=FOREVER_MS)
    assert service.unclaimed([(A, [])]).wait() == []
    service.store.clock_offset_ms += SETTLED_MS
    assert service.unclaimed([(A, [jobs[0].id]), (B, [])]).wait() == [lease(jobs[1])]


def test_each_partition_compares_its_own_jobs(divided_store: Callable[[int], Store]) -> None:
    divided = Service(divided_store(3))
    queues = [f"q{number}" for number in range(8)]
    divided.register(A, WorkerInfo(), beat_ms=BEAT_MS).wait()
    put(divided, *(new(queue) for queue in queues))
    jobs = [take(divided, queue, worker=A)[0] for queue in queues]
    divided.store.clock_offset_ms += SETTLED_MS
    assert beat(divided, *jobs) == []
    named, unnamed = jobs[::2], jobs[1::2]
    found = divided.beat_holding(A, [job.id for job in named]).wait().unclaimed
    assert {one.id for one in found} == {job.id for job in unnamed}
    assert {one.id for one in divided.unclaimed([(A, [job.id for job in named])]).wait()} == {job.id for job in unnamed}


def test_what_is_no_list_of_jobs_is_refused(service: Service) -> None:
    with pytest.raises(BadInput, match="may name 10000 jobs"):
        service.beat_holding(A, [A] * 10_001)
    with pytest.raises(BadInput, match="held"):
        service.beat_holding(A, [b"short"])


# The doctor


def test_the_doctor_reports_what_two_heartbeats_did_not_name(service: Service, held: list[Job]) -> None:
    beat(service, held[0])
    assert_healthy(service)  # one heartbeat is no proof
    service.store.clock_offset_ms += 10_000
    beat(service, held[0])
    found = findings(service)["lease_unclaimed"]
    assert (found.count, found.repaired) == (2, 0)
    assert set(found.examples) == {f"job {held[1].key}", f"job {held[2].key}"}


def test_the_doctor_gives_it_back(service: Service, held: list[Job]) -> None:
    for _ in range(2):
        service.store.clock_offset_ms += 10_000
        beat(service, held[0])
    found = findings(service, repair=True)["lease_unclaimed"]
    assert (found.count, found.repaired) == (2, 2)
    assert counts(service) == {"queued": 2, "running": 1}
    assert [read(service, job.id).attempt for job in held] == [1, 0, 0]
    assert_healthy(service)


def test_what_the_worker_names_after_all_is_no_finding(service: Service, held: list[Job]) -> None:
    beat(service)
    service.store.clock_offset_ms += 10_000
    beat(service, *held)
    assert_healthy(service)


def test_a_later_lease_of_the_same_job_is_no_finding(service: Service, held: list[Job]) -> None:
    for _ in range(2):
        beat(service)
        service.store.clock_offset_ms += 10_000
    service.release([lease(job) for job in held]).wait()
    take(service, worker=A, most=3, lease_ms=FOREVER_MS)
    assert_healthy(service)


def test_of_a_silent_worker_nothing_is_said(service: Service, held: list[Job]) -> None:
    for _ in range(2):
        beat(service)
        service.store.clock_offset_ms += 10_000
    service.store.clock_offset_ms += BEAT_MS
    assert_healthy(service)
