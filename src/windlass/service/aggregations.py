"""Keys of a limit that have caps of their own (aggregations), listed; and what parts of a deployment count."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.core.errors import Refusal, TooLarge, UnknownLimit
from windlass.core.limits.limit import Aggregation, AggregationPage, key_text
from windlass.core.validation import jobs as check
from windlass.core.validation import limits as limit_check
from windlass.store.commands import caps
from windlass.store.commands.admin import statistics
from windlass.store.commands.command import Call, Flow
from windlass.store.operation import Asked

from .facet import Asking, T, ask, asked_once

COMPONENT_MAX = 64
INSTANCE_MAX = 255
NUMBERS_MAX = 1_000  # of one instance
KEY_MAX = 64 * 1024
STATS_INTERVAL_MS = 5_000
STATS_KEPT_MS = 2 * STATS_INTERVAL_MS


class Aggregating(Asking):
    def aggregations(self, limit: str, *, most: int = 100, cursor: str = "") -> Asked[AggregationPage]:
        """The keys of a limit with `own_caps` that have jobs, or had until a moment ago; in their order."""
        check.text("limit", limit, limit_check.LIMIT_NAME_MAX)
        check.whole("most", most, 1, check.PAGE_MAX)
        check.text("cursor", cursor, check.CURSOR_MAX, may_be_empty=True)
        return self._of_limit(limit, lambda home: caps.aggregations(limit, cursor, most, home))

    def aggregation(self, limit: str, key: str) -> Asked[Aggregation]:
        """One of them; without jobs and cap when there is nothing of this key."""
        check.text("limit", limit, limit_check.LIMIT_NAME_MAX)
        check.opaque("key", key, KEY_MAX)
        return self._of_limit(limit, lambda home: caps.aggregation(limit, key_text(key), home))

    def _of_limit(self, limit: str, build: Callable[[int], Call[T | Refusal]]) -> Asked[T]:
        return Asked(self.store, lambda: self._of_limit_flow(limit, build))

    def _of_limit_flow(self, limit: str, build: Callable[[int], Call[T | Refusal]]) -> Flow[T]:
        for home in range(self.store.partitions):
            answer = yield build(home)
            if not isinstance(answer, UnknownLimit):
                return answer  # type: ignore[no-any-return]
        raise UnknownLimit(f"There is no limit {limit!r}.")

    def publish_stats(self, component: str, instance: str, numbers: Mapping[str, int]) -> Asked[None]:
        """What an instance of a component has counted so far. Known for two intervals of five seconds."""
        check.text("component", component, COMPONENT_MAX)
        check.text("instance", instance, INSTANCE_MAX)
        check.instance("numbers", numbers, Mapping)
        if len(numbers) > NUMBERS_MAX:
            raise TooLarge(f"An instance may count {NUMBERS_MAX:,} things, not {len(numbers):,}.")
        for name, number in numbers.items():
            check.text("the name of a number", name, COMPONENT_MAX * 2)
            check.whole(name, number, limit_check.INT64_MIN, limit_check.INT64_MAX)
        call = statistics.publish_stats(component, instance, numbers, STATS_KEPT_MS)
        return Asked(self.store, lambda: asked_once(call))

    def stats_of(self, component: str) -> Asked[dict[str, dict[str, int]]]:
        """By instance, what it said last; nothing of those that have been silent for two intervals."""
        check.text("component", component, COMPONENT_MAX)
        return Asked(self.store, lambda: ask(statistics.stats_of(component)))
