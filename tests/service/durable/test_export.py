"""export and import_jobs of jobs with steps, signals and streams."""

from __future__ import annotations

from msgspec.structs import replace

from tests.service.admin.doctor_findings import findings
from tests.service.durable.builders import (
    HOUR_MS,
    contents,
    send,
    sleep,
    start,
    state_of,
    store,
    suspend,
    take_with_steps,
    wait_for,
    write,
)
from tests.service.export.example_deployment import transfer
from tests.service.helpers import counts, take
from windlass.core.operations import Finish
from windlass.service import Service


def test_a_suspended_job_continues_where_it_was(service: Service, target: Service) -> None:
    job = start(service)
    store(service, job, "charge", b'{"id":7}')
    write(service, job, b"1", outside=0)
    send(service, job, "other", b"5", request_id=b"r" * 16)
    suspend(service, job, sleep(HOUR_MS), wait_for("approval", 2 * HOUR_MS))
    transfer(service, target)
    assert counts(target) == {"queued": 1}
    assert take(target) == []  # only for takers that know steps
    (again,) = take_with_steps(target)
    before, after = state_of(service, job), state_of(target, job)
    assert after.steps == before.steps
    assert after.signals == before.signals
    assert (after.suspensions, after.stream_writes, after.bytes) == (1, 1, before.bytes)
    assert contents(target, job) == [b"1"]
    assert suspend(target, again, sleep(HOUR_MS), wait_for("approval", 2 * HOUR_MS)) == "suspended"
    assert replace(state_of(target, job).steps[1]) == before.steps[1]
    assert send(target, job, "other", b"5", request_id=b"r" * 16) == "repeated"
    assert findings(target) == {}


def test_an_ended_job_keeps_its_steps_and_stream(service: Service, target: Service) -> None:
    job = start(service, result_ttl_ms=HOUR_MS)
    store(service, job)
    write(service, job, b"1", b"2")
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    transfer(service, target)
    assert state_of(target, job).steps == state_of(service, job).steps
    assert contents(target, job) == [b"1", b"2"]
    assert target.stats(["q"]).wait()[0].bytes == 0
    assert findings(target) == {}
