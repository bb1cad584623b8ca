"""A follower that stops and continues at random positions, shared, alone or by pages, sees the same events as one that
never stops."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.helpers import new
from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from tests.support.stores import make_store
from windlass.core.event import Event, EventKind
from windlass.core.operations import Edit, Enqueued
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
QUEUES = ("a", "b", "c", "d", "e")
LAST = "the last"


class Leg(NamedTuple):
    """A stretch between two stops."""

    way: Literal["shared", "alone", "pages"]
    most: int  # events until it stops
    away: int  # turns of the event loop before it goes on
    kills: bool  # the connections of readers, on the way


legs = st.builds(
    Leg,
    way=st.sampled_from(["shared", "shared", "alone", "pages"]),
    most=st.integers(1, 40),
    away=st.integers(0, 20),
    kills=st.sampled_from([False, False, False, True]),
)


@settings(max_examples=25)
@given(
    partitions=st.sampled_from([1, 3]),
    wish=st.sampled_from(["all", "queue", "job"]),
    journeys=st.lists(st.lists(legs, min_size=1, max_size=8), min_size=1, max_size=4),
    calls=st.lists(st.integers(1, 60), min_size=5, max_size=30),
)
def test_who_stops_and_goes_on_sees_the_same(
    engine: EngineProcess, partitions: int, wish: str, journeys: list[list[Leg]], calls: list[int]
) -> None:
    asyncio.run(_compare(make_store(engine, partitions=partitions), wish, journeys, calls))


async def _compare(store: Store, wish: str, journeys: list[list[Leg]], calls: list[int]) -> None:
    async with store, asyncio.timeout(60):
        service = Service(store)
        (job,) = await service.enqueue([new(QUEUES[0])])
        assert isinstance(job, Enqueued)
        which: dict[str, Any] = {"all": {}, "queue": {"queue": QUEUES[0]}, "job": {"job": job.id}}[wish]
        async with service.follow(shared=True, **which) as steady:
            traveller = Traveller(service, which, steady.position)
            travelling = [asyncio.ensure_future(traveller.travel(journey)) for journey in journeys]
            await _produce(service, job.id, calls)
            seen = await traveller.rest(steady, [])
            for other in await asyncio.gather(*travelling):
                assert _in_order(store, other) == _in_order(store, seen)
                assert other == seen or (wish == "all" and store.partitions > 1)


async def _produce(service: Service, job: bytes, calls: Sequence[int]) -> None:
    """The one job is put off and fetched back, among others."""
    for number, count in enumerate(calls):
        await service.enqueue([new(QUEUES[at % len(QUEUES)], f"{number} {at}") for at in range(count)])
        await service.edit([Edit(id=job, run_at_ms=1 if number % 2 else 2**46)]).one()
    await service.delete([job])
    await service.enqueue([new(queue, LAST) for queue in QUEUES])


def _in_order(store: Store, seen: list[Event]) -> list[Event]:
    """Partitions have no order among each other, so that positions over several of them are each follower's own."""
    bare = [msgspec.structs.replace(event, position="") for event in seen]
    return sorted(bare, key=lambda event: store.partition_of_job(event.job))


class Traveller:
    def __init__(self, service: Service, which: dict[str, Any], start: str) -> None:
        self._service = service
        self._which = which
        self._start = start

    async def travel(self, journey: list[Leg]) -> list[Event]:
        seen: list[Event] = []
        position = self._start
        for leg in journey:
            stretch = await self._stretch(leg, position, self._ends(seen))
            seen += stretch
            position = stretch[-1].position if stretch else position
            for _ in range(leg.away):
                await asyncio.sleep(0)
        async with self._service.follow(position, shared=True, **self._which) as following:
            return await self.rest(following, seen)

    async def rest(self, following: Any, seen: list[Event]) -> list[Event]:
        while self._ends(seen):
            seen.append(await following.next())
        return seen

    async def _stretch(self, leg: Leg, position: str, ends: int) -> list[Event]:
        if leg.way == "pages":
            return (await self._service.events(position, most=leg.most, **self._which)).events
        stretch: list[Event] = []
        is_shared: Any = leg.way == "shared"
        async with self._service.follow(position, shared=is_shared, **self._which) as following:
            while len(stretch) < leg.most and ends > self._ended(stretch):
                stretch.append(await following.next())
                if leg.kills and len(stretch) == leg.most // 2:
                    await asyncio.to_thread(_kill_readers, self._service.store)
        return stretch

    def _ends(self, seen: list[Event]) -> int:
        """How many of the last events are to come."""
        return (1 if self._which else len(QUEUES)) - self._ended(seen)

    def _ended(self, seen: list[Event]) -> int:
        if "job" in self._which:
            return sum(event.kind is EventKind.DELETED for event in seen)
        return sum(event.name == LAST for event in seen)


def _kill_readers(store: Store) -> None:
    for line in send_command(store, "CLIENT", "LIST").splitlines():
        if b"cmd=xread" in line:
            send_command(store, "CLIENT", "KILL", "ID", line.split()[0].removeprefix(b"id="))
