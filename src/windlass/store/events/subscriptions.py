"""Subscriptions to events, indexed by job and queue, so that the number of other followers costs nothing. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from windlass.core.event import Event, EventKind

from .buffer import SharedEvent

SubscriptionKey: TypeAlias = str | bytes  # a job's id, a queue's name, or "" for all events


class Follower(Protocol):
    queue: str  # empty: any queue
    job: bytes  # empty: any job

    def deliver(self, batch: Sequence[SharedEvent]) -> None: ...

    def end(self, error: Exception) -> None: ...


def is_wanted(event: Event, queue: str, job: bytes) -> bool:
    """Return whether a follower of this queue and job wants the event. All followers want a gap: they may have wanted
    the missing events."""
    return event.kind is EventKind.MISSED or (queue in ("", event.queue) and job in (b"", event.job))


class Subscriptions:
    """Followers by subscription key, in order of arrival. Dicts are used as ordered sets."""

    def __init__(self) -> None:
        self._by_key: dict[SubscriptionKey, dict[Follower, None]] = {}

    def add(self, follower: Follower) -> None:
        self._by_key.setdefault(follower.job or follower.queue, {})[follower] = None

    def remove(self, follower: Follower) -> None:
        key = follower.job or follower.queue
        followers = self._by_key.get(key, {})
        followers.pop(follower, None)
        if not followers:
            self._by_key.pop(key, None)

    def deliver(self, wanted: Mapping[SubscriptionKey, Sequence[SharedEvent]]) -> None:
        """Deliver to each follower the events of its key, a whole batch in one call."""
        for key, batch in wanted.items():
            for follower in self._by_key[key]:
                if follower.job and follower.queue:
                    follower.deliver([item for item in batch if is_wanted(item.event, follower.queue, follower.job)])
                else:
                    follower.deliver(batch)

    def keys_for(self, event: Event) -> list[SubscriptionKey]:
        """Return the keys whose followers want this event."""
        if event.kind is EventKind.MISSED:
            return list(self._by_key)
        return [key for key in ("", event.queue, event.job) if key in self._by_key]
