"""extend: heartbeat of many leases."""

from __future__ import annotations

from tests.service.helpers import counts, new, put, read, take
from windlass.core.errors import AlreadyEnded, StaleLease, UnknownJob, WrongState
from windlass.core.operations import Extended, Finish, LeaseRef
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service


def test_a_heartbeat_moves_the_deadline(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    assert job.started_at_ms is not None
    for _ in range(4):
        service.store.clock_offset_ms += 20_000
        answer = service.extend([LeaseRef(job.id, job.lease_token)]).one().wait()
        assert take(service) == []
    assert not answer.is_cancel_requested
    assert answer.deadline_at_ms is not None
    assert answer.deadline_at_ms >= job.started_at_ms + 110_000
    assert read(service, job.id).lease_deadline_at_ms == answer.deadline_at_ms
    service.store.clock_offset_ms += 31_000
    assert [again.id for again in take(service)] == [job.id]


def test_the_length_is_the_callers_or_the_jobs(service: Service) -> None:
    put(service, new(lease_ms=8_000))
    (job,) = take(service)
    assert job.started_at_ms is not None
    service.store.clock_offset_ms += 5_000
    own = service.extend([LeaseRef(job.id, job.lease_token)]).one().wait().deadline_at_ms
    asked = service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=100_000).one().wait().deadline_at_ms
    assert own is not None
    assert asked is not None
    assert 13_000 <= own - job.started_at_ms < 18_000
    assert 105_000 <= asked - job.started_at_ms < 110_000


def test_a_heartbeat_never_shortens_a_lease(service: Service) -> None:
    put(service, new())
    (job,) = take(service, lease_ms=100_000)
    answer = service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=1).one().wait()
    assert answer.deadline_at_ms == job.lease_deadline_at_ms


def test_a_lease_can_be_extended_for_ever(service: Service) -> None:
    put(service, new(), new(lease_ms=FOREVER_MS))
    one, two = take(service, most=2, lease_ms=5_000)
    assert service.extend([LeaseRef(one.id, one.lease_token)], lease_ms=FOREVER_MS).one().wait() == Extended(
        None, False
    )
    assert service.extend([LeaseRef(two.id, two.lease_token)]).one().wait() == Extended(None, False)
    service.store.clock_offset_ms += 10**12
    assert take(service) == []
    assert read(service, one.id).lease_deadline_at_ms is None
    assert counts(service) == {"running": 2}


def test_a_lease_without_a_deadline_stays_without(service: Service) -> None:
    put(service, new())
    (job,) = take(service, lease_ms=FOREVER_MS)
    assert service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=5_000).one().wait() == Extended(None, False)


def test_a_dispatch_is_not_extended(service: Service) -> None:
    put(service, new())
    (job,) = take(service, accept_ms=2_000)
    answer = service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=60_000).one().wait()
    assert answer.deadline_at_ms == job.lease_deadline_at_ms


def test_the_heartbeat_says_who_is_asked_to_stop(service: Service) -> None:
    put(service, new(), new())
    one, two = take(service, most=2)
    assert service.cancel([two.id]).one().wait() == "requested"
    answers = service.extend([LeaseRef(job.id, job.lease_token) for job in (one, two)]).wait()
    assert [one.is_cancel_requested for one in answers if isinstance(one, Extended)] == [False, True]


def test_the_heartbeat_says_which_leases_are_lost(service: Service) -> None:
    put(service, *(new(name=name) for name in ("held", "lost", "retaken", "ended")))
    held, lost, retaken, ended = take(service, most=4)
    service.finish([Finish(ended.id, ended.lease_token)]).wait()
    service.release([LeaseRef(lost.id, lost.lease_token)]).wait()
    service.requeue([retaken.id]).wait()
    lost_again, retaken_again = take(service, most=2)
    before = read(service, retaken.id)
    answers = service.extend(
        [
            LeaseRef(held.id, held.lease_token),
            LeaseRef(lost.id, lost.lease_token),
            LeaseRef(retaken.id, retaken.lease_token),
            LeaseRef(ended.id, ended.lease_token),
            LeaseRef(ended.id, 0),
            LeaseRef(service.store.new_id("q"), 7),
        ],
        lease_ms=100_000,
    ).wait()
    assert isinstance(answers[0], Extended)
    assert [type(one) for one in answers[1:]] == [StaleLease, StaleLease, AlreadyEnded, AlreadyEnded, UnknownJob]
    assert read(service, retaken.id) == before
    assert {lost_again.id, retaken_again.id} == {lost.id, retaken.id}


def test_the_current_holder(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    answer = service.extend([LeaseRef(job.id, 0)], lease_ms=100_000).one().wait()
    assert answer.deadline_at_ms != job.lease_deadline_at_ms


def test_a_queued_job_has_no_lease_to_extend(service: Service) -> None:
    (answer,) = put(service, new())
    assert isinstance(service.extend([LeaseRef(answer.id, 0)]).wait()[0], WrongState)
    assert isinstance(service.extend([LeaseRef(answer.id, 1)]).wait()[0], StaleLease)


def test_a_lease_that_ran_out_but_was_not_yet_returned_may_be_extended(service: Service) -> None:
    put(service, new(retry=Backoff(tries=1)))
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    service.extend([LeaseRef(job.id, job.lease_token)]).one().wait()
    assert take(service) == []
    assert read(service, job.id).state is State.RUNNING


def test_a_thousand_leases_in_one_call(service: Service) -> None:
    put(service, *(new() for _ in range(1200)))
    jobs = take(service, most=1000) + take(service, most=200)
    service.store.clock_offset_ms += 20_000
    service.extend([LeaseRef(job.id, job.lease_token) for job in jobs]).wait()
    service.store.clock_offset_ms += 20_000
    assert take(service, most=1000) == []
