"""What one follower has not asked for yet: bounded, and it knows what it had to let go. Without I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from windlass.core.event import Event, EventKind
from windlass.store.commands.events import EventPosition

from .stream_position import Happened, part_of

ROOM = 2_000  # events; one with a large value counts as several, so this is some 2 MiB of values too
BYTES_PER_UNIT = 1_024


class Told:
    """An event on its way to all who want it: what they share is made once."""

    __slots__ = ("event", "forms", "goes_back", "part", "partition", "place", "weight")

    def __init__(self, happened: Happened, *, goes_back: bool = False) -> None:
        self.partition, self.place, event = happened
        self.goes_back = goes_back  # the engine has lost what came before: places behind it begin again
        self.part = part_of(self.partition, self.place)
        self.event = msgspec.structs.replace(event, position=self.part)  # right for those who follow one partition
        self.forms: dict[str, bytes] = {}  # as it was encoded for the first follower that wanted this form
        self.weight = 1 + (len(event.value.data) // BYTES_PER_UNIT if event.value else 0)


class Backlog:
    """Gives out what it was given, in order. Without room the older half goes, as the engine lets the oldest go: who is
    slow is told how many events it has missed, and sees the latest."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._told: deque[Told] = deque()
        self._weight = 0
        self._lost: dict[int, _Lost] = {}

    def __bool__(self) -> bool:
        return bool(self._told or self._lost)

    def add(self, told: Told) -> None:
        self._told.append(told)
        self._weight += told.weight
        if self._weight > self._room:
            self._make_room()

    def extend(self, batch: Sequence[Told]) -> None:
        """Add several at once: their events were read together."""
        weight = sum([told.weight for told in batch])
        if self._weight + weight > self._room:
            for told in batch:
                self.add(told)
            return
        self._told.extend(batch)
        self._weight += weight

    def take(self, most: int) -> list[Told]:
        """Give out the next ones, at most so many."""
        found: list[Told] = []
        while self._lost and len(found) < most:
            partition = next(iter(self._lost))
            found.append(self._lost.pop(partition).told(partition))
        if not found and len(self._told) <= most:
            found = list(self._told)
            self._told.clear()
            self._weight = 0
        while self._told and len(found) < most:
            found.append(self._take())
        return found

    def _take(self) -> Told:
        told = self._told.popleft()
        self._weight -= told.weight
        return told

    def _make_room(self) -> None:
        while self._weight > self._room // 2 and len(self._told) > 1:
            told = self._take()
            self._lost.setdefault(told.partition, _Lost()).add(told)


class _Lost:
    """What was let go in one partition."""

    def __init__(self) -> None:
        self._count: int | None = 0
        self._goes_back = False

    def add(self, told: Told) -> None:
        event = told.event
        count = event.missed if event.kind is EventKind.MISSED else 1
        self._count = None if self._count is None or count is None else self._count + count
        self._goes_back = self._goes_back or told.goes_back
        self._at_ms = event.at_ms
        self._place: EventPosition = told.place

    def told(self, partition: int) -> Told:
        event = Event(kind=EventKind.MISSED, missed=self._count, at_ms=self._at_ms)
        return Told(Happened(partition, self._place, event), goes_back=self._goes_back)
