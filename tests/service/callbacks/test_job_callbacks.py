"""job_callbacks: pending and given-up callbacks of one job."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put, take
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.job import Callback
from windlass.core.operations import Fail, Finish
from windlass.service import Service

HOSTILE = b"[a*?]\\^-x\x00\xff-][??"  # patterns would mean something


def end(service: Service, job_id: bytes = b"", **more: object) -> bytes:
    callback = Callback(url="http://receiver.test/")
    (made,) = put(service, new(id=job_id, callback=callback, **more))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    return made.id


def test_callbacks_of_one_job_are_listed(service: Service) -> None:
    mine, other = end(service), end(service)
    found = service.job_callbacks(mine).wait()
    assert found.is_all
    assert [(pending.job.id, pending.attempt) for pending in found.callbacks] == [(mine, 0)]
    assert found.callbacks[0].due_at_ms is not None
    assert service.job_callbacks(b"n" * 16).wait().callbacks == []
    taken = service.take_callbacks(most=2).wait().callbacks
    (held,) = (pending for pending in taken if pending.job.id == mine)
    service.retry_callbacks([FailedDelivery(id=held.id, token=held.token, error="refused", give_up=True)]).one().wait()
    (pending,) = service.job_callbacks(mine).wait().callbacks
    assert (pending.due_at_ms, pending.error) == (None, "refused")
    assert pending.removed_at_ms is not None
    assert len(service.job_callbacks(other).wait().callbacks) == 1


def test_each_end_of_a_job_creates_one(service: Service) -> None:
    put(service, new(callback=Callback(url="http://receiver.test/")))
    for _ in range(2):
        (job,) = take(service)
        service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
        service.retry([job.id]).one().wait()
    callbacks = service.job_callbacks(job.id).wait().callbacks
    assert [pending.job.id for pending in callbacks] == [job.id] * 2
    assert callbacks[0].id < callbacks[1].id


@pytest.mark.parametrize("many", [3, 200])
def test_an_id_is_no_pattern(service: Service, many: int) -> None:
    for _ in range(many):
        end(service)
    mine = end(service, HOSTILE)
    assert [pending.job.id for pending in service.job_callbacks(mine).wait().callbacks] == [HOSTILE]
    assert service.job_callbacks(b"?" * 16).wait().callbacks == []
