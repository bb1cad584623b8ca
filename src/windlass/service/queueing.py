"""Queues: their names, counts, history and properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core import validation as check
from ..core.queue import Configuration, Minute, QueueStats
from ..store.asked import Asked
from ..store.calls import queues
from ..store.calls.call import Flow
from ..store.waiting import parts_of
from .asking import Asking, ask


class Queueing(Asking):
    def queues(self) -> Asked[list[str]]:
        """The names of all queues that hold something or are configured, in order."""
        return Asked(self.store, self._queues_flow)

    def _queues_flow(self) -> Flow[list[str]]:
        found: set[str] = set()
        cursors = dict.fromkeys(range(self.store.partitions), "0")
        while cursors:
            pages = yield [queues.queues(cursor, 200, home) for home, cursor in cursors.items()]
            for home, (cursor, names) in zip(list(cursors), pages, strict=True):
                found.update(names)
                cursors[home] = cursor
            cursors = {home: cursor for home, cursor in cursors.items() if cursor != "0"}
        return sorted(found)

    def stats(self, names: Sequence[str]) -> Asked[list[QueueStats]]:
        """Counts per state and the age of the oldest job, of some queues."""
        check.items("names", names)
        for name in names:
            check.text("queue", name, check.QUEUE_MAX)
        return Asked(self.store, lambda: self._stats_flow(names))

    def _stats_flow(self, names: Sequence[str]) -> Flow[list[QueueStats]]:
        found: list[QueueStats] = []
        for start in range(0, len(names), 100):
            parts = parts_of(self.store, names[start : start + 100])
            replies = yield [queues.stats(part.queues, part.partition) for part in parts]
            found += [one for reply in replies for one in reply]
        place = {name: at for at, name in enumerate(names)}
        return sorted(found, key=lambda one: place[one.queue])

    def history(self, queue: str, *, hours: int = 1) -> Asked[list[Minute]]:
        """What happened in a queue, minute by minute."""
        check.text("queue", queue, check.QUEUE_MAX)
        check.whole("hours", hours, 1, check.HISTORY_HOURS_MAX)
        return Asked(self.store, lambda: ask(queues.history(queue, hours, self.store.partition_of_queue(queue))))

    def configure(self, queue: str, changes: Mapping[str, int | bool | None]) -> Asked[Configuration]:
        """Changes properties of a queue at run time and answers all of them; None is the default again."""
        check.text("queue", queue, check.QUEUE_MAX)
        check.configuration(changes)
        return Asked(self.store, lambda: self._configure_flow(queue, changes))

    def _configure_flow(self, queue: str, changes: Mapping[str, int | bool | None]) -> Flow[Configuration]:
        home = self.store.partition_of_queue(queue)
        configuration = yield queues.configure(queue, changes, home)
        if changes.get("name_lanes"):
            while (yield queues.relane(queue, home)):
                pass
        return configuration  # type: ignore[no-any-return]

    def configuration(self, queue: str) -> Asked[Configuration]:
        """The properties of a queue."""
        return self.configure(queue, {})
