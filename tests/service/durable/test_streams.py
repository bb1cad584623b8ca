"""write_stream and read_stream: values that stay with their job."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import sleep, start, store, suspend, take_with_steps
from windlass.core.durable import STREAM_KEPT_MS, StreamWrite
from windlass.core.errors import AlreadyEnded, StaleLease
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish
from windlass.core.states import State
from windlass.service import Service


def write(service: Service, job: Job, *values: bytes, sequence: int = 0, outside: int | None = None) -> int:
    blobs = tuple(Blob(value) for value in values)
    request = StreamWrite(id=job.id, token=job.lease_token, values=blobs, sequence=sequence, outside=outside)
    return service.write_stream([request]).one().wait()


def contents(service: Service, job: Job, after: int = 0) -> list[bytes | None]:
    items = service.read_stream(job.id, after=after).wait().items
    return [item.value.data if item.value else None for item in items]


def test_values_are_read_in_order_from_any_position(service: Service) -> None:
    job = start(service)
    assert write(service, job, b"1", b"2") == 2
    assert write(service, job, b"3", sequence=2) == 3
    assert contents(service, job) == [b"1", b"2", b"3"]
    page = service.read_stream(job.id, after=1, most=1).wait()
    assert [(item.position, item.value) for item in page.items] == [(2, Blob(b"2"))]
    assert not page.is_ended


def test_a_repeated_call_writes_nothing_twice(service: Service) -> None:
    job = start(service)
    write(service, job, b"1", b"2")
    assert write(service, job, b"1", b"2") == 2
    assert write(service, job, b"2", b"3", sequence=1) == 3
    assert contents(service, job) == [b"1", b"2", b"3"]


def test_a_resumed_run_writes_values_outside_of_steps_once(service: Service) -> None:
    job = start(service)
    write(service, job, b"a", outside=0)
    write(service, job, b"in a step", sequence=1)
    suspend(service, job, sleep(1_000))
    service.store.clock_offset_ms += 2_000
    (again,) = take_with_steps(service)
    write(service, again, b"a", outside=0)
    write(service, again, b"b", sequence=1, outside=1)
    assert contents(service, job) == [b"a", b"in a step", b"b"]


def test_a_new_attempt_is_marked(service: Service) -> None:
    job = start(service)
    write(service, job, b"1")
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait()
    (again,) = take_with_steps(service)
    write(service, again, b"2")
    assert contents(service, job) == [b"1", None, b"2"]
    assert [item.attempt for item in service.read_stream(job.id).wait().items] == [1, 2, 2]


def test_the_stream_stays_as_long_as_the_result(service: Service) -> None:
    job = start(service, result_ttl_ms=60_000)
    write(service, job, b"1")
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    page = service.read_stream(job.id).wait()
    assert (len(page.items), page.is_ended) == (1, True)
    service.store.clock_offset_ms += 61_000
    service.clean().wait()
    with pytest.raises(AlreadyEnded):
        service.read_stream(job.id).wait()


def test_a_stream_outlives_a_job_without_a_kept_result(service: Service) -> None:
    job, plain = start(service), start(service)
    write(service, job, b"1")
    for held in (job, plain):
        service.finish([Finish(held.id, held.lease_token)]).one().wait()
    page = service.read_stream(job.id).wait()
    assert (len(page.items), page.is_ended, page.last, page.state) == (1, True, 1, State.FINISHED)
    with pytest.raises(AlreadyEnded):
        service.read_stream(plain.id).wait()
    service.store.clock_offset_ms += STREAM_KEPT_MS + 1_000
    service.clean().wait()
    with pytest.raises(AlreadyEnded):
        service.read_stream(job.id).wait()


def test_an_old_token_writes_nothing(service: Service) -> None:
    job = start(service, lease_ms=1_000)
    service.store.clock_offset_ms += 2_000
    take_with_steps(service)
    with pytest.raises(StaleLease):
        write(service, job, b"1")


def test_a_stream_alone_does_not_need_takers_that_know_steps(service: Service) -> None:
    job = start(service)
    write(service, job, b"1")
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait()
    assert not service.job([job.id]).one().wait().job.needs_steps
    store_again = service.stats(["q"]).wait()[0]
    assert store_again.queued == 1


def test_stream_bytes_count_in_the_queue(service: Service) -> None:
    job = start(service)
    before = service.stats(["q"]).wait()[0].bytes
    write(service, job, b'"' + b"x" * 1_000 + b'"')
    store(service, job)
    assert service.stats(["q"]).wait()[0].bytes >= before + 1_000
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == 0
