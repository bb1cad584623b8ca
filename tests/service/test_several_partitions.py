"""Callbacks and events over several partitions: they are merged, and every position covers all partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.helpers import new, put
from tests.support.namespace import send_command
from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback
from windlass.core.errors import BadInput
from windlass.core.job import Callback
from windlass.service import Service
from windlass.store.store import Store

PARTITIONS = 3
QUEUES = tuple(f"q{number}" for number in range(8))
HOOK = Callback(url="http://h/")


@pytest.fixture
def divided(divided_store: Callable[[int], Store]) -> Service:
    store = divided_store(PARTITIONS)
    assert {store.partition_of_queue(queue) for queue in QUEUES} == set(range(PARTITIONS))
    return Service(store)


def test_pages_hold_events_of_all_partitions(divided: Service) -> None:
    position = divided.events().wait().position
    put(divided, *(new(queue) for queue in QUEUES))
    seen: list[str] = []
    while page := divided.events(position, most=PARTITIONS).wait():
        seen += [event.queue for event in page.events]
        position = page.position
        if not page.events:
            break
    assert sorted(seen) == sorted(QUEUES)
    with pytest.raises(BadInput, match="position"):
        divided.events(position, queue=QUEUES[0]).wait()


def test_the_doctor_looks_at_all_partitions(divided: Service) -> None:
    store = divided.store
    put(divided, *(new(queue) for queue in QUEUES))
    for partition in range(PARTITIONS):
        send_command(store, "HINCRBY", f"{store.root(partition)}:q:{QUEUES[0]}", "bytes", 1)
    diagnosis = divided.doctor(repair=True).wait()
    assert (diagnosis.jobs, diagnosis.queues) == (len(QUEUES), len(QUEUES) + PARTITIONS - 1)
    found = findings(divided)
    assert not found


@pytest.mark.anyio
async def test_a_follower_sees_all_partitions_and_goes_on_from_any_event(divided: Service) -> None:
    async with divided.follow() as following, asyncio.timeout(10):
        await divided.enqueue([new(queue) for queue in QUEUES])
        events = [await following.next() for _ in QUEUES]
    assert sorted(event.queue for event in events) == sorted(QUEUES)
    for at, event in enumerate(events[:-1]):
        rest = (await divided.events(event.position, most=500)).events
        assert {one.job for one in rest} == {one.job for one in events[at + 1 :]}
    await divided.store.close()


@pytest.mark.anyio
async def test_one_queue_is_followed_in_its_partition(divided: Service) -> None:
    async with divided.follow(queue=QUEUES[3]) as following, asyncio.timeout(10):
        await divided.enqueue([new(queue) for queue in QUEUES])
        assert (await following.next()).queue == QUEUES[3]
        assert following.position.count(":") == 1
    await divided.store.close()


def test_callbacks_are_taken_from_all_partitions(divided: Service) -> None:
    answers = put(divided, *(new(queue, callback=HOOK) for queue in QUEUES))
    divided.cancel([answer.id for answer in answers]).wait()
    page = divided.callbacks(most=5).wait()
    listed = [*page.callbacks, *divided.callbacks(most=5, cursor=page.cursor).wait().callbacks]
    assert {pending.job.queue for pending in listed} == set(QUEUES)
    callbacks = [pending for _ in range(3) for pending in divided.take_callbacks(most=3).wait().callbacks]
    assert sorted(pending.job.queue for pending in callbacks) == sorted(QUEUES)
    divided.retry_callbacks(
        [FailedDelivery(id=pending.id, token=pending.token, give_up=True) for pending in callbacks[:4]]
    ).wait()
    assert (
        divided.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in callbacks[4:]]).wait()
        == [None] * 4
    )
    assert divided.redeliver([pending.id for pending in callbacks[:4]]).wait() == ["owed"] * 4


@pytest.mark.anyio
async def test_an_end_in_any_partition_wakes_a_waiting_deliverer(divided: Service) -> None:
    answers = await divided.enqueue([new(queue, callback=HOOK) for queue in QUEUES])
    for answer in answers:
        assert not isinstance(answer, Exception)
        waiting = asyncio.ensure_future(divided.take_callbacks(wait_ms=20_000))
        await asyncio.sleep(0.05)
        await divided.cancel([answer.id]).one()
        async with asyncio.timeout(10):
            (pending,) = (await waiting).callbacks
        assert pending.job.id == answer.id
        await divided.settle_callbacks([LeasedCallback(pending.id, pending.token)]).one()
    await divided.store.close()
