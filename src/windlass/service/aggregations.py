"""Aggregation operations (keys of a limit that have their own caps), and counters published by parts of a
deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from windlass.core.errors import Refusal, TooLarge, UnknownLimit, UnknownLimitKey
from windlass.core.limits.limit import Aggregation, AggregationPage, encode_key
from windlass.core.validation.bounds import CURSOR_MAX, PAGE_MAX
from windlass.core.validation.limits import LIMIT_NAME_MAX, check_cap_change
from windlass.core.validation.matchers import INT64_MAX, INT64_MIN
from windlass.core.validation.values import check_free_text, check_instance, check_integer, check_text
from windlass.store.commands import caps
from windlass.store.commands.admin import statistics
from windlass.store.commands.command import Command, Flow
from windlass.store.operation import Operation

from .facet import Facet, T, send, send_or_raise

COMPONENT_MAX = 64
INSTANCE_MAX = 255
NUMBERS_MAX = 1_000  # counters of one instance
KEY_MAX = 64 * 1024
STATS_INTERVAL_MS = 5_000
STATS_KEPT_MS = 2 * STATS_INTERVAL_MS


class AggregationOperations(Facet):
    def aggregations(self, limit: str, *, most: int = 100, cursor: str = "") -> Operation[AggregationPage]:
        """Return the keys, in order, of a limit with `own_caps` that have jobs or had jobs until a moment ago."""
        check_text("limit", limit, LIMIT_NAME_MAX)
        check_integer("most", most, 1, PAGE_MAX)
        check_text("cursor", cursor, CURSOR_MAX, may_be_empty=True)
        return self._of_limit(limit, lambda partition: caps.aggregations(limit, cursor, most, partition))

    def aggregation(self, limit: str, key: str) -> Operation[Aggregation]:
        """Return one key of a limit; without jobs and cap if nothing has this key."""
        check_text("limit", limit, LIMIT_NAME_MAX)
        check_free_text("key", key, KEY_MAX)
        return self._of_limit(limit, lambda partition: caps.aggregation(limit, encode_key(key), partition))

    def set_cap(
        self, limit: str, key: str, *, running: int | None = None, note: str | None = None
    ) -> Operation[Aggregation]:
        """Change the cap of a key, or its note, while jobs run; None: it stays. A higher cap lets waiting jobs start at
        once. Under a lower one, running jobs continue to their end. The key must have jobs, or have had jobs until a
        moment ago."""
        check_text("limit", limit, LIMIT_NAME_MAX)
        check_free_text("key", key, KEY_MAX)
        check_cap_change(running, note)
        return self._of_limit(
            limit, lambda partition: caps.set_cap(limit, encode_key(key), running, note, key, partition)
        )

    def _of_limit(self, limit: str, build: Callable[[int], Command[T | Refusal]]) -> Operation[T]:
        return Operation(self.store, lambda: self._of_limit_flow(limit, build))

    def _of_limit_flow(self, limit: str, build: Callable[[int], Command[T | Refusal]]) -> Flow[T]:
        for partition in range(self.store.partitions):
            answer = yield build(partition)
            if isinstance(answer, UnknownLimitKey):
                raise answer
            if not isinstance(answer, UnknownLimit):
                return answer  # type: ignore[no-any-return]
        raise UnknownLimit(f"There is no limit {limit!r}.")

    def publish_stats(self, component: str, instance: str, numbers: Mapping[str, int]) -> Operation[None]:
        """Publish the counters of an instance of a component. They are kept for two intervals of five seconds."""
        check_text("component", component, COMPONENT_MAX)
        check_text("instance", instance, INSTANCE_MAX)
        check_instance("numbers", numbers, Mapping)
        if len(numbers) > NUMBERS_MAX:
            raise TooLarge(f"An instance may have {NUMBERS_MAX:,} counters, not {len(numbers):,}.")
        for name, number in numbers.items():
            check_text("the name of a number", name, COMPONENT_MAX * 2)
            check_integer(name, number, INT64_MIN, INT64_MAX)
        command = statistics.publish_stats(component, instance, numbers, STATS_KEPT_MS)
        return Operation(self.store, lambda: send_or_raise(command))

    def stats_of(self, component: str) -> Operation[dict[str, dict[str, int]]]:
        """Return the last published counters by instance. Instances that were silent for two intervals are left out."""
        check_text("component", component, COMPONENT_MAX)
        return Operation(self.store, lambda: send(statistics.stats_of(component)))
