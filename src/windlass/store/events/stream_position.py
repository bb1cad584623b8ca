"""Where a follower stands: in one partition's stream, and in all of them. Without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from windlass.core.errors import BadInput
from windlass.core.event import Event, EventKind
from windlass.store.commands.events import Entry, EventPosition, StreamPage, entry_position, event_of

_PLACE = re.compile(r"(\d{1,4}):(\d{1,15})-(\d{1,15})")


class Happened(NamedTuple):
    """An event, and where its partition's follower stands behind it."""

    partition: int
    place: EventPosition
    event: Event


class Tail:
    """Reads one partition's stream in order, and notices what is missing from it."""

    def __init__(self, partition: int, place: EventPosition | None) -> None:
        self.partition = partition
        self.place = place

    @property
    def behind(self) -> str:
        """The id after which it reads."""
        return self.place.previous_id if self.place else "$"

    def registered(self, followed: StreamPage) -> list[Happened]:
        """After a registration: what was there; or that it is no longer known how this goes on from its place."""
        if self.place is None:
            self.place = followed.next_position
            return []
        found = self.read(followed.entries)
        is_lost = self.place.epoch != followed.next_position.epoch or self.place.ordinal > followed.next_position.ordinal
        if is_lost and not followed.entries:
            found.append(self._gap(followed.next_position, None, 0))
        return found

    def read(self, entries: Iterable[Entry]) -> list[Happened]:
        return [happened for entry in entries for happened in self._read_one(entry)]

    def _read_one(self, entry: Entry) -> list[Happened]:
        at, event, expected = entry_position(entry), event_of(entry), self.place or entry_position(entry)
        found = []
        if at != expected:
            # Within an epoch the ordinals tell how many; between two of them nobody followed, so nobody counted.
            count = at.ordinal - expected.ordinal if at.epoch == expected.epoch else None
            found.append(self._gap(at, count, event.at_ms))
        self.place = EventPosition(at.epoch, at.ordinal + 1)
        return [*found, Happened(self.partition, self.place, event)]

    def _gap(self, place: EventPosition, count: int | None, at_ms: int) -> Happened:
        self.place = place
        return Happened(self.partition, place, Event(kind=EventKind.MISSED, missed=count, at_ms=at_ms))


def tails(position: str, partitions: Sequence[int]) -> dict[int, Tail]:
    """One for each partition; an empty position is now."""
    if not position:
        return {partition: Tail(partition, None) for partition in partitions}
    places = _parse(position)
    if places.keys() != set(partitions):
        raise BadInput("The position is of another queue, job or deployment than what is to be followed.")
    return {partition: Tail(partition, place) for partition, place in places.items()}


def _parse(position: str) -> dict[int, EventPosition]:
    places = {}
    for part in position.split(","):
        found = _PLACE.fullmatch(part)
        if found is None or int(found[2]) == 0:
            raise BadInput("The position is not one that an event or a page gave out; start without it.")
        places[int(found[1])] = EventPosition(int(found[2]), int(found[3]))
    return places


def position_of(places: Mapping[int, EventPosition]) -> str:
    return ",".join(part_of(partition, place) for partition, place in sorted(places.items()))


def part_of(partition: int, place: EventPosition) -> str:
    """One partition's part of a position."""
    return f"{partition}:{place.epoch}-{place.ordinal}"
