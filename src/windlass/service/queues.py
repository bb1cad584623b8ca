"""Queues: their names, counts, history and properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.core.queue import Configuration, Lanes, Minute, Pause, QueueStats
from windlass.core.validation.bounds import PAGE_MAX, QUEUE_MAX
from windlass.core.validation.limits import PAUSE_REASON_MAX, check_pause, check_resume, check_weights
from windlass.core.validation.queues import HISTORY_HOURS_MAX, check_configuration, check_history_window
from windlass.core.validation.values import check_integer, check_list, check_new_name, check_text
from windlass.store.commands import lanes, limits, queues
from windlass.store.commands.command import Flow
from windlass.store.commands.limits import StoredLimits
from windlass.store.operation import Operation
from windlass.store.waiting.take import parts_of

from .facet import Facet, send, send_or_raise

OVERVIEW_MS = 1_000
PLACING = {"name_lanes", "aging_ms", "fair_share"}  # change where waiting jobs stand


class QueueOperations(Facet):
    def queues(self) -> Operation[list[str]]:
        """The names of all queues that hold something or are configured, in order."""
        return Operation(self.store, self._queues_flow)

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

    def stats(self, names: Sequence[str]) -> Operation[list[QueueStats]]:
        """Counts per state and the age of the oldest job, of some queues."""
        check_list("names", names)
        for name in names:
            check_text("queue", name, QUEUE_MAX)
        return Operation(self.store, lambda: self._stats_flow(names))

    def _stats_flow(self, names: Sequence[str]) -> Flow[list[QueueStats]]:
        found: list[QueueStats] = []
        for start in range(0, len(names), 100):
            parts = parts_of(self.store, names[start : start + 100])
            replies = yield [queues.stats(part.queues, part.partition) for part in parts]
            found += [one for reply in replies for one in reply]
        place = {name: at for at, name in enumerate(names)}
        return sorted(found, key=lambda one: place[one.queue])

    def overview(self) -> Operation[list[QueueStats]]:
        """The same of all queues, by name. An answer is remembered for a second by this process, so that many who look
        cost what one does."""
        return Operation(self.store, lambda: self.store.ttl_cache.read("overview", OVERVIEW_MS, self._overview_flow))

    def _overview_flow(self, _now_ms: int) -> Flow[list[QueueStats]]:
        return (yield from self._stats_flow((yield from self._queues_flow())))

    def history(self, queue: str, *, hours: int = 1) -> Operation[list[Minute]]:
        """What happened in a queue, minute by minute."""
        check_text("queue", queue, QUEUE_MAX)
        check_integer("hours", hours, 1, HISTORY_HOURS_MAX)
        return Operation(self.store, lambda: self._history_flow(queue, hours))

    def _history_flow(self, queue: str, hours: int) -> Flow[list[Minute]]:
        home = self.store.partition_of_queue(queue)
        found: queues.QueueHistories = yield queues.history([queue], hours * 60, home)
        return found.minutes[0]

    def histories(
        self, names: Sequence[str], *, step_minutes: int = 1, steps: int = 60
    ) -> Operation[dict[str, list[Minute]]]:
        """What happened in queues, in steps of some minutes, the last of them under way; steps without events
        are left out. What is over is remembered by this process: asked again, it costs the last minutes only."""
        check_list("names", names)
        for name in names:
            check_text("queue", name, QUEUE_MAX)
        check_history_window(step_minutes, steps)
        return Operation(self.store, lambda: self.store.history_cache.read(self.store, names, step_minutes, steps))

    def lanes(self, queue: str, *, most: int = 100, cursor: str = "") -> Operation[Lanes]:
        """One page of the lanes in which jobs wait: how many, how long, and what holds each back; by name."""
        check_text("queue", queue, QUEUE_MAX)
        check_integer("most", most, 1, PAGE_MAX)
        check_text("cursor", cursor, lanes.CURSOR_MAX, may_be_empty=True)
        lanes.check_cursor(cursor)
        return Operation(self.store, lambda: self._lanes_flow(queue, most, cursor))

    def _lanes_flow(self, queue: str, most: int, cursor: str) -> Flow[Lanes]:
        home = self.store.partition_of_queue(queue)
        known: StoredLimits = yield limits.limits(home)
        return (yield lanes.lanes(queue, cursor, most, known.table, home))  # type: ignore[no-any-return]

    def configure(self, queue: str, changes: Mapping[str, int | bool | None]) -> Operation[Configuration]:
        """Changes properties of a queue at run time and answers all of them; None is the default again."""
        (check_new_name if changes else check_text)("queue", queue, QUEUE_MAX)
        check_configuration(changes)
        return Operation(self.store, lambda: self._configure_flow(queue, changes))

    def _configure_flow(self, queue: str, changes: Mapping[str, int | bool | None]) -> Flow[Configuration]:
        home = self.store.partition_of_queue(queue)
        configuration = yield queues.configure(queue, changes, home)
        if not PLACING.isdisjoint(changes):
            while (yield queues.relane(queue, home)):
                pass
        return configuration  # type: ignore[no-any-return]

    def configuration(self, queue: str) -> Operation[Configuration]:
        """The properties of a queue."""
        return self.configure(queue, {})

    # Pauses and shares

    def pause(self, queue: str, *, lane: str = "", name: str = "", reason: str = "") -> Operation[bool]:
        """Stops the taking from a queue, or of one lane or name of it; what runs goes on. False: it was paused."""
        check_pause(queue, lane, name)
        check_text("reason", reason, PAUSE_REASON_MAX, may_be_empty=True)
        return Operation(
            self.store,
            lambda: send_or_raise(queues.pause(queue, lane, name, reason, self.store.partition_of_queue(queue))),
        )

    def resume(self, queue: str, *, lane: str = "", name: str = "") -> Operation[bool]:
        """Lets jobs be taken again, at once. False: it was not paused."""
        check_resume(queue, lane, name)
        return Operation(
            self.store, lambda: send(queues.resume(queue, lane, name, self.store.partition_of_queue(queue)))
        )

    def pauses(self, queue: str) -> Operation[list[Pause]]:
        """What is paused in a queue, since when and why."""
        check_text("queue", queue, QUEUE_MAX)
        return Operation(self.store, lambda: send(queues.pauses(queue, self.store.partition_of_queue(queue))))

    def set_weights(self, queue: str, weights: Mapping[str, int]) -> Operation[dict[str, int]]:
        """Sets the weights of lanes in a fair queue (1 to 100) and answers all that are not 1."""
        check_weights(queue, weights)
        return Operation(
            self.store, lambda: send(queues.set_weights(queue, weights, self.store.partition_of_queue(queue)))
        )
