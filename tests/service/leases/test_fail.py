"""fail: an attempt ends as failed, to be retried, for good, or as cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.helpers import counts, new, put, read, take
from windlass.core.errors import AlreadyEnded, BadInput, StaleLease, TooLarge, UnknownJob, WrongState
from windlass.core.job import Blob, Codec
from windlass.core.operations import Fail
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.service import Service

WORKER = bytes(range(16))
DAY_MS = 86_400_000


def test_a_retry_at_once(service: Service) -> None:
    put(service, new(payload=Blob(b"x" * 2000)))
    (job,) = take(service)
    assert service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait() == "retried"
    stored = read(service, job.id)
    assert (stored.state, stored.lease_token, stored.lease_deadline_at_ms, stored.worker) == (
        State.QUEUED, 0, None, None
    )  # fmt: skip
    (again,) = take(service)
    assert (again.id, again.attempt, again.payload) == (job.id, 2, job.payload)


def test_a_retry_goes_behind_those_that_were_ready_before(service: Service) -> None:
    first, second = put(service, new(), new())
    (job,) = take(service)
    service.store.clock_offset_ms += 5
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).wait()
    assert [one.id for one in take(service, most=2)] == [second.id, first.id]


def test_a_retry_after_a_delay(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=60_000)]).wait()
    assert counts(service) == {"scheduled": 1}
    service.store.clock_offset_ms += 59_000
    assert take(service) == []
    service.store.clock_offset_ms += 1_000
    assert take(service)[0].attempt == 2


def test_for_good(service: Service) -> None:
    put(service, new())
    (job,) = take(service, worker=WORKER)
    error = Blob(b"\x81", Codec.MSGPACK)
    answer = service.fail([Fail(id=job.id, token=job.lease_token, reason="größe", error=error)]).one().wait()
    assert answer == "failed"
    assert take(service) == []
    timeline = service.job([job.id]).one().wait()
    assert (timeline.job.state, timeline.job.attempt) == (State.FAILED, 1)
    (attempt,) = timeline.attempts
    assert (attempt.attempt, attempt.worker, attempt.reason, attempt.error) == (1, WORKER, "größe", error)
    assert attempt.started_at_ms == job.started_at_ms
    assert attempt.ended_at_ms == timeline.job.ended_at_ms
    ending = service.result(job.id).wait()
    assert ending is not None
    assert (ending.state, ending.last_attempt) == (State.FAILED, attempt)
    assert service.stats(["q"]).wait()[0].bytes == 0


def test_failed_jobs_stay_for_their_retention(service: Service) -> None:
    service.configure("kept", {"retention_ms": FOREVER_MS}).wait()
    service.configure("brief", {"retention_ms": 1_000}).wait()
    service.configure("gone", {"retention_ms": 0}).wait()
    for queue in ("q", "kept", "brief", "gone"):
        put(service, new(queue))
        (job,) = take(service, queue)
        service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    assert [counts(service, queue) for queue in ("q", "kept", "brief", "gone")] == [{"failed": 1}] * 3 + [{}]
    service.store.clock_offset_ms += 14 * DAY_MS - 1_000
    service.clean().wait()
    assert [counts(service, queue) for queue in ("q", "kept", "brief")] == [{"failed": 1}] * 2 + [{}]
    service.store.clock_offset_ms += 1_000
    service.clean().wait()
    assert [counts(service, queue) for queue in ("q", "kept")] == [{}, {"failed": 1}]


def test_a_requested_cancel_is_acknowledged(service: Service) -> None:
    put(service, new(), new())
    one, two = take(service, most=2)
    service.cancel([one.id, two.id]).wait()
    answers = service.fail(
        [
            Fail(id=one.id, token=one.lease_token, then="cancelled", reason="asked"),
            Fail(id=two.id, token=two.lease_token, then="retry"),  # no new attempt of a job with a cancel request
        ]
    ).wait()
    assert answers == ["cancelled", "cancelled"]
    assert counts(service) == {"cancelled": 2}
    assert [one.reason for one in service.job([one.id]).one().wait().attempts] == ["asked"]


def test_the_timeline_keeps_the_last_twenty_attempts(service: Service) -> None:
    put(service, new())
    for at in range(1, 26):
        (job,) = take(service)
        assert job.attempt == at
        service.fail([Fail(id=job.id, token=job.lease_token, then="retry", reason=f"r{at}")]).one().wait()
    attempts = service.job([job.id]).one().wait().attempts
    assert [(one.attempt, one.reason, one.error) for one in attempts] == [(at, f"r{at}", None) for at in range(6, 26)]


def test_refusals_change_nothing(service: Service) -> None:
    (answer,) = put(service, new())
    assert isinstance(service.fail([Fail(id=answer.id, token=0)]).wait()[0], WrongState)
    (old,) = take(service)
    service.store.clock_offset_ms += 31_000
    (job,) = take(service)
    before = service.job([job.id]).one().wait()
    for then in ("retry", "final", "cancelled"):
        with pytest.raises(StaleLease):
            service.fail([Fail(id=old.id, token=old.lease_token, then=then)]).one().wait()  # type: ignore[arg-type]
    assert service.job([job.id]).one().wait() == before
    assert service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait() == "failed"
    with pytest.raises(AlreadyEnded):
        service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    with pytest.raises(StaleLease):
        service.fail([Fail(id=job.id, token=old.lease_token)]).one().wait()
    with pytest.raises(UnknownJob):
        service.fail([Fail(id=service.store.new_id("q"), token=1)]).one().wait()
    assert len(service.job([job.id]).one().wait().attempts) == 2


def test_the_current_holder(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    assert service.fail([Fail(id=job.id, token=0, then="retry")]).one().wait() == "retried"


def test_a_dispatched_job_may_fail(service: Service) -> None:
    put(service, new())
    (job,) = take(service, accept_ms=1_000)
    assert service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait() == "failed"


def test_a_redeliverable_job_that_is_overdue_may_be_retried_by_its_holder(service: Service) -> None:
    put(service, new(retake=True, lane="l"))
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=5_000)]).one().wait()
    assert counts(service) == {"scheduled": 1}
    assert take(service) == []
    assert service.stats(["q"]).wait()[0].lanes == 0


@pytest.mark.parametrize(
    "bad",
    [{"then": "maybe"}, {"delay_ms": -1}, {"reason": ""}, {"reason": "x" * 65}, {"reason": "a\nb"}, {"token": 0.5}],
)
def test_bad_input(service: Service, bad: dict[str, Any]) -> None:
    with pytest.raises((BadInput, TooLarge)):
        service.fail([Fail(**({"id": bytes(16), "token": 1} | bad))])


def test_an_error_beyond_the_limit(service: Service) -> None:
    with pytest.raises(TooLarge):
        service.fail([Fail(id=bytes(16), token=1, error=Blob(b"x" * 16_385))])
