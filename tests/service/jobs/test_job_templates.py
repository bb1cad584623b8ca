"""Jobs of one template: stored and refused like jobs without a template."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, read, take
from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Blob, Codec, Job, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Enqueued
from windlass.core.retry import Backoff
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

FORMS = {
    "bare": new(),
    "rich": new(
        priority=-3, lane="l", tags=("a", "b=c"), trace="t", retry=Backoff(5), timeout_ms=7, result_ttl_ms=9, lease_ms=8
    ),
    "repeats": new(repeat="FINISHED, +1 HOUR", hidden=True),
    "unique": new(unique="key", unique_check="none"),
}


def accepted(service: Service, *jobs: NewJob | PreparedJob) -> list[Job]:
    answers = service.enqueue(jobs).wait()
    return [read(service, answer.id) for answer in answers if isinstance(answer, Enqueued)]


def content(job: Job) -> dict[str, object]:
    apart = ("id", "sequence", "created_at_ms", "run_at_ms", "planned_at_ms")
    return {field: getattr(job, field) for field in job.__struct_fields__ if field not in apart}


@pytest.mark.parametrize("kind", FORMS)
def test_a_filled_form_is_the_job_that_it_describes(service: Service, kind: str) -> None:
    form = JobTemplate(FORMS[kind])
    payloads = [Blob(b"1"), Blob(b"\x02", Codec.MSGPACK), Blob(b"1")]
    filled = [PreparedJob(form, payload) for payload in payloads]
    by_form = accepted(service, *filled)
    alone = accepted(service, *(one.new_job() for one in filled))
    assert [content(job) for job in by_form] == [content(job) for job in alone]
    assert [job.payload for job in by_form] == payloads


def test_a_delay_of_a_form_is_counted_from_each_enqueue(service: Service) -> None:
    service.store.clock_offset_ms = 0
    form = JobTemplate(new(delay_ms=60_000))
    (first,) = accepted(service, PreparedJob(form, Blob(b"1")))
    service.store.clock_offset_ms = 3_600_000
    (second,) = accepted(service, PreparedJob(form, Blob(b"2")))
    assert second.run_at_ms - first.run_at_ms >= 3_600_000


def test_limits_look_into_each_payload(service: Service) -> None:
    service.limit(Limit(name="per-customer", matches=Matcher(queue="q"), key="customer", running=1)).wait()
    form = JobTemplate(new())
    accepted(service, *(PreparedJob(form, Blob(b'{"customer":%d}' % customer)) for customer in (1, 2, 1)))
    assert [job.payload.data for job in take(service, most=9)] == [b'{"customer":1}', b'{"customer":2}']


def test_what_is_wrong_with_a_form_or_a_payload_is_said_each_time(service: Service) -> None:
    wrong = JobTemplate(new(priority="high"))
    for _ in range(2):
        with pytest.raises(BadInput, match="priority must be a whole number"):
            service.enqueue([PreparedJob(wrong, Blob(b"1"))])
    right = JobTemplate(new())
    service.enqueue([PreparedJob(right, Blob(b"1"))]).wait()
    with pytest.raises(TooLarge, match="payload has"):
        service.enqueue([PreparedJob(right, Blob(b"1" * 2_000_000))])
    with pytest.raises(BadInput, match="payload must be a Blob"):
        service.enqueue([PreparedJob(right, b"1")])  # type: ignore[arg-type]


def test_similar_records_are_distinguished(service: Service) -> None:
    """Reading remembers what records have in common: two that differ in little must not be taken for each other."""
    one = JobTemplate(new())
    jobs = accepted(
        service,
        PreparedJob(one, Blob(b"1")),
        new(priority=1),
        new(hidden=True),
        new(repeat="FINISHED, +1 HOUR"),
        PreparedJob(one, Blob(b"2")),
    )
    assert [(job.priority, job.is_hidden, job.repeat != "", job.payload.data) for job in jobs] == [
        (0, False, False, b"1"),
        (1, False, False, b"null"),
        (0, True, False, b"null"),
        (0, False, True, b"null"),
        (0, False, False, b"2"),
    ]
    assert jobs[3].planned_at_ms == jobs[3].created_at_ms
    assert [job.planned_at_ms for job in (jobs[0], jobs[4])] == [None, None]
