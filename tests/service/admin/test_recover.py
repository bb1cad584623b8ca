"""recover: expired leases and attempts over their timeout (time_out), in order and in bounded steps."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.helpers import counts, new, put, take
from windlass.core.errors import StaleLease
from windlass.core.job import Blob, Job, Timeline
from windlass.core.operations import Finish, LeaseRef, Take
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.commands.admin import maintenance
from windlass.store.store import Store


def timeline(service: Service, job: Job) -> Timeline:
    return service.job([job.id]).one().wait()


def test_a_lease_that_ran_out_puts_the_job_back(service: Service) -> None:
    put(service, new())
    (job,) = take(service, worker=b"w" * 16)
    step = service.recover().wait()
    assert (step.done, step.next_at_ms) == (0, job.lease_deadline_at_ms)
    service.store.clock_offset_ms += 30_000
    assert service.recover().wait().done == 1
    after = timeline(service, job)
    assert (after.job.state, after.job.attempt, after.job.worker) == (State.QUEUED, 1, None)
    assert [(one.attempt, one.reason, one.worker) for one in after.attempts] == [(1, "lease_expired", b"w" * 16)]
    with pytest.raises(StaleLease):
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
    (again,) = take(service)
    assert (again.attempt, again.lease_token > job.lease_token) == (2, True)


def test_an_extended_lease_does_not_run_out(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    for _ in range(3):
        service.store.clock_offset_ms += 20_000
        service.extend([LeaseRef(job.id, job.lease_token)]).one().wait()
        assert service.recover().wait().done == 0
    service.store.clock_offset_ms += 31_000
    assert service.recover().wait().done == 1


def test_leases_return_in_order_to_the_head_of_the_queue(service: Service) -> None:
    jobs = put(service, *(new() for _ in range(6)))
    take(service, most=4)
    service.store.clock_offset_ms += 31_000
    put(service, new())
    service.recover().wait()
    assert [job.id for job in take(service, most=6)] == [job.id for job in jobs]


def test_attempts_used_up_end_in_failed(service: Service) -> None:
    put(service, new(retry=Backoff(tries=2)))
    for _ in range(2):
        (job,) = take(service)
        service.store.clock_offset_ms += 31_000
        assert service.recover().wait().done == 1
    after = timeline(service, job)
    assert after.job.state is State.FAILED
    assert [one.reason for one in after.attempts] == ["lease_expired", "lease_expired"]
    assert counts(service) == {"failed": 1}


def test_endless_tries_never_fail_by_a_lost_lease(service: Service) -> None:
    put(service, new())
    for attempt in range(1, 30):
        assert take(service)[0].attempt == attempt
        service.store.clock_offset_ms += 31_000
        service.recover().wait()
    assert counts(service) == {"queued": 1}


def test_a_dispatch_that_is_not_accepted_goes_back_unspent(service: Service) -> None:
    put(service, new(retry=Backoff(tries=1)))
    (job,) = take(service, accept_ms=1_000)
    service.store.clock_offset_ms += 1_500
    assert service.recover().wait().done == 1
    after = timeline(service, job)
    assert (after.job.state, after.job.attempt, after.attempts) == (State.QUEUED, 0, [])


def test_an_execution_timeout_is_retried_with_its_backoff(service: Service) -> None:
    put(service, new(timeout_ms=5_000, retry=Backoff(tries=3, base_ms=8_000, jitter=0.0)))
    (job,) = take(service)
    service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=60_000).one().wait()
    service.store.clock_offset_ms += 5_000
    step = service.recover().wait()
    assert step.done == 1
    after = timeline(service, job)
    assert after.job.state is State.SCHEDULED
    assert [one.reason for one in after.attempts] == ["timeout"]
    assert 0 <= after.job.run_at_ms - step.now_ms - 8_000 < 1_000
    with pytest.raises(StaleLease):
        service.finish([Finish(job.id, job.lease_token)]).one().wait()


def test_the_last_execution_timeout_ends_in_failed(service: Service) -> None:
    put(service, new(timeout_ms=5_000, retry=Backoff(tries=1), payload=Blob(b"x" * 3_000)))
    (job,) = take(service)
    service.store.clock_offset_ms += 5_000
    service.recover().wait()
    after = timeline(service, job)
    assert after.job.state is State.FAILED
    assert [one.reason for one in after.attempts] == ["timeout"]
    ending = service.result(job.id).wait()
    assert ending is not None
    assert ending.last_attempt is not None
    assert ending.last_attempt.reason == "timeout"


def test_a_timeout_comes_before_a_lease_that_ran_out_too(service: Service) -> None:
    put(service, new(timeout_ms=5_000, retry=Backoff(tries=2, jitter=0.0)))
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    assert take(service) == []  # a taker leaves it to the recoverer, which knows the backoff
    service.recover().wait()
    assert [one.reason for one in timeline(service, job).attempts] == ["timeout"]


def test_a_timeout_of_an_attempt_that_has_just_ended_changes_nothing(service: Service) -> None:
    """The recoverer's decision arrives after the job was given to the next."""
    put(service, new(timeout_ms=5_000))
    (job,) = take(service)
    service.store.clock_offset_ms += 6_000
    service.requeue([job.id]).one().wait()
    (again,) = take(service)
    call = maintenance.time_out([maintenance.TimeOut(job.id, job.lease_token, "final", 0)], 0)
    late = maintenance.time_out([maintenance.TimeOut(again.id, again.lease_token, "final", 0)], 0)

    def flow(one: object) -> object:
        return (yield one)

    for one in (call, late):
        (answer,) = service.store.run_sync(flow(one))  # type: ignore[arg-type]
        assert isinstance(answer, StaleLease)
    assert counts(service) == {"running": 1}


