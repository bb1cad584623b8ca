"""retry: failed and cancelled jobs start again."""

from __future__ import annotations

import pytest

from tests.service.helpers import another, counts, new, put, take
from windlass.core.errors import AlreadyEnded, UniqueConflict, UnknownJob, WrongState
from windlass.core.job import Blob, Job
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Fail, Finish
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service


def failed(service: Service, **kw: object) -> Job:
    put(service, new(**kw))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, error=Blob(b'"e"'))]).one().wait()
    return job


def test_a_failed_job_starts_with_a_full_set_of_attempts_and_keeps_its_past(service: Service) -> None:
    job = failed(service, retry=Backoff(tries=1), payload=Blob(b"[1]"))
    assert service.retry([job.id]).one().wait() == "queued"
    assert counts(service) == {"queued": 1}
    (again,) = take(service)
    assert (again.id, again.attempt, again.payload) == (job.id, 1, Blob(b"[1]"))
    assert again.lease_token > job.lease_token
    assert [one.reason for one in service.job([job.id]).one().wait().attempts] == ["error"]


def test_a_cancelled_job_goes_on_its_way_again(service: Service) -> None:
    (job,) = put(service, new(delay_ms=60_000))
    service.cancel([job.id]).one().wait()
    assert service.retry([job.id]).one().wait() == "queued"
    (again,) = take(service)
    assert not again.is_cancel_requested
    service.finish([Finish(again.id, again.lease_token)]).one().wait()
    assert counts(service) == {}


def test_it_goes_behind_those_that_wait(service: Service) -> None:
    job = failed(service)
    (other,) = put(service, new())
    service.store.clock_offset_ms += 5
    service.retry([job.id]).one().wait()
    assert [one.id for one in take(service, most=2)] == [other.id, job.id]


@pytest.mark.parametrize("state", ["queued", "scheduled", "running", "finished"])
def test_other_states_are_refused(service: Service, state: str) -> None:
    (job,) = put(service, new(result_ttl_ms=60_000, delay_ms=60_000 if state == "scheduled" else 0))
    if state in ("running", "finished"):
        (taken,) = take(service)
        if state == "finished":
            service.finish([Finish(taken.id, taken.lease_token)]).one().wait()
    before = service.job([job.id]).wait()
    with pytest.raises(WrongState):
        service.retry([job.id]).one().wait()
    assert service.job([job.id]).wait() == before
    assert counts(service) == {state: 1}


def test_jobs_that_are_not_there(service: Service) -> None:
    (gone,) = put(service, new())
    service.delete([gone.id]).one().wait()
    answers = service.retry([gone.id, service.store.new_id("q")]).wait()
    assert [type(one) for one in answers] == [AlreadyEnded, UnknownJob]


def test_a_unique_key_that_another_job_holds_now_is_a_conflict(service: Service) -> None:
    job = failed(service, unique="k")
    (other,) = put(service, new(unique="k"))
    with pytest.raises(UniqueConflict):
        service.retry([job.id]).one().wait()
    assert counts(service) == {"queued": 1, "failed": 1}
    service.delete([other.id]).one().wait()
    assert service.retry([job.id]).one().wait() == "queued"
    (second,) = put(service, new(unique="k"))
    assert (second.status, second.id) == ("existing", job.id)


def test_two_failed_jobs_of_one_key_in_one_call(service: Service) -> None:
    first, second = failed(service, unique="k"), failed(service, unique="k")
    answers = service.retry([first.id, second.id]).wait()
    assert answers[0] == "queued"
    assert isinstance(answers[1], UniqueConflict)


def test_a_key_held_while_kept_is_its_own(service: Service) -> None:
    job = failed(service, unique="k", unique_while_kept=True)
    assert service.retry([job.id]).one().wait() == "queued"


def test_it_is_no_longer_subject_to_its_retention(service: Service) -> None:
    job = failed(service)
    service.retry([job.id]).one().wait()
    service.store.clock_offset_ms += 15 * 86_400_000
    assert service.clean().wait().done == 0
    assert take(service)[0].id == job.id


def test_bytes_are_counted_again(service: Service) -> None:
    (before,) = service.stats(["q"]).wait()
    job = failed(service)
    assert service.stats(["q"]).wait()[0].bytes == 0
    service.retry([job.id]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes > before.bytes


def test_a_job_that_expired_can_be_retried(service: Service) -> None:
    """Its old expiry would fail it again before it could be taken."""
    (job,) = put(service, new(expires_in_ms=1_000, timeout_ms=7_000, payload=Blob(b"[2]")))
    service.store.clock_offset_ms += 2_000
    assert service.clean().wait().done == 1
    assert service.job([job.id]).one().wait().job.state is State.FAILED
    assert service.retry([job.id]).one().wait() == "queued"
    assert service.clean().wait().done == 0
    (again,) = take(service)
    assert (again.id, again.expires_at_ms, again.timeout_ms, again.payload) == (job.id, None, 7_000, Blob(b"[2]"))


def test_it_counts_against_the_limits_of_now_not_of_its_end(service: Service) -> None:
    service.limit(Limit(name="old", matches=Matcher(name="n"), running=0)).wait()
    service.unlimit("old").wait()
    jobs = [failed(service) for _ in range(2)]
    service.limit(Limit(name="one at a time", matches=Matcher(name="n"), running=1)).wait()
    assert service.retry([job.id for job in jobs]).wait() == ["queued", "queued"]
    assert len(take(service, most=2)) == 1
    service.unlimit("one at a time").wait()
    assert len(take(service, most=2)) == 1


def test_another_process_sets_a_limit_in_between(service: Service) -> None:
    jobs = [failed(service) for _ in range(2)]
    other = another(service)
    other.limit(Limit(name="one at a time", matches=Matcher(name="n"), running=1)).wait()
    other.store.close_sync()
    assert service.retry([jobs[0].id]).wait() == ["queued"]
    assert service.requeue([jobs[1].id]).wait() == ["queued"]
    assert len(take(service, most=2)) == 1
