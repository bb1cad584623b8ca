"""accept: a worker accepts a dispatched job, and its lease starts."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, read, take
from windlass.core.errors import AlreadyEnded, BadInput, StaleLease, UnknownJob, WrongState
from windlass.core.operations import Finish, LeaseRef
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.service import Service


def test_accept_begins_the_lease(service: Service) -> None:
    put(service, new(lease_ms=8_000))
    (job,) = take(service, accept_ms=2_000)
    service.store.clock_offset_ms += 1_500
    deadline = service.accept([LeaseRef(job.id, job.lease_token)]).one().wait()
    running = read(service, job.id)
    assert (running.state, running.attempt, running.lease_token) == (State.RUNNING, 1, job.lease_token)
    assert running.started_at_ms is not None
    assert job.started_at_ms is not None
    assert running.started_at_ms >= job.started_at_ms + 1_500
    assert deadline == running.lease_deadline_at_ms == running.started_at_ms + 8_000
    service.store.clock_offset_ms += 2_000  # beyond the accept deadline
    assert take(service) == []


def test_the_caller_may_say_how_long(service: Service) -> None:
    put(service, new(), new())
    one, two = take(service, most=2, accept_ms=2_000)
    deadline = service.accept([LeaseRef(one.id, one.lease_token)], lease_ms=60_000).one().wait()
    started = read(service, one.id).started_at_ms
    assert started is not None
    assert deadline == started + 60_000
    assert service.accept([LeaseRef(two.id, two.lease_token)], lease_ms=FOREVER_MS).one().wait() is None
    assert read(service, two.id).lease_deadline_at_ms is None


def test_accepting_again_changes_nothing(service: Service) -> None:
    put(service, new())
    (job,) = take(service, accept_ms=2_000)
    first = service.accept([LeaseRef(job.id, job.lease_token)]).one().wait()
    service.store.clock_offset_ms += 1_000
    assert service.accept([LeaseRef(job.id, job.lease_token)]).one().wait() == first
    assert read(service, job.id).lease_deadline_at_ms == first


def test_the_holder_may_accept_without_a_token(service: Service) -> None:
    put(service, new())
    (job,) = take(service, accept_ms=2_000)
    assert service.accept([LeaseRef(job.id, 0)]).one().wait() is not None
    assert read(service, job.id).state is State.RUNNING


def test_refusals_are_per_job(service: Service) -> None:
    put(service, *(new() for _ in range(4)))
    good, late, ended, returned = take(service, most=4, accept_ms=2_000)
    service.finish([Finish(ended.id, ended.lease_token)]).wait()
    service.release([LeaseRef(returned.id, returned.lease_token)]).wait()
    answers = service.accept(
        [
            LeaseRef(good.id, good.lease_token),
            LeaseRef(late.id, late.lease_token + 100),
            LeaseRef(ended.id, ended.lease_token),
            LeaseRef(returned.id, returned.lease_token),
            LeaseRef(returned.id, 0),
            LeaseRef(service.store.new_id("q"), 1),
        ]
    ).wait()
    assert isinstance(answers[0], int)
    assert [type(one) for one in answers[1:]] == [StaleLease, AlreadyEnded, StaleLease, WrongState, UnknownJob]
    assert read(service, late.id).state is State.DISPATCHED
    assert counts(service) == {"queued": 1, "running": 2}


@pytest.mark.parametrize("lease_ms", [-1, 2**43 + 1, 1.0])
def test_bad_leases_are_refused(service: Service, lease_ms: int) -> None:
    with pytest.raises(BadInput):
        service.accept([], lease_ms=lease_ms)
