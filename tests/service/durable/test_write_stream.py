"""write_stream: values that stay with their job."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import contents, sleep, start, store, suspend, take_with_steps, write
from windlass.core.errors import StaleLease
from windlass.core.operations import Fail, Finish
from windlass.service import Service


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
