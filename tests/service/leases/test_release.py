"""release: a job is given back without work, as if it had not been taken."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, read, take
from windlass.core.errors import AlreadyEnded, StaleLease, UnknownJob, WrongState
from windlass.core.job import Blob
from windlass.core.operations import Finish, LeaseRef
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service


@pytest.mark.parametrize("lane", ["", "l"])
@pytest.mark.parametrize("accept_ms", [0, 5_000])
def test_the_attempt_and_the_place_are_given_back(service: Service, lane: str, accept_ms: int) -> None:
    ids = [one.id for one in put(service, *(new(lane=lane, payload=Blob(b"x" * 2000)) for _ in range(5)))]
    jobs = take(service, most=3, accept_ms=accept_ms, worker=bytes(range(16)))
    service.store.clock_offset_ms += 1_000
    answers = service.release([LeaseRef(job.id, job.lease_token) for job in reversed(jobs)]).wait()
    assert answers == ["queued"] * 3
    stored = read(service, ids[0])
    assert (stored.state, stored.attempt, stored.worker, stored.lease_token) == (State.QUEUED, 0, None, 0)
    again = take(service, most=5)
    assert [job.id for job in again] == ids
    assert {job.attempt for job in again} == {1}
    assert service.job([ids[0]]).one().wait().attempts == []


def test_a_job_with_one_attempt_may_be_released_for_ever(service: Service) -> None:
    put(service, new(retry=Backoff(tries=1)))
    for _ in range(5):
        (job,) = take(service)
        assert job.attempt == 1
        service.release([LeaseRef(job.id, job.lease_token)]).one().wait()


def test_a_job_that_was_asked_to_stop_is_cancelled(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.cancel([job.id]).wait()
    assert service.release([LeaseRef(job.id, job.lease_token)]).one().wait() == "cancelled"
    assert counts(service) == {"cancelled": 1}


def test_refusals(service: Service) -> None:
    put(service, new(), new())
    old, ended = take(service, most=2)
    service.finish([Finish(ended.id, ended.lease_token)]).wait()
    service.release([LeaseRef(old.id, old.lease_token)]).wait()
    waiting = service.release([LeaseRef(old.id, old.lease_token), LeaseRef(old.id, 0)]).wait()
    assert [type(one) for one in waiting] == [StaleLease, WrongState]
    (job,) = take(service)
    before = read(service, job.id)
    answers = service.release(
        [
            LeaseRef(old.id, old.lease_token),
            LeaseRef(ended.id, ended.lease_token),
            LeaseRef(service.store.new_id("q"), 1),
        ]
    ).wait()
    assert [type(one) for one in answers] == [StaleLease, AlreadyEnded, UnknownJob]
    assert read(service, job.id) == before


def test_the_current_holder(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    assert service.release([LeaseRef(job.id, 0)]).one().wait() == "queued"


def test_an_overdue_redeliverable_job_is_released_to_one_place_only(service: Service) -> None:
    put(service, new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    assert service.release([LeaseRef(job.id, job.lease_token)]).one().wait() == "queued"
    assert counts(service) == {"queued": 1}
    assert len(take(service, most=5)) == 1
    assert counts(service) == {"running": 1}