@pytest.mark.parametrize(
    "backoff",
    [
        Backoff(tries=0, factor=1_000.0, base_ms=2**42, cap_ms=2**42, jitter=1.0),
        Backoff(tries=0, factor=1.0, base_ms=0, cap_ms=0, jitter=0.0),
    ],
)
def test_the_recoverer_survives_any_backoff_that_a_job_may_carry(service: Service, backoff: Backoff) -> None:
    put(service, new(timeout_ms=1_000, retry=backoff))
    take(service)
    service.store.clock_offset_ms += 2_000
    assert service.recover().wait().done == 1
    assert "running" not in counts(service)


def test_an_overdue_redeliverable_job_runs_until_a_taker_takes_it(service: Service) -> None:
    put(service, new(retake=True), new(retake=True))
    first, second = take(service, most=2)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    assert counts(service) == {"queued": 2, "running": 2}
    assert timeline(service, first).job.is_overdue
    service.finish([Finish(first.id, first.lease_token)]).one().wait()
    (again,) = take(service, most=5)
    assert again.id == second.id
    with pytest.raises(StaleLease):
        service.finish([Finish(second.id, second.lease_token)]).one().wait()
    assert counts(service) == {"running": 1}


def test_many_leases_return_in_bounded_steps(service: Service) -> None:
    jobs = put(service, *(new() for _ in range(900)))
    take(service, most=900)
    service.store.clock_offset_ms += 31_000
    assert [service.recover().wait().done for _ in range(6)] == [200, 200, 200, 200, 100, 0]
    assert [job.id for job in take(service, most=900)] == [job.id for job in jobs]


def test_many_timeouts_end_in_bounded_steps(service: Service) -> None:
    put(service, *(new(timeout_ms=1_000, retry=Backoff(tries=1)) for _ in range(450)))
    take(service, most=450)
    service.store.clock_offset_ms += 2_000
    assert [service.recover().wait().done for _ in range(4)] == [200, 200, 50, 0]
    assert counts(service) == {"failed": 450}


def test_timeouts_do_not_hide_leases_that_ran_out(service: Service) -> None:
    put(service, *(new(timeout_ms=1_000) for _ in range(300)), new(queue="r"))
    take(service, most=300, lease_ms=2_000)
    take(service, "r")
    service.store.clock_offset_ms += 31_000
    total = 0
    while done := service.recover().wait().done:
        total += done
    assert total == 301
    assert counts(service, "r") == {"queued": 1}


def test_a_taker_needs_no_recoverer_for_leases(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    assert take(service)[0].id == job.id


@pytest.mark.anyio
async def test_a_job_that_comes_back_wakes_a_waiting_taker(service: Service, store: Store) -> None:
    await service.enqueue([new()]).one()
    await service.take(Take(queues=("q",)))
    # Time is moved under its registration, which must outlast that.
    waiting = asyncio.ensure_future(service.take(Take(queues=("q",), wait_ms=60_000)))
    while (await service.stats(["q"]))[0].waiting_takers == 0:  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.002)
    store.clock_offset_ms += 31_000
    assert (await service.recover()).done == 1
    assert [job.attempt for job in (await asyncio.wait_for(waiting, 20)).jobs] == [2]
    await store.close()
