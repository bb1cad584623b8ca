"""Positions of a follower: in the event stream of one partition, and in all of them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from windlass.core.errors import BadInput
from windlass.core.event import Event, EventKind
from windlass.store.commands.events import Entry, EventPosition, StreamPage, entry_position, event_of

_PART = re.compile(r"(\d{1,4}):(\d{1,15})-(\d{1,15})")


class StreamEvent(NamedTuple):
    """An event, with the position after it in the stream of its partition."""

    partition: int
    next_position: EventPosition
    event: Event


class StreamPosition:
    """Position in the stream of one partition. Turns stream entries into events, in order, and detects gaps."""

    def __init__(self, partition: int, next_position: EventPosition | None) -> None:
        self.partition = partition
        self.next_position = next_position

    @property
    def after_id(self) -> str:
        """Stream id to read after."""
        return self.next_position.previous_id if self.next_position else "$"

    def process_page(self, page: StreamPage) -> list[StreamEvent]:
        """Return the events of a page that a registration returned. If the stream cannot continue from this position,
        return a gap."""
        if self.next_position is None:
            self.next_position = page.next_position
            return []
        found = self.process_entries(page.entries)
        here, there = self.next_position, page.next_position
        is_lost = here.epoch != there.epoch or here.ordinal > there.ordinal
        if is_lost and not page.entries:
            found.append(self._gap(page.next_position, None, 0))
        return found

    def process_entries(self, entries: Iterable[Entry]) -> list[StreamEvent]:
        return [stream_event for entry in entries for stream_event in self._process_entry(entry)]

    def _process_entry(self, entry: Entry) -> list[StreamEvent]:
        at, event, expected = entry_position(entry), event_of(entry), self.next_position or entry_position(entry)
        found = []
        if at != expected:
            # Within an epoch, the ordinals give the number of missed events. Between two epochs there was no follower,
            # so the engine did not count.
            count = at.ordinal - expected.ordinal if at.epoch == expected.epoch else None
            found.append(self._gap(at, count, event.at_ms))
        self.next_position = EventPosition(at.epoch, at.ordinal + 1)
        return [*found, StreamEvent(self.partition, self.next_position, event)]

    def _gap(self, next_position: EventPosition, count: int | None, at_ms: int) -> StreamEvent:
        self.next_position = next_position
        return StreamEvent(self.partition, next_position, Event(kind=EventKind.MISSED, missed=count, at_ms=at_ms))


def parse_positions(position: str, partitions: Sequence[int]) -> dict[int, StreamPosition]:
    """Return a stream position for each partition. An empty position means now."""
    if not position:
        return {partition: StreamPosition(partition, None) for partition in partitions}
    next_positions = _parse(position)
    if next_positions.keys() != set(partitions):
        raise BadInput("The position belongs to another queue, job or deployment than the one to follow.")
    return {partition: StreamPosition(partition, next_position) for partition, next_position in next_positions.items()}


def _parse(position: str) -> dict[int, EventPosition]:
    next_positions = {}
    for part in position.split(","):
        found = _PART.fullmatch(part)
        if found is None or int(found[2]) == 0:
            raise BadInput("The position does not come from an event or a page of events; start without it.")
        next_positions[int(found[1])] = EventPosition(int(found[2]), int(found[3]))
    return next_positions


def format_position(next_positions: Mapping[int, EventPosition]) -> str:
    return ",".join(
        format_part(partition, next_position) for partition, next_position in sorted(next_positions.items())
    )


def format_part(partition: int, next_position: EventPosition) -> str:
    """Return the part of a position that belongs to one partition."""
    return f"{partition}:{next_position.epoch}-{next_position.ordinal}"
