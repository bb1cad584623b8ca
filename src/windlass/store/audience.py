"""Who wants to hear of an event: found by its job and its queue, however many others there are. Without I/O."""

from __future__ import annotations

from typing import Protocol

from ..core.event import Event, Happening
from .backlog import Told


class Follower(Protocol):
    queue: str  # empty: of any
    job: bytes  # empty: any

    def hear(self, told: Told) -> None: ...

    def end(self, error: Exception) -> None: ...


def is_wanted(event: Event, queue: str, job: bytes) -> bool:
    """A gap concerns everybody: what is missing may have been wanted."""
    return event.kind is Happening.MISSED or (queue in ("", event.queue) and job in (b"", event.job))


class Audience:
    """In the order in which they came; a dict for each since they also leave."""

    def __init__(self) -> None:
        self._by_wish: dict[str | bytes, dict[Follower, None]] = {}  # a job's id, a queue's name, or "" for all events

    def add(self, follower: Follower) -> None:
        self._by_wish.setdefault(follower.job or follower.queue, {})[follower] = None

    def remove(self, follower: Follower) -> None:
        wish = follower.job or follower.queue
        with_same_wish = self._by_wish.get(wish, {})
        with_same_wish.pop(follower, None)
        if not with_same_wish:
            self._by_wish.pop(wish, None)

    def wanting(self, event: Event) -> list[Follower]:
        if event.kind is Happening.MISSED:
            return [follower for followers in self._by_wish.values() for follower in followers]
        found = [*self._by_wish.get("", ()), *self._by_wish.get(event.queue, ())]
        if event.job in self._by_wish:
            found += [one for one in self._by_wish[event.job] if is_wanted(event, one.queue, one.job)]
        return found
