"""Survey of all queues: the last statistics of each, of which one call reads a bounded number.

Up to EXACT_MAX queues are all read by each call. More are read at most once a second, or in a process that lives only
for some calls, at most once in 5 seconds. A server reads no more than SURVEYED_AT_ONCE of them then: those with running
jobs, the busiest known queues, and the others in turns."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from operator import attrgetter

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.queue import BUSIEST_MAX, SURVEY_TOTALS, QueueStats, QueueSurvey, busy_order

EXACT_MAX = 1_000
SURVEYED_AT_ONCE = 2_000  # the engine reads 100 in some 2 ms, by calls of so many
FRESH_MS = 1_000
WHOLE_FRESH_MS = 5_000  # where all are read
BUSY_MAX = 500  # queues with running jobs that each call reads, beside the busiest
KNOWN_MAX = 200_000  # queues whose statistics are kept, each about 400 bytes
CALLERS_MAX = 20
_name_of = attrgetter("queue")


class CallerSurvey:
    """Survey of the queues that callers with the same patterns may see."""

    def __init__(self, patterns: tuple[str, ...], *, reads_in_turns: bool) -> None:
        self._patterns = patterns
        self._reads_in_turns = reads_in_turns
        self._all_names: Sequence[str] = ()
        self._names: Sequence[str] = ()  # that the callers may see
        self._known: dict[str, QueueStats] = {}
        self._totals: Counter[str] = Counter()
        self._busiest: list[QueueStats] = []
        self._read_at_ms = 0
        self._last = ""  # name that was read last in turn
        self._turn_began_at_ms = 0
        self._complete_since_ms: int | None = None  # beginning of the last turn over all queues
        self._result: QueueSurvey | None = None  # of all that is known; None: it has changed

    @property
    def is_in_turns(self) -> bool:
        return self._reads_in_turns and len(self._names) > SURVEYED_AT_ONCE

    def set_names(self, names: Sequence[str]) -> None:
        """Set the names of all queues, sorted, and forget the others."""
        if names is self._all_names:
            return
        self._all_names, self._result = names, None
        self._names = [name for name in names if is_queue_allowed(name, self._patterns)] if self._patterns else names
        present = set(self._names)
        for name in [name for name in self._known if name not in present]:
            self._count(self._known.pop(name), -1)
        self._busiest = [stats for stats in self._busiest if stats.queue in present]

    def needs_read(self, now_ms: int) -> bool:
        is_large = len(self._names) > SURVEYED_AT_ONCE and not self._reads_in_turns
        is_fresh = abs(now_ms - self._read_at_ms) < (WHOLE_FRESH_MS if is_large else FRESH_MS)
        return not (is_fresh and self._known and len(self._names) > EXACT_MAX)

    def choose(self, busy: Iterable[str], now_ms: int) -> list[str]:
        """Choose the queues to read. `busy`: queues with running jobs, where queues are read in turns."""
        self._read_at_ms = now_ms
        if not self.is_in_turns:
            self._complete_since_ms = now_ms
            return list(self._names)
        allowed = [name for name in busy if is_queue_allowed(name, self._patterns)]
        first = dict.fromkeys([*(stats.queue for stats in self._busiest), *allowed[:BUSY_MAX]])
        return list(first | dict.fromkeys(self._next_in_turn(SURVEYED_AT_ONCE - len(first), now_ms)))

    def _next_in_turn(self, count: int, now_ms: int) -> Sequence[str]:
        start = bisect_right(self._names, self._last)
        if not self._last:
            self._turn_began_at_ms = now_ms
        found = self._names[start : start + count]
        is_end = start + count >= min(len(self._names), KNOWN_MAX)
        self._last = "" if is_end else found[-1]
        if is_end and len(self._names) <= KNOWN_MAX:
            self._complete_since_ms = self._turn_began_at_ms
        return found

    def add(self, read: Sequence[QueueStats]) -> None:
        """Replace what is known of some queues."""
        self._result = None
        for stats in read:
            former = self._known.get(stats.queue)
            if former is not None:
                self._count(former, -1)
            self._known[stats.queue] = stats
            self._count(stats, 1)
        candidates = {stats.queue: stats for stats in (*self._busiest, *read)}
        self._busiest = nsmallest(BUSIEST_MAX, candidates.values(), key=busy_order)

    def _count(self, stats: QueueStats, sign: int) -> None:
        for counter in SURVEY_TOTALS:
            number = getattr(stats, counter)
            if number:
                self._totals[counter] += sign * number

    def result(self) -> QueueSurvey:
        if self._result is None:
            self._result = self._make_result()
        return self._result

    def _make_result(self) -> QueueSurvey:
        return QueueSurvey(
            queue_count=len(self._names),
            stats=sorted(self._known.values(), key=_name_of),
            busiest=self._busiest,
            totals={counter: self._totals[counter] for counter in SURVEY_TOTALS},
            is_in_turns=self.is_in_turns,
            read_since_ms=self._complete_since_ms,
        )


class QueueSurveys:
    """Surveys by the patterns of their callers. A server sets `reads_in_turns`."""

    def __init__(self) -> None:
        self.reads_in_turns = False
        self._by_patterns: OrderedDict[tuple[str, ...], CallerSurvey] = OrderedDict()

    def of(self, patterns: tuple[str, ...]) -> CallerSurvey:
        found = self._by_patterns.get(patterns)
        if found is None:
            found = CallerSurvey(patterns, reads_in_turns=self.reads_in_turns)
            self._by_patterns[patterns] = found
        self._by_patterns.move_to_end(patterns)
        while len(self._by_patterns) > CALLERS_MAX:
            self._by_patterns.popitem(last=False)
        return found
