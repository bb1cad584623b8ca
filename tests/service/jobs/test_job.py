"""job: one job with its attempts."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from tests.support.namespace import dump_keys
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.job import Blob, Codec
from windlass.core.operations import Fail, Finish
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store


def test_everything_that_was_given_comes_back(service: Service) -> None:
    given = new(
        queue="q{1} ü", name="näme", payload=Blob(b"\x00\xff" * 700, Codec.RAW), priority=-(2**31), lane="l",
        unique="u", tags=("a", "bß"), trace="00-ab", retry=Backoff(4, 10, 1.5, 99, 0.2), lease_ms=1, timeout_ms=2,
        result_ttl_ms=3, run_at_ms=2**47, expires_at_ms=2**47,
    )  # fmt: skip
    (answer,) = put(service, given)
    job = service.job([answer.id]).one().wait().job
    for field in ("queue", "name", "payload", "priority", "lane", "unique", "tags", "trace", "retry", "lease_ms",
                  "timeout_ms", "result_ttl_ms", "run_at_ms", "expires_at_ms"):  # fmt: skip
        assert getattr(job, field) == getattr(given, field), field
    assert (job.state, job.attempt, job.revision, job.lease_token, job.worker) == (State.SCHEDULED, 0, 1, 0, None)
    assert job.payload_is_whole


def test_a_running_job_shows_its_holder_and_deadline(service: Service) -> None:
    put(service, new())
    (taken,) = take(service, worker=b"w" * 16, lease_ms=5_000)
    job = service.job([taken.id]).one().wait().job
    assert job == taken
    assert job.worker == b"w" * 16
    assert job.started_at_ms is not None
    assert job.lease_deadline_at_ms == job.started_at_ms + 5_000


def test_attempts_are_listed_oldest_first_the_last_twenty(service: Service) -> None:
    put(service, new())
    for number in range(23):
        (job,) = take(service, worker=b"w" * 16)
        error = Blob(str(number).encode())
        service.fail([Fail(id=job.id, token=job.lease_token, then="retry", reason=f"r{number}", error=error)]).wait()
    timeline = service.job([job.id]).one().wait()
    assert [one.attempt for one in timeline.attempts] == list(range(4, 24))
    assert [one.reason for one in timeline.attempts] == [f"r{number}" for number in range(3, 23)]
    last = timeline.attempts[-1]
    assert (last.worker, last.error) == (b"w" * 16, Blob(b"22"))
    assert last.started_at_ms is not None
    assert last.started_at_ms <= last.ended_at_ms


def test_answers_stand_in_the_order_of_the_ids(service: Service) -> None:
    first, second = put(service, new(name="a"), new(name="b"))
    unknown = service.store.new_id("q")
    answers = service.job([second.id, unknown, first.id, second.id]).wait()
    assert isinstance(answers[1], UnknownJob)
    assert [one.job.name for one in (answers[0], answers[2], answers[3])] == ["b", "a", "b"]  # type: ignore[union-attr]
    assert service.job([]).wait() == []


def test_a_job_that_is_gone_is_known_as_ended_for_ten_minutes(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    service.store.clock_offset_ms += 599_000
    with pytest.raises(AlreadyEnded):
        service.job([job.id]).one().wait()
    service.store.clock_offset_ms += 700_000
    with pytest.raises(UnknownJob):
        service.job([job.id]).one().wait()


def test_reading_changes_nothing(service: Service, store: Store) -> None:
    (job,) = put(service, new())
    before = dump_keys(store)
    service.job([job.id, service.store.new_id("q")]).wait()
    assert dump_keys(store) == before


@pytest.mark.anyio
async def test_it_can_be_awaited_too(service: Service, store: Store) -> None:
    job = await service.enqueue([new()]).one()
    assert (await service.job([job.id]).one()).job.id == job.id
    await store.close()
