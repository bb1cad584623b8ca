"""Queue operations: names, counts, history, properties, pauses and weights."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain, islice

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.errors import QueueInUse
from windlass.core.explain.unknown_names import NameFacts, UnknownName, find_unknown_names, live_workers
from windlass.core.queue import (
    Configuration,
    Lanes,
    Minute,
    Pause,
    Property,
    QueuePage,
    QueuePresence,
    QueueStats,
    QueueSurvey,
)
from windlass.core.scale import Load, Scale, ScaleTarget, wanted_workers
from windlass.core.text.humanize import pluralize
from windlass.core.text.similar_names import suggest_name
from windlass.core.validation.bounds import NAME_MAX, PAGE_MAX, QUEUE_MAX
from windlass.core.validation.limits import PAUSE_REASON_MAX, check_pause, check_resume, check_weights
from windlass.core.validation.queues import (
    HISTORY_HOURS_MAX,
    check_configuration,
    check_history_window,
    check_scale_target,
)
from windlass.core.validation.tokens import check_queue_patterns
from windlass.core.validation.values import check_boolean, check_integer, check_list, check_new_name, check_text
from windlass.store.cache.queue_survey import BUSY_MAX
from windlass.store.commands import explain, lanes, limits, queues
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.commands.limits import StoredLimits
from windlass.store.operation import Operation
from windlass.store.waiting.take import group_by_partition

from .facet import Facet, send, send_or_raise

OVERVIEW_MS = 1_000
UNKNOWN_NAMES_MS = 5_000
QUEUE_NAMES_MS = 5_000  # for suggestions, and where there are many queues
MANY_QUEUES = 2_000
NAMES_PER_CALL = 1_000  # about
PLACING = {"name_lanes", "aging_ms", "fair_share"}  # properties that change the place of waiting jobs


class QueueOperations(Facet):
    def queues(self) -> Operation[list[str]]:
        """Return the sorted names of all queues that have jobs or are configured. With more than 2,000 queues, this
        process caches them for 5 seconds."""
        return Operation(self.store, self._queues_flow)

    def _queues_flow(self) -> Flow[list[str]]:
        return (
            yield from self.store.ttl_cache.read(
                "queues", QUEUE_NAMES_MS, lambda _: self._scan_queues_flow(), lambda names: len(names) > MANY_QUEUES
            )
        )

    def _scan_queues_flow(self) -> Flow[list[str]]:
        found: set[str] = set()
        cursors = dict.fromkeys(range(self.store.partitions), "0")
        while cursors:
            pages = yield [queues.queues(cursor, NAMES_PER_CALL, partition) for partition, cursor in cursors.items()]
            for partition, (cursor, names) in zip(list(cursors), pages, strict=True):
                found.update(names)
                cursors[partition] = cursor
            cursors = {partition: cursor for partition, cursor in cursors.items() if cursor != "0"}
        return sorted(found)

    def stats(self, names: Sequence[str]) -> Operation[list[QueueStats]]:
        """Return the counts per state and the age of the oldest job of some queues."""
        check_list("names", names)
        for name in names:
            check_text("queue", name, QUEUE_MAX)
        return Operation(self.store, lambda: self._stats_flow(names))

    def _stats_flow(self, names: Sequence[str]) -> Flow[list[QueueStats]]:
        found: list[QueueStats] = []
        for start in range(0, len(names), 100):
            parts = group_by_partition(self.store, names[start : start + 100])
            replies = yield [queues.stats(part.queues, part.partition) for part in parts]
            found += [stats for reply in replies for stats in reply]
        place = {name: at for at, name in enumerate(names)}
        return sorted(found, key=lambda stats: place[stats.queue])

    def scale(self, queue: str, goal: ScaleTarget = ScaleTarget()) -> Operation[Scale]:  # noqa: B008 (it is frozen)
        """Return how many workers a queue needs now. A paused queue has no backlog; running jobs keep their workers."""
        check_text("queue", queue, QUEUE_MAX)
        check_scale_target(goal)
        return Operation(self.store, lambda: self._scale_flow(queue, goal))

    def _scale_flow(self, queue: str, goal: ScaleTarget) -> Flow[Scale]:
        [stats] = yield from self._stats_flow([queue])
        load = Load(
            queued=0 if stats.is_paused else stats.queued,
            oldest_age_ms=0 if stats.is_paused else stats.oldest_age_ms or 0,
            running=stats.running,
        )
        return Scale(
            queue=queue,
            workers=wanted_workers(load, goal),
            backlog=load.queued,
            running=load.running,
            oldest_age_ms=load.oldest_age_ms,
            is_paused=stats.is_paused,
        )

    def overview(self) -> Operation[list[QueueStats]]:
        """Return the statistics of all queues, by name. This process caches an answer for one second, so many readers
        cost as much as one. With very many queues this takes seconds; see `survey`."""
        return Operation(self.store, lambda: self.store.ttl_cache.read("overview", OVERVIEW_MS, self._overview_flow))

    def _overview_flow(self, _now_ms: int) -> Flow[list[QueueStats]]:
        return (yield from self._stats_flow((yield from self._queues_flow())))

    def queues_page(self, *, after: str = "", most: int = 100, queues: tuple[str, ...] = ()) -> Operation[QueuePage]:
        """Return a page of queues by name, after the name `after`: those that match these patterns (none: all)."""
        check_text("after", after, QUEUE_MAX, may_be_empty=True)
        check_integer("most", most, 1, PAGE_MAX)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._queues_page_flow(after, most, queues))

    def _queues_page_flow(self, after: str, most: int, patterns: tuple[str, ...]) -> Flow[QueuePage]:
        names: Sequence[str] = yield from self._queues_flow()
        start = bisect_right(names, after)
        following = (name for name in islice(names, start, None) if is_queue_allowed(name, patterns))
        page = list(islice(following, most + 1))
        shown = page[:most]
        return QueuePage(stats=(yield from self._stats_flow(shown)), after=shown[-1] if len(page) > most else "")

    def survey(self, queues: tuple[str, ...] = ()) -> Operation[QueueSurvey]:
        """Return the statistics of all queues that match these patterns (none: all), for pages over many queues.

        With more than 1,000 queues this process keeps what it has read for some seconds. Of more than 2,000, a server
        reads 2,000 a time: those with running jobs, the busiest, and the others in turns."""
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._survey_flow(queues))

    def _survey_flow(self, patterns: tuple[str, ...]) -> Flow[QueueSurvey]:
        survey = self.store.queue_surveys.of(patterns)
        survey.set_names((yield from self._queues_flow()))
        now_ms: int = yield EngineTime()
        if survey.needs_read(now_ms):
            busy: list[list[str]] = []
            if survey.is_in_turns:
                busy = yield [queues.busy_queues(BUSY_MAX, partition) for partition in range(self.store.partitions)]
            chosen = survey.choose(chain.from_iterable(busy), now_ms)
            survey.add((yield from self._stats_flow(chosen)))
        return survey.result()

    def history(self, queue: str, *, hours: int = 1) -> Operation[list[Minute]]:
        """Return the history of a queue, minute by minute."""
        check_text("queue", queue, QUEUE_MAX)
        check_integer("hours", hours, 1, HISTORY_HOURS_MAX)
        return Operation(self.store, lambda: self._history_flow(queue, hours))

    def _history_flow(self, queue: str, hours: int) -> Flow[list[Minute]]:
        partition = self.store.partition_of_queue(queue)
        found: queues.QueueHistories = yield queues.history([queue], hours * 60, partition)
        return found.minutes[0]

    def histories(
        self, names: Sequence[str], *, step_minutes: int = 1, steps: int = 60
    ) -> Operation[dict[str, list[Minute]]]:
        """Return the history of queues in steps of some minutes; the last step is incomplete, and steps without events
        are left out. This process caches past steps: a repeated call reads the last minutes only."""
        check_list("names", names)
        for name in names:
            check_text("queue", name, QUEUE_MAX)
        check_history_window(step_minutes, steps)
        return Operation(self.store, lambda: self.store.history_cache.read(self.store, names, step_minutes, steps))

    def lanes(self, queue: str, *, most: int = 100, cursor: str = "") -> Operation[Lanes]:
        """Return one page of lanes with waiting jobs, by name: how many wait, how long, and what blocks the lane."""
        check_text("queue", queue, QUEUE_MAX)
        check_integer("most", most, 1, PAGE_MAX)
        check_text("cursor", cursor, lanes.CURSOR_MAX, may_be_empty=True)
        lanes.check_cursor(cursor)
        return Operation(self.store, lambda: self._lanes_flow(queue, most, cursor))

    def _lanes_flow(self, queue: str, most: int, cursor: str) -> Flow[Lanes]:
        partition = self.store.partition_of_queue(queue)
        known: StoredLimits = yield limits.limits(partition)
        return (yield lanes.lanes(queue, cursor, most, known.table, partition))  # type: ignore[no-any-return]

    def unknown_names(self, queue: str) -> Operation[list[UnknownName]]:
        """Return names of queued jobs that no worker of the queue knows, at most 20. Only the first jobs and lanes are
        examined, in one bounded read. This process caches an answer for 5 seconds."""
        check_text("queue", queue, QUEUE_MAX)
        key = ("unknown_names", queue)
        return Operation(
            self.store,
            lambda: self.store.ttl_cache.read(key, UNKNOWN_NAMES_MS, lambda _: self._unknown_names_flow(queue, ())),
        )

    def unknown_among(self, queue: str, names: Sequence[str]) -> Operation[list[UnknownName]]:
        """Return those of at most 100 names that no worker of the queue knows."""
        check_text("queue", queue, QUEUE_MAX)
        check_list("names", names)
        check_integer("number of names", len(names), 1, explain.NAMES_LOOKED_AT)
        for name in names:
            check_text("name", name, NAME_MAX)
        return Operation(self.store, lambda: self._unknown_names_flow(queue, names))

    def _unknown_names_flow(self, queue: str, names: Sequence[str]) -> Flow[list[UnknownName]]:
        facts: NameFacts = yield explain.unknown_names(queue, names, self.store.partition_of_queue(queue))
        return find_unknown_names(facts)

    def configure(self, queue: str, changes: Mapping[str, Property]) -> Operation[Configuration]:
        """Change properties of a queue at run time and return all of them. None restores the default."""
        (check_new_name if changes else check_text)("queue", queue, QUEUE_MAX)
        check_configuration(changes)
        return Operation(self.store, lambda: self._configure_flow(queue, changes))

    def _configure_flow(self, queue: str, changes: Mapping[str, Property]) -> Flow[Configuration]:
        partition = self.store.partition_of_queue(queue)
        configuration = yield queues.configure(queue, changes, partition)
        if not PLACING.isdisjoint(changes):
            while (yield queues.relane(queue, partition)):
                pass
        return configuration  # type: ignore[no-any-return]

    def configuration(self, queue: str) -> Operation[Configuration]:
        """Return the properties of a queue."""
        return self.configure(queue, {})

    def queue_presence(self, queue: str, *, queues: tuple[str, ...] = ()) -> Operation[QueuePresence]:
        """Return whether a queue exists, and else an existing queue with a similar name. `queues`: patterns of the
        queues that may be suggested (none: all)."""
        check_text("queue", queue, QUEUE_MAX)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._presence_flow(queue, queues))

    def _presence_flow(self, queue: str, patterns: tuple[str, ...]) -> Flow[QueuePresence]:
        partition = self.store.partition_of_queue(queue)
        if (yield queues.queue_exists(queue, partition)):
            return QueuePresence(queue=queue, exists=True)
        facts: NameFacts = yield explain.unknown_names(queue, (), partition)
        if live_workers(facts.workers, queue, facts.now_ms):
            return QueuePresence(queue=queue, exists=True)
        known = yield from self.store.ttl_cache.read("queue_names", QUEUE_NAMES_MS, lambda _: self._queues_flow())
        served = (name for worker in facts.workers if worker.silent_at_ms > facts.now_ms for name in worker.info.queues)
        suggestion = suggest_name(queue, (name for name in (*known, *served) if is_queue_allowed(name, patterns)))
        return QueuePresence(queue=queue, exists=False, suggestion=suggestion)

    def remove_queue(self, queue: str, *, force: bool = False) -> Operation[bool]:
        """Remove a queue that holds no jobs: its properties, pauses, weights, history and name. Return False if it did
        not exist. A queue that live workers serve is removed only with `force`: the next job creates it again, with the
        default properties."""
        check_text("queue", queue, QUEUE_MAX)
        check_boolean("force", force)
        return Operation(self.store, lambda: self._remove_queue_flow(queue, force))

    def _remove_queue_flow(self, queue: str, force: bool) -> Flow[bool]:
        partition = self.store.partition_of_queue(queue)
        facts: NameFacts = yield explain.unknown_names(queue, (), partition)
        serving = live_workers(facts.workers, queue, facts.now_ms)
        if serving and not force:
            [stats] = yield from self._stats_flow([queue])
            raise QueueInUse(_describe_use(queue, stats.held, len(serving)))
        removed: queues.RemovedQueue = yield queues.remove_queue(queue, partition)
        if removed.jobs:
            raise QueueInUse(_describe_use(queue, removed.jobs, 0))
        self.store.history_cache.forget(queue)
        self.store.ttl_cache.forget("queues")
        return removed.existed

    # Pauses and weights

    def pause(self, queue: str, *, lane: str = "", name: str = "", reason: str = "") -> Operation[bool]:
        """Pause a queue, or one lane or name of it; running jobs continue. Return False if it was paused already."""
        check_pause(queue, lane, name)
        check_text("reason", reason, PAUSE_REASON_MAX, may_be_empty=True)
        return Operation(
            self.store,
            lambda: send_or_raise(queues.pause(queue, lane, name, reason, self.store.partition_of_queue(queue))),
        )

    def resume(self, queue: str, *, lane: str = "", name: str = "") -> Operation[bool]:
        """Allow takes again, at once. Return False if nothing was paused."""
        check_resume(queue, lane, name)
        return Operation(
            self.store, lambda: send(queues.resume(queue, lane, name, self.store.partition_of_queue(queue)))
        )

    def pauses(self, queue: str) -> Operation[list[Pause]]:
        """Return the pauses of a queue, with their time and reason."""
        check_text("queue", queue, QUEUE_MAX)
        return Operation(self.store, lambda: send(queues.pauses(queue, self.store.partition_of_queue(queue))))

    def set_weights(self, queue: str, weights: Mapping[str, int]) -> Operation[dict[str, int]]:
        """Set the weights of lanes in a fair queue (1 to 100) and return all weights that are not 1."""
        check_weights(queue, weights)
        return Operation(
            self.store, lambda: send(queues.set_weights(queue, weights, self.store.partition_of_queue(queue)))
        )


def _describe_use(queue: str, jobs: int, workers: int) -> str:
    """Return the sentence about a queue that cannot be removed. Its jobs come first: force does not help there."""
    if jobs:
        return (
            f"The queue {queue} holds {pluralize(jobs, 'job')}. `windlass queues purge` deletes those that have not "
            "started; delete the others, or wait until they have ended and are no longer kept."
        )
    return (
        f"{pluralize(workers, 'live worker')} serve{'s' if workers == 1 else ''} the queue {queue}. Stop them, or use "
        "force: the next job then creates the queue again, with the default properties."
    )
