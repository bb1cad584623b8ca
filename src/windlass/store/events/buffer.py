"""Bounded buffer of undelivered events of one follower. It counts the events that it had to drop. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from windlass.core.event import Event, EventKind
from windlass.store.commands.events import EventPosition

from .stream_position import StreamEvent, format_part

ROOM = 2_000  # events; an event with a large value counts as several, so this is also some 2 MiB of values
BYTES_PER_UNIT = 1_024


class SharedEvent:
    """An event for all its followers. They share one encoding of each form."""

    __slots__ = ("encodings", "event", "is_rewound", "next_position", "part", "partition", "weight")

    def __init__(self, stream_event: StreamEvent, *, is_rewound: bool = False) -> None:
        self.partition, self.next_position, event = stream_event
        self.is_rewound = is_rewound  # the engine lost the events before this one, and positions start again behind it
        self.part = format_part(self.partition, self.next_position)
        self.event = msgspec.structs.replace(event, position=self.part)  # right for followers of one partition
        self.encodings: dict[str, bytes] = {}  # by form; encoded for the first follower that wants the form
        self.weight = 1 + (len(event.value.data) // BYTES_PER_UNIT if event.value else 0)


class EventBuffer:
    """Events in order. A full buffer drops its older half, as the engine drops the oldest events: a slow follower gets
    the number of missed events, and then the latest events."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._events: deque[SharedEvent] = deque()
        self._weight = 0
        self._lost: dict[int, _Lost] = {}

    def __bool__(self) -> bool:
        return bool(self._events or self._lost)

    def add(self, shared_event: SharedEvent) -> None:
        self._events.append(shared_event)
        self._weight += shared_event.weight
        if self._weight > self._room:
            self._make_room()

    def extend(self, batch: Sequence[SharedEvent]) -> None:
        """Add events that were read together."""
        weight = sum([shared_event.weight for shared_event in batch])
        if self._weight + weight > self._room:
            for shared_event in batch:
                self.add(shared_event)
            return
        self._events.extend(batch)
        self._weight += weight

    def take(self, most: int) -> list[SharedEvent]:
        """Remove and return the next events, at most `most`."""
        found: list[SharedEvent] = []
        while self._lost and len(found) < most:
            partition = next(iter(self._lost))
            found.append(self._lost.pop(partition).to_event(partition))
        if not found and len(self._events) <= most:
            found = list(self._events)
            self._events.clear()
            self._weight = 0
        while self._events and len(found) < most:
            found.append(self._take())
        return found

    def _take(self) -> SharedEvent:
        shared_event = self._events.popleft()
        self._weight -= shared_event.weight
        return shared_event

    def _make_room(self) -> None:
        while self._weight > self._room // 2 and len(self._events) > 1:
            shared_event = self._take()
            self._lost.setdefault(shared_event.partition, _Lost()).add(shared_event)


class _Lost:
    """Dropped events of one partition."""

    def __init__(self) -> None:
        self._count: int | None = 0
        self._is_rewound = False

    def add(self, shared_event: SharedEvent) -> None:
        event = shared_event.event
        count = event.missed if event.kind is EventKind.MISSED else 1
        self._count = None if self._count is None or count is None else self._count + count
        self._is_rewound = self._is_rewound or shared_event.is_rewound
        self._at_ms = event.at_ms
        self._next_position: EventPosition = shared_event.next_position

    def to_event(self, partition: int) -> SharedEvent:
        event = Event(kind=EventKind.MISSED, missed=self._count, at_ms=self._at_ms)
        return SharedEvent(StreamEvent(partition, self._next_position, event), is_rewound=self._is_rewound)
