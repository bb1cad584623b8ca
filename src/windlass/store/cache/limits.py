"""What this process last saw of each partition's limits. Calls carry the version they were matched against; the engine
refuses an old one, so a table may be old but is never wrong."""

from __future__ import annotations

from windlass.core.limits.limit import LimitTable

_NONE = LimitTable()


class LimitCache:
    def __init__(self) -> None:
        self._tables: dict[int, LimitTable] = {}

    def table(self, partition: int) -> LimitTable:
        return self._tables.get(partition, _NONE)

    def learn(self, partition: int, table: LimitTable) -> LimitTable:
        self._tables[partition] = table
        return table
