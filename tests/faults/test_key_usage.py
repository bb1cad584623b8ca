"""Keys of the engine are counted by kind, and no key of a job may be left after all jobs were deleted."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from faults.key_usage import delete_all_jobs, find_leaks, measure_keys
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.service import Service
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def service(store: Store) -> AsyncIterator[Service]:
    async with store:
        yield Service(store)


@pytest.fixture
def connection(store: Store) -> Iterator[SyncConnection]:
    with contextlib.closing(SyncConnection.open(store.endpoint)) as connection:
        yield connection


async def _leave_jobs(service: Service) -> None:
    """Leave a job in each state that remains when all work is done."""
    later = NewJob(queue="mail", name="later", delay_ms=3_600_000, unique="once", tags=("a",))
    new = [NewJob(queue="mail", name="send", lane=lane, result_ttl_ms=3_600_000) for lane in ("", "eu", "us")]
    await service.enqueue([*new, later])
    finished, failed, cancelled = (await service.take(Take(queues=("mail",), most=3))).jobs
    await service.finish([Finish(finished.id, finished.lease_token, result=Blob(b"1"))])
    await service.fail([Fail(id=failed.id, token=failed.lease_token, error=Blob(b"2"))])
    await service.fail([Fail(id=cancelled.id, token=cancelled.lease_token, then="cancelled")])


async def test_no_key_of_a_job_is_left_after_all_are_deleted(
    connection: SyncConnection, store: Store, service: Service
) -> None:
    await _leave_jobs(service)
    full = measure_keys(connection.call, store.namespace)
    assert {kind: full.kinds[kind].keys for kind in ("j", "a", "o", "u", "t", "scheduled")} == {
        "j": 4, "a": 2, "o": 1, "u": 1, "t": 1, "scheduled": 1,
    }  # fmt: skip
    assert full.used_memory > sum(kind.bytes for kind in full.kinds.values()) > 0
    assert len(find_leaks(full.kinds)) >= 6

    assert await delete_all_jobs(service) == 4
    assert find_leaks(measure_keys(connection.call, store.namespace).kinds) == []

    connection.call("SET", f"{store.namespace}:{{0}}:j:stray", "forgotten")
    (finding,) = find_leaks(measure_keys(connection.call, store.namespace).kinds)
    assert "1 keys of the kind j" in finding
