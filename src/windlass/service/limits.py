"""Limit operations: set, change, remove and list limits with their levels, while jobs run."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.errors import BadInput, CrossPartition, UnknownLimit
from windlass.core.limits.limit import Level, Limit, LimitHolders, LimitState, join_limit_key
from windlass.core.validation.bounds import PAGE_MAX, UINT32_MAX
from windlass.core.validation.limits import LIMIT_NAME_MAX, check_limit
from windlass.core.validation.values import check_integer, check_text
from windlass.store import limit_matcher
from windlass.store.commands import limits
from windlass.store.commands.command import Flow
from windlass.store.commands.limits import LevelPage, LimitChange, StoredLimits
from windlass.store.operation import Operation

from .facet import Facet, send_or_raise

LEVELS_MAX = 1_000  # keys shown per limit


class LimitOperations(Facet):
    def limit(self, limit: Limit) -> Operation[int]:
        """Set a limit. Running jobs count; waiting jobs are matched again. Return how many jobs changed."""
        check_limit(limit)
        return Operation(self.store, lambda: self._limit_flow(limit))

    def _limit_flow(self, limit: Limit) -> Flow[int]:
        partition = self._partition_of_limit(limit)
        if (yield from self._find_limit(limit.name, but=partition)) is not None:
            raise BadInput(f"The limit {limit.name!r} lies in another partition; remove it first.")
        changed: LimitChange = yield limits.set_limit(limit, partition)
        reached = [limit.matches.named_queues(), (changed.before or limit).matches.named_queues()]
        return (yield from self._settle(changed, reached, partition))

    def unlimit(self, name: str) -> Operation[int]:
        """Remove a limit. Return how many jobs it applied to."""
        check_text("name", name, LIMIT_NAME_MAX)
        return Operation(self.store, lambda: self._unlimit_flow(name))

    def _unlimit_flow(self, name: str) -> Flow[int]:
        partition = yield from self._find_limit(name)
        if partition is None:
            raise UnknownLimit(f"There is no limit {name!r}.")
        changed = yield from send_or_raise(limits.unlimit(name, partition))
        reached = [changed.before.matches.named_queues() if changed.before else ()]
        return (yield from self._settle(changed, reached, partition))

    def limits(self) -> Operation[list[LimitState]]:
        """Return all limits with their levels. A limit per key has the keys with running or blocked jobs."""
        return Operation(self.store, self._limits_flow)

    def _limits_flow(self) -> Flow[list[LimitState]]:
        found = []
        for partition in range(self.store.partitions):
            known: StoredLimits = yield limits.limits(partition)
            for number, limit in known.table.limits.items():
                levels = yield from self._levels(number, partition)
                shown = [level for level in levels if level.key is not None] if limit.key else levels[:1]
                found.append(LimitState(limit=limit, levels=shown))
        return sorted(found, key=lambda state: state.limit.name)

    def holders(self, name: str, *, key: str | None = None, start: int = 0, most: int = 100) -> Operation[LimitHolders]:
        """Return the jobs that run under a limit; for a limit per key, under this key (as its levels name it)."""
        check_text("name", name, LIMIT_NAME_MAX)
        if key is not None:
            check_text("key", key, LIMIT_NAME_MAX)
        check_integer("start", start, 0, UINT32_MAX)
        check_integer("most", most, 1, PAGE_MAX)
        return Operation(self.store, lambda: self._holders_flow(name, key, start, most))

    def _holders_flow(self, name: str, key: str | None, start: int, most: int) -> Flow[LimitHolders]:
        for partition in range(self.store.partitions):
            known: StoredLimits = yield limits.limits(partition)
            for number, limit in known.table.limits.items():
                if limit.name == name:
                    if bool(limit.key) != (key is not None):
                        raise BadInput(
                            f"The limit {name!r} is per key: name a key." if limit.key else f"{name!r} has no keys."
                        )
                    limit_key = join_limit_key(number, limit, key or "")
                    return (yield limits.holders(limit_key, start, most, partition))  # type: ignore[no-any-return]
        raise UnknownLimit(f"There is no limit {name!r}.")

    def rematch(self, partition: int) -> Operation[int]:
        """Complete a limit change whose caller died: match jobs against the current limits."""
        check_integer("partition", partition, 0, self.store.partitions - 1)
        return Operation(self.store, lambda: self._rematch_flow(partition))

    def _rematch_flow(self, partition: int) -> Flow[int]:
        known: StoredLimits = yield limits.limits(partition)
        if not known.unmatched_version:
            return 0
        return (yield from limit_matcher.rematch_jobs(self.store.limit_cache, partition))

    def _settle(self, changed: LimitChange, reached: Sequence[tuple[str, ...]], partition: int) -> Flow[int]:
        """Reopen what the change no longer blocks, then match the limits of each job of the queues that it reached."""
        cursor = "0"
        while True:
            cursor = yield limits.reopen(changed.number, cursor, partition)
            if cursor == "0":
                break
        only = {queue for queues in reached for queue in queues} if all(reached) else ()
        return (yield from limit_matcher.rematch_jobs(self.store.limit_cache, partition, only))

    def _levels(self, number: int, partition: int) -> Flow[list[Level]]:
        found: dict[str | None, Level] = {}
        cursor = "0"
        while len(found) < LEVELS_MAX:
            page: LevelPage = yield limits.levels(number, cursor, partition)
            found.update({level.key: level for level in page.levels})
            cursor = page.cursor
            if cursor == "0":
                break
        return sorted(found.values(), key=lambda level: (level.key is not None, level.key or ""))

    def _partition_of_limit(self, limit: Limit) -> int:
        if self.store.partitions == 1:
            return 0
        queues = limit.matches.named_queues()
        if not queues:
            raise CrossPartition(
                "On a deployment with several partitions a limit must name its queue; "
                "queues that share a limit need a common {tag}."
            )
        partitions = {self.store.partition_of_queue(queue) for queue in queues}
        if len(partitions) > 1:
            raise CrossPartition(
                "The queues of the limit lie in several partitions; "
                "give them a common {tag} in their names, or set a limit for each."
            )
        return partitions.pop()

    def _find_limit(self, name: str, but: int = -1) -> Flow[int | None]:
        for partition in range(self.store.partitions):
            if partition != but:
                known: StoredLimits = yield limits.limits(partition)
                if any(limit.name == name for limit in known.table.limits.values()):
                    return partition
        return None
