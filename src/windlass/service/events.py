"""Event operations: follow events as they happen, or read them page by page."""

from __future__ import annotations

from typing import Literal, overload

from windlass.core.event import EventPage
from windlass.core.validation.bounds import PAGE_MAX, POSITION_MAX, QUEUE_MAX
from windlass.core.validation.values import check_boolean, check_id, check_integer, check_text
from windlass.store.events.follow import EventFollower, page_flow
from windlass.store.events.shared_follow import SharedFollower
from windlass.store.operation import Operation

from .facet import Facet


class EventOperations(Facet):
    @overload
    def follow(
        self, position: str = "", *, queue: str = "", job: bytes | None = None, shared: Literal[False] = False
    ) -> EventFollower: ...

    @overload
    def follow(
        self, position: str = "", *, queue: str = "", job: bytes | None = None, shared: Literal[True]
    ) -> SharedFollower: ...

    def follow(
        self, position: str = "", *, queue: str = "", job: bytes | None = None, shared: bool = False
    ) -> EventFollower | SharedFollower:
        """Follow events as they happen, from now or from a position: of one queue, of one job, or all. With `shared`,
        all followers of this event loop share one reader."""
        self._check(position, queue, job)
        check_boolean("shared", shared)
        return (SharedFollower if shared else EventFollower)(self.store, position, queue, job or b"")

    def events(
        self, position: str = "", *, most: int = 100, queue: str = "", job: bytes | None = None
    ) -> Operation[EventPage]:
        """Return the events since a position, without waiting. Without a position, return no events but the position to
        continue from."""
        self._check(position, queue, job)
        check_integer("most", most, 1, PAGE_MAX)
        return Operation(self.store, lambda: page_flow(self.store, position, most, queue, job or b""))

    def _check(self, position: str, queue: str, job: bytes | None) -> None:
        check_text("position", position, POSITION_MAX, may_be_empty=True)
        check_text("queue", queue, QUEUE_MAX, may_be_empty=True)
        if job is not None:
            check_id("job", job)
