"""queue_of: the queues of jobs."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from windlass.core.errors import AlreadyEnded, BadInput, UnknownJob
from windlass.core.job import Blob, Codec
from windlass.core.operations import Edit, Finish
from windlass.service import Service


def test_the_queue_of_each_job_in_the_order_of_the_ids(service: Service) -> None:
    large = Blob(b"x" * 100_000, Codec.RAW)
    first, second = put(service, new("q{1} ü", payload=large), new("unknown_job"))
    unknown = service.store.new_id("q")
    found = service.queue_of([second.id, unknown, first.id]).wait()
    assert (found[0], found[2]) == ("unknown_job", "q{1} ü")
    assert isinstance(found[1], UnknownJob)


def test_a_job_that_has_gone_has_no_queue(service: Service) -> None:
    put(service, new())
    (taken,) = take(service)
    service.finish([Finish(taken.id, taken.lease_token)]).wait()
    (found,) = service.queue_of([taken.id]).wait()
    assert isinstance(found, AlreadyEnded)


def test_a_job_stays_in_its_queue_whatever_is_done_to_it(service: Service) -> None:
    """Checks of access read the queue before they act: it must be the same afterwards."""
    (job,) = put(service, new("q"))
    service.edit([Edit(id=job.id, name="other", priority=7)]).wait()
    service.requeue([job.id]).wait()
    assert service.queue_of([job.id]).wait() == ["q"]
    service.delete([job.id]).wait()
    (again,) = service.enqueue([new("elsewhere", id=job.id)]).wait()
    assert again.status == "ended", "a removed id is not used for a job of another queue"


def test_what_is_no_id_is_refused(service: Service) -> None:
    with pytest.raises(BadInput):
        service.queue_of([b"short"])
