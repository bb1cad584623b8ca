"""Follow command: the events of one partition's stream since a position, and the stored form of an event."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple, TypeAlias

from windlass.core.event import Event, EventKind
from windlass.store.records.attempt import unpack_blob

from .command import Argument, Command

_EVENT = struct.Struct(">BHIII16sB")  # kind, instant in two halves, attempt, progress, job, length of queue name
Entry: TypeAlias = list[Any]  # id, [b"e", event]


class EventPosition(NamedTuple):
    """Position of the next event. Ids in the stream are <epoch>-<ordinal>, see lua/lib/events.lua."""

    epoch: int
    ordinal: int

    @property
    def previous_id(self) -> str:
        """Stream id before this position, for XREAD."""
        return f"{self.epoch}-{self.ordinal - 1}" if self.ordinal else f"{self.epoch - 1}-{2**64 - 1}"


class StreamPage(NamedTuple):
    next_position: EventPosition  # of the next event that will be written
    entries: list[Entry]


def follow(place: EventPosition | None, most: int, partition: int) -> Command[StreamPage]:
    args: list[Argument] = [*(place or ("", "")), most]
    return Command(
        "follow", args, lambda reply: StreamPage(EventPosition(reply[0], reply[1]), reply[2]), partition=partition
    )


def entry_position(entry: Entry) -> EventPosition:
    epoch, _, ordinal = entry[0].partition(b"-")
    return EventPosition(int(epoch), int(ordinal))


def event_of(entry: Entry) -> Event:
    stored: bytes = entry[1][1]
    kind, at_high, at, attempt, progress, job, queue_bytes = _EVENT.unpack_from(stored)
    name_at = _EVENT.size + queue_bytes + 2
    value_at = name_at + int.from_bytes(stored[name_at - 2 : name_at], "big")
    is_progress = kind == EventKind.PROGRESS
    return Event(
        kind=EventKind(kind),
        job=job,
        queue=stored[_EVENT.size : name_at - 2].decode(),
        name=stored[name_at:value_at].decode(),
        at_ms=at_high << 32 | at,
        attempt=attempt,
        progress=progress / 1_000_000,
        note=stored[value_at:].decode() if is_progress else "",
        value=None if is_progress else unpack_blob(stored[value_at:]),
    )
