"""Stopped partition: takes are refused for a while; all other operations continue."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, take
from windlass.core.errors import PartitionStopped
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.store import Store


def stop(store: Store, for_ms: int) -> bool:
    def flow() -> Flow[bool]:
        return (yield maintenance.stop(for_ms, "a test", 0))  # type: ignore[no-any-return]

    return store.run_sync(flow())


def test_nothing_is_taken_from_a_stopped_partition_and_everything_else_goes_on(service: Service, store: Store) -> None:
    put(service, new(), new())
    (job,) = take(service)
    assert stop(store, 60_000)
    assert not stop(store, 60_000), "renewed"
    with pytest.raises(PartitionStopped):
        take(service)
    put(service, new())
    answer = service.finish_and_take([Finish(job.id, job.lease_token)], [], Take(queues=("q",))).wait()
    assert (answer.finished, answer.taken.jobs) == ([None], []), "an outcome is reported all the same"
    assert service.take(Take(queues=("q",), wait_ms=50)).wait().jobs == []
    assert counts(service) == {"queued": 2}


def test_it_continues_on_request_or_after_the_time(service: Service, store: Store) -> None:
    put(service, new(), new())
    assert not stop(store, 0)
    stop(store, 60_000)
    assert stop(store, 0)
    assert len(take(service)) == 1
    stop(store, 60_000)
    store.clock_offset_ms += 59_999 - 5_000
    with pytest.raises(PartitionStopped):
        take(service)
    store.clock_offset_ms += 5_001
    assert len(take(service)) == 1
