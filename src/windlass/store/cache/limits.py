"""Cache of the limits of each partition. A call carries the version of the table it was matched against, and the engine
refuses an old version. So a stale table is never used."""

from __future__ import annotations

from windlass.core.limits.limit import LimitTable

_EMPTY = LimitTable()


class LimitCache:
    def __init__(self) -> None:
        self._tables: dict[int, LimitTable] = {}

    def table(self, partition: int) -> LimitTable:
        return self._tables.get(partition, _EMPTY)

    def update(self, partition: int, table: LimitTable) -> LimitTable:
        self._tables[partition] = table
        return table
