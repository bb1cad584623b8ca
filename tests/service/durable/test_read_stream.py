"""read_stream: the entries of a job's stream after a position."""

from __future__ import annotations

import pytest

from tests.service.durable.builders import contents, start, write
from windlass.core.durable import STREAM_KEPT_MS
from windlass.core.errors import AlreadyEnded
from windlass.core.job import Blob
from windlass.core.operations import Finish
from windlass.core.states import State
from windlass.service import Service


def test_values_are_read_in_order_from_any_position(service: Service) -> None:
    job = start(service)
    assert write(service, job, b"1", b"2") == 2
    assert write(service, job, b"3", sequence=2) == 3
    assert contents(service, job) == [b"1", b"2", b"3"]
    page = service.read_stream(job.id, after=1, most=1).wait()
    assert [(item.position, item.value) for item in page.items] == [(2, Blob(b"2"))]
    assert not page.is_ended


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
