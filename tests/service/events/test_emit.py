"""emit: values from the lease holder to the followers of a job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.helpers import new, put, read, take
from tests.support.namespace import dump_keys, list_keys
from windlass.core.errors import AlreadyEnded, BadInput, StaleLease, TooLarge, UnknownJob, WrongState
from windlass.core.event import Emit, EventKind
from windlass.core.job import Blob, Codec
from windlass.core.operations import Finish, LeaseRef
from windlass.service import Service
from windlass.store.store import Store


@pytest.mark.parametrize(
    "value", [Blob(b"1"), Blob(b""), Blob(b"\0\xff" * 8 * 1024, Codec.RAW), Blob(b"\xc0", Codec.MSGPACK)]
)
def test_a_value_arrives_as_it_was_given(service: Service, value: Blob) -> None:
    put(service, new("queue ü", "name ✓"))
    (job,) = take(service, "queue ü")
    position = service.events().wait().position
    service.emit([Emit(job.id, job.lease_token, value)]).one().wait()
    (event,) = service.events(position).wait().events
    assert (event.kind, event.job, event.value) == (EventKind.EMITTED, job.id, value)
    assert (event.queue, event.name, event.attempt) == ("queue ü", "name ✓", 1)


def test_the_job_stays_as_it_is(service: Service) -> None:
    service.events().wait()
    put(service, new())
    (job,) = take(service)
    service.emit([Emit(job.id, job.lease_token, Blob(b"1")), Emit(job.id, 0, Blob(b"2"))]).wait()
    assert read(service, job.id) == job


def test_others_may_not_emit(service: Service, store: Store) -> None:
    position = service.events().wait().position
    queued, ended, _ = put(service, new(delay_ms=60_000), new(), new())
    first, job = take(service, most=2)
    assert first.id == ended.id
    service.finish([Finish(first.id, first.lease_token)]).wait()
    service.release([LeaseRef(job.id, job.lease_token)]).wait()
    take(service)
    before = dump_keys(store)
    changes = [
        (job.id, job.lease_token), (queued.id, 0), (queued.id, 5), (service.store.new_id("q"), 0), (ended.id, 0),
    ]  # fmt: skip
    answers = service.emit([Emit(one, token, Blob(b"evil")) for one, token in changes]).wait()
    assert [type(one) for one in answers] == [StaleLease, WrongState, StaleLease, UnknownJob, AlreadyEnded]
    assert dump_keys(store) == before
    assert all(event.value is None for event in service.events(position).wait().events)


def test_nothing_is_kept_without_followers(service: Service, store: Store) -> None:
    put(service, new())
    (job,) = take(service)
    before = list_keys(store)
    assert service.emit([Emit(job.id, job.lease_token, Blob(b"1"))]).wait() == [None]
    assert list_keys(store) == before


@pytest.mark.parametrize("bad", [{"value": b"1"}, {"value": None}, {"token": -1}, {"id": b"1"}])
def test_bad_input(service: Service, bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        service.emit([Emit(**({"id": bytes(16), "token": 1, "value": Blob(b"1")} | bad))])


def test_a_value_beyond_the_limit(service: Service) -> None:
    with pytest.raises(TooLarge):
        service.emit([Emit(bytes(16), 1, Blob(b"x" * (16 * 1024 + 1)))])
