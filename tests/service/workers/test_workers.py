"""Workers: register, beat, forget, and the list of workers with their jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.helpers import counts, new, put, take
from tests.support.namespace import leftover_keys
from windlass.core.errors import StaleLease, UnknownWorker
from windlass.core.operations import Finish, WorkerInfo
from windlass.service import Service
from windlass.store.store import Store

A, B = b"a" * 16, b"\x00\xff" * 8
INFO = WorkerInfo(host="höst", pid=7, queues=("q", "r"), slots=3, name="w1")


def test_a_registered_worker_is_listed_as_it_described_itself(service: Service) -> None:
    now_ms = service.register(A, INFO, beat_ms=5_000).wait()
    (worker,) = service.workers().wait()
    assert (worker.id, worker.info) == (A, INFO)
    assert (worker.started_at_ms, worker.silent_at_ms) == (now_ms, now_ms + 5_000)
    assert (worker.running_count, worker.running) == (0, [])


def test_registering_again_replaces_the_description_and_keeps_the_start(service: Service) -> None:
    started_at_ms = service.register(A, INFO).wait()
    service.store.clock_offset_ms += 1_000
    service.register(A, WorkerInfo(name="w2")).wait()
    (worker,) = service.workers().wait()
    assert (worker.info.name, worker.started_at_ms) == ("w2", started_at_ms)


def test_a_beat_moves_the_instant_of_silence(service: Service) -> None:
    service.register(A, INFO, beat_ms=5_000).wait()
    before = service.workers().wait()[0].silent_at_ms
    service.store.clock_offset_ms += 4_000
    answers = service.beat([A, B]).wait()
    assert answers[0] is False
    assert isinstance(answers[1], UnknownWorker)
    assert service.workers().wait()[0].silent_at_ms >= before + 4_000
    service.store.clock_offset_ms += 4_000
    service.recover().wait()
    assert len(service.workers().wait()) == 1


def test_what_a_worker_holds_is_listed(service: Service) -> None:
    service.register(A, INFO).wait()
    service.register(B, INFO).wait()
    put(service, *(new() for _ in range(3)))
    mine = take(service, worker=A, most=2)
    take(service, worker=B)
    by_id = {worker.id: worker for worker in service.workers().wait()}
    assert {one.id for one in by_id[A].running} == {job.id for job in mine}
    assert {one.since_ms for one in by_id[A].running} == {mine[0].started_at_ms}
    assert by_id[B].running_count == 1
    service.finish([Finish(job.id, job.lease_token) for job in mine]).wait()
    assert {worker.running_count for worker in service.workers().wait() if worker.id == A} == {0}


def test_a_hundred_of_many_held_jobs_are_shown_and_all_are_counted(service: Service) -> None:
    service.register(A, INFO).wait()
    put(service, *(new() for _ in range(150)))
    take(service, worker=A, most=150)
    (worker,) = service.workers().wait()
    assert (worker.running_count, len(worker.running)) == (150, 100)


def test_pages_of_workers(service: Service) -> None:
    workers = [number.to_bytes(16, "big") for number in range(1, 26)]
    for worker in workers:
        service.register(worker, INFO).wait()
    found = [one.id for start in range(0, 30, 10) for one in service.workers(start=start, most=10).wait()]
    assert sorted(found) == workers


def test_a_worker_that_leaves_gives_back_what_it_holds_unspent(service: Service, store: Store) -> None:
    service.register(A, INFO).wait()
    jobs = put(service, *(new() for _ in range(1_200)))
    held = take(service, worker=A, most=700) + take(service, worker=A, most=500, accept_ms=5_000)
    assert len(held) == 1_200
    assert service.forget(A).wait() == 1_200
    assert service.workers().wait() == []
    assert counts(service) == {"queued": 1_200}
    again = take(service, most=1_000)
    assert [job.id for job in again] == [job.id for job in jobs[:1_000]]
    assert {job.attempt for job in again} == {1}
    with pytest.raises(StaleLease):
        service.finish([Finish(held[0].id, held[0].lease_token)]).one().wait()
    with pytest.raises(UnknownWorker):
        service.forget(A).wait()
    assert not [key for key in leftover_keys(store) if key.startswith((b"w:", b"wj:", b"workers"))]


def test_a_silent_worker_loses_what_it_holds_before_its_leases_end(service: Service) -> None:
    service.register(A, INFO, beat_ms=1_000).wait()
    jobs = put(service, new(), new(), new())
    take(service, worker=A, most=1, lease_ms=3_600_000)
    take(service, worker=A, most=1, accept_ms=3_600_000)
    service.store.clock_offset_ms += 2_000
    assert service.recover().wait().done == 2
    assert counts(service) == {"queued": 3}
    assert service.workers().wait() == []
    again = take(service, most=3)
    assert [job.id for job in again] == [job.id for job in jobs]
    assert [job.attempt for job in again] == [2, 1, 1]  # a dispatch that was not accepted is no attempt
    with pytest.raises(UnknownWorker):
        service.beat([A]).one().wait()


def test_a_silent_worker_loses_leases_without_a_deadline_too(service: Service) -> None:
    from windlass.core.queue import FOREVER_MS

    service.register(A, INFO, beat_ms=1_000).wait()
    put(service, new(), new(retake=True))
    take(service, worker=A, most=2, lease_ms=FOREVER_MS)
    service.store.clock_offset_ms += 2_000
    service.recover().wait()
    assert len(take(service, most=5)) == 2


def test_the_recoverer_is_due_when_the_next_worker_may_fall_silent(service: Service) -> None:
    now_ms = service.register(A, INFO, beat_ms=1_000).wait()
    assert service.recover().wait().next_at_ms == now_ms + 1_000


def test_many_jobs_of_a_silent_worker_come_back_in_bounded_steps(service: Service) -> None:
    service.register(A, INFO, beat_ms=1_000).wait()
    put(service, *(new() for _ in range(500)))
    take(service, worker=A, most=500, lease_ms=3_600_000)
    service.store.clock_offset_ms += 2_000
    done = [service.recover().wait().done for _ in range(3)]
    assert done == [200, 200, 100]
    assert counts(service) == {"queued": 500}
    assert service.workers().wait() == []


def test_many_overdue_redeliverable_jobs_do_not_keep_a_silent_worker_alive(service: Service) -> None:
    """They stay with the worker until they are taken: the recoverer must skip them."""
    service.register(A, INFO, beat_ms=1_000).wait()
    put(service, *(new(retake=True) for _ in range(450)))
    take(service, worker=A, most=450, lease_ms=3_600_000)
    service.store.clock_offset_ms += 2_000
    for _ in range(4):
        service.recover().wait()
    assert counts(service) == {"queued": 450, "running": 450}
    assert service.workers().wait() == []
    assert service.recover().wait().done == 0
    assert len(take(service, most=500)) == 450
    assert counts(service) == {"running": 450}


def test_a_stop_request_arrives_with_the_heartbeat(service: Service) -> None:
    service.register(A, INFO).wait()
    service.register(B, INFO).wait()
    assert service.beat([A, B]).wait() == [False, False]
    assert service.stop_worker(A).wait() is True
    assert service.stop_worker(A).wait() is False
    assert service.beat([A, B]).wait() == [True, False]
    stopping = {worker.id: worker.stopping_since_ms for worker in service.workers().wait()}
    assert stopping[A]
    assert stopping[B] is None
    service.forget(A).wait()
    with pytest.raises(UnknownWorker):
        service.stop_worker(A).wait()
    service.register(A, INFO).wait()
    assert service.beat([A]).one().wait() is False


def test_jobs_are_pushed_no_more_to_a_worker_that_is_to_end(service: Service) -> None:
    service.register(A, WorkerInfo(queues=("q",), slots=5, url="http://127.0.0.1:9")).wait()
    put(service, new(), new())
    assert len(service.dispatch(most=1, accept_ms=10_000).wait().jobs) == 1
    service.stop_worker(A).wait()
    assert service.dispatch(most=1, accept_ms=10_000).wait().jobs == []
    assert service.workers().wait()[0].running_count == 1, "what it has stays with it"


def test_a_stop_request_arrives_from_any_partition(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(3))
    service.register(A, INFO).wait()
    assert service.stop_worker(A).wait() is True
    assert service.beat([A, B]).wait()[0] is True
    assert isinstance(service.beat([A, B]).wait()[1], UnknownWorker)
