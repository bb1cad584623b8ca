"""Callbacks by destination: a deliverer without capacity for a destination skips all its callbacks at once, and misses
none."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.helpers import new, put, take
from tests.service.machines import invariants
from windlass.core.callbacks.callback import (
    DeliveryCapacity,
    FailedDelivery,
    LeasedCallback,
    PendingCallback,
    destination_digest,
)
from windlass.core.errors import BadInput, StaleLease, UnknownCallback, WrongState
from windlass.core.job import Blob, Callback
from windlass.core.operations import Finish
from windlass.service import Service
from windlass.store.commands.command import NodeCommand
from windlass.store.store import Store
from windlass.store.waiting.callbacks import CapacitySource


def hook(host: str) -> Callback:
    return Callback(url=f"http://{host}/path", data=Blob(b"\xff"))


def owe(service: Service, *hosts: str, **terms: Any) -> None:
    put(service, *(new(callback=hook(host), **terms) for host in hosts))
    service.finish([Finish(job.id, job.lease_token) for job in take(service, most=len(hosts))]).wait()


def taken(service: Service, most: int = 100, usual: int = 100, **of: int) -> list[PendingCallback]:
    marks = {destination_digest(hook(host)): count for host, count in of.items()}
    capacity = CapacitySource(lambda: DeliveryCapacity(most=most, per_destination=usual, by_destination=marks))
    return service.take_callbacks(capacity=capacity).wait().callbacks


def hosts(callbacks: list[PendingCallback]) -> Counter[str]:
    return Counter(pending.callback.url.split("/")[2] for pending in callbacks)


def assert_consistent(store: Store) -> None:
    root = store.root(0)
    invariants.check(invariants.snapshot(store._sync_connection, root, 0, among=f"{root}*"))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (Callback(url="http://h/a"), Callback(url="http://h:80/b?c"), True),
        (Callback(url="https://H/a"), Callback(url="https://h:443/"), True),
        (Callback(url="http://h/"), Callback(url="https://h/"), False),
        (Callback(url="http://h/"), Callback(url="http://i/"), False),
        (Callback(url="http://h:1/"), Callback(url="http://h:2/"), False),
        (Callback(type="http", destination="http://h/x"), Callback(url="http://h/"), True),
        (Callback(type="kafka", destination="h"), Callback(type="kafka", destination="i"), False),
        (Callback(type="kafka", destination="http://[h"), Callback(type="other", destination="http://[h"), False),
    ],
)
def test_what_one_destination_is(one: Callback, other: Callback, is_same: bool) -> None:
    assert (destination_digest(one) == destination_digest(other)) == is_same


def test_only_so_many_of_a_destination_are_leased(service: Service, store: Store) -> None:
    owe(service, *["dead"] * 10, "b", "c", "b")
    callbacks = taken(service, usual=2)
    assert hosts(callbacks) == {"dead": 2, "b": 2, "c": 1}
    assert all(pending.destination == destination_digest(pending.callback) for pending in callbacks)
    assert_consistent(store)
    assert hosts(taken(service, usual=2, dead=0)) == {}
    assert hosts(taken(service, most=3, usual=9, dead=5)) == {"dead": 3}
    assert hosts(taken(service)) == {"dead": 5}
    assert_consistent(store)


def test_a_destination_without_capacity_blocks_no_other(service: Service) -> None:
    owe(service, *["dead"] * 50)
    owe(service, *["dead"] * 50, "b")
    found = service.take_callbacks(
        capacity=CapacitySource(lambda: DeliveryCapacity(most=1, by_destination={destination_digest(hook("dead")): 0}))
    ).wait()
    assert hosts(found.callbacks) == {"b": 1}
    # The next instant is the end of b's lease, not the due time of a callback without capacity.
    assert found.next_due_at_ms is not None
    assert found.next_due_at_ms > service.now().wait()


def test_many_destinations_share_by_what_is_due_first(service: Service) -> None:
    owe(service, *[f"h{number}" for number in range(30)])
    assert len(hosts(taken(service, most=20))) == 20
    assert len(hosts(taken(service, most=20))) == 10


def test_a_job_that_repeats_has_its_destination_too(service: Service, store: Store) -> None:
    (answer,) = put(service, new(callback=hook("a"), repeat="FINISHED, +1 DAY"))
    service.cancel([answer.id]).one().wait()
    assert hosts(taken(service, a=0)) == {}
    assert hosts(taken(service)) == {"a": 1}
    assert_consistent(store)


def test_one_that_was_not_tried_keeps_its_attempt(service: Service, store: Store) -> None:
    owe(service, "a")
    for _ in range(3):
        (pending,) = taken(service)
        assert pending.attempt == 1
        back = FailedDelivery(id=pending.id, token=pending.token, is_unspent=True, error="not shown")
        assert service.retry_callbacks([back]).one().wait() == "owed"
        assert_consistent(store)
    assert service.callbacks().wait().callbacks[0].error == ""
    assert isinstance(service.retry_callbacks([back]).wait()[0], StaleLease)


def _given_up(service: Service, *names: str) -> list[PendingCallback]:
    owe(service, *names)
    callbacks = taken(service)
    service.retry_callbacks(
        [FailedDelivery(id=pending.id, token=pending.token, give_up=True) for pending in callbacks]
    ).wait()
    return callbacks


def test_redeliver_by_job(service: Service, store: Store) -> None:
    first, second = _given_up(service, "a", "b")
    assert service.redeliver([first.job.id]).one().wait() == "owed"
    assert_consistent(store)
    (again,) = taken(service)
    assert (again.id, again.attempt) == (first.id, 1)
    assert isinstance(service.redeliver([first.job.id]).wait()[0], UnknownCallback)  # it is pending
    assert isinstance(service.redeliver([first.id]).wait()[0], WrongState)
    assert [pending.id for pending in service.callbacks(given_up=True).wait().callbacks] == [second.id]


def test_redeliver_takes_all_that_were_given_up_of_a_job(service: Service, store: Store) -> None:
    (answer,) = put(service, new(callback=hook("a")))
    for _ in range(2):
        service.cancel([answer.id]).one().wait()
        (pending,) = taken(service)
        service.retry_callbacks([FailedDelivery(id=pending.id, token=pending.token, give_up=True)]).one().wait()
        service.retry([answer.id]).one().wait()
    service.redeliver([answer.id]).one().wait()
    assert len(taken(service)) == 2
    assert_consistent(store)


@pytest.mark.anyio
async def test_capacity_that_appears_during_a_wait(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(30):
        dead = destination_digest(hook("dead"))
        room = {dead: 0}
        capacity = CapacitySource(lambda: DeliveryCapacity(most=10, by_destination=room))
        await asyncio.to_thread(owe, service, "dead")
        waiting = asyncio.ensure_future(service.take_callbacks(capacity=capacity, wait_ms=20_000))
        while not await service.store.run(_is_registered(service)):  # noqa: ASYNC110 (the engine's news, not ours)
            await asyncio.sleep(0.002)
        assert not waiting.done()
        room[dead] = 1
        capacity.notify()
        (pending,) = (await waiting).callbacks
        await service.settle_callbacks([LeasedCallback(pending.id, pending.token)]).one()


def _is_registered(service: Service) -> Any:
    return (yield NodeCommand(("EXISTS", f"{service.store.root(0)}:waiters:\2owed"), 0))


@pytest.mark.anyio
async def test_a_wait_without_any_room_ends_when_it_is_closed(service: Service, store: Store) -> None:
    async with store, asyncio.timeout(30):
        await asyncio.to_thread(owe, service, "a")
        capacity = CapacitySource(lambda: DeliveryCapacity(most=0))
        waiting = asyncio.ensure_future(service.take_callbacks(capacity=capacity, wait_ms=20_000))
        await asyncio.sleep(0)
        capacity.close()
        assert (await waiting).callbacks == []


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "kafka"},
        {"destination": "topic"},
        {"url": "http://h/", "type": "kafka", "destination": "topic"},
        {"type": 5, "destination": "topic"},
    ],
)
def test_a_destination_that_cannot_be(service: Service, bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        service.enqueue([new(callback=Callback(**bad))])


def test_an_unknown_type_is_accepted(service: Service) -> None:
    callback = Callback(type="pigeon", destination="the old town")
    put(service, new(callback=callback))
    (job,) = take(service)
    assert job.callback == callback


def test_the_doctor_lists_callbacks_by_destination_again(service: Service, store: Store) -> None:
    _given_up(service, "c")
    owe(service, "a", "b", "b")
    root = store.root(0)
    mark = destination_digest(hook("b"))
    for command in (
        ("DEL", f"{root}:od:{mark}"),
        ("DEL", f"{root}:owed_to"),
        ("ZADD", f"{root}:owed_to", 2**47, mark),
        ("ZADD", f"{root}:od:{mark}", 5, b"g" * 22),
        ("ZADD", f"{root}:given_up_ids", 0, b"g" * 22),
    ):
        store._sync_connection.call(*command)
        while any(one.repaired for one in findings(service, repair=True).values()):
            pass
        assert_consistent(store)
    assert hosts(taken(service)) == {"a": 1, "b": 2}


def test_one_that_was_written_without_a_destination(service: Service, store: Store) -> None:
    """Written by an earlier build: the doctor lists it under an empty mark, which its taker gets too."""
    owe(service, "a", "a")
    for pending in service.callbacks().wait().callbacks:
        store._sync_connection.call("HDEL", f"{store.root(0)}:b:".encode() + pending.id, "to")
    store._sync_connection.call(
        "DEL", f"{store.root(0)}:owed_to", f"{store.root(0)}:od:{destination_digest(hook('a'))}"
    )
    assert taken(service) == []
    assert findings(service, repair=True).keys() == {"callback_not_listed"}
    (pending,) = taken(service, usual=1)
    assert pending.destination == ""
    service.settle_callbacks([LeasedCallback(pending.id, pending.token)]).one().wait()
    (other,) = taken(service)
    service.settle_callbacks([LeasedCallback(other.id, other.token)]).one().wait()
    assert_consistent(store)
