"""Who wants to hear of an event: found by its job and its queue, however many others there are. Without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from windlass.core.event import Event, EventKind

from .buffer import Told

Wish: TypeAlias = str | bytes  # a job's id, a queue's name, or "" for all events


class Follower(Protocol):
    queue: str  # empty: of any
    job: bytes  # empty: any

    def hear(self, batch: Sequence[Told]) -> None: ...

    def end(self, error: Exception) -> None: ...


def is_wanted(event: Event, queue: str, job: bytes) -> bool:
    """A gap concerns everybody: what is missing may have been wanted."""
    return event.kind is EventKind.MISSED or (queue in ("", event.queue) and job in (b"", event.job))


class Audience:
    """In the order in which they came; a dict for each since they also leave."""

    def __init__(self) -> None:
        self._by_wish: dict[Wish, dict[Follower, None]] = {}

    def add(self, follower: Follower) -> None:
        self._by_wish.setdefault(follower.job or follower.queue, {})[follower] = None

    def remove(self, follower: Follower) -> None:
        wish = follower.job or follower.queue
        with_same_wish = self._by_wish.get(wish, {})
        with_same_wish.pop(follower, None)
        if not with_same_wish:
            self._by_wish.pop(wish, None)

    def tell(self, wanted: Mapping[Wish, Sequence[Told]]) -> None:
        """Give each follower the events of its wish, all of a batch in one call."""
        for wish, batch in wanted.items():
            for follower in self._by_wish[wish]:
                if follower.job and follower.queue:
                    follower.hear([told for told in batch if is_wanted(told.event, follower.queue, follower.job)])
                else:
                    follower.hear(batch)

    def wishes_for(self, event: Event) -> list[Wish]:
        """The wishes of followers that this event answers."""
        if event.kind is EventKind.MISSED:
            return list(self._by_wish)
        return [wish for wish in ("", event.queue, event.job) if wish in self._by_wish]
