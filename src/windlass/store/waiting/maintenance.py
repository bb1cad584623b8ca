"""Waiting without polling for due maintenance."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Flow
from windlass.store.commands.take import seconds_until
from windlass.store.store import Store

from .loop import Look, PartitionWait, Wait, earliest, wait_async
from .wakeups import BLOCK_S, MAINTENANCE


class _MaintenanceWait(Wait[bool]):
    """Wait until the background loops of these partitions are needed."""

    def __init__(self, partitions: Sequence[int]) -> None:
        super().__init__()
        self.parts = [PartitionWait(partition, (MAINTENANCE,), self.event) for partition in partitions]
        self._pause_s = 0.0

    def look(self, left_s: float) -> Flow[list[tuple[int, int | None]]]:
        # Work that became due between the last run of the loops and this registration caused no wakeup: the reply
        # reports it.
        self._pause_s = left_s
        for part in self.parts:
            part.registered = frozenset()  # nothing to pass on: the engine wakes all loops that sleep too long
        return _listen_flow(self.parts, int(left_s * 1000))

    def read(self, answers: list[tuple[int, int | None]]) -> Look[bool]:
        due_in_s = earliest(seconds_until(next_at_ms, now_ms) for now_ms, next_at_ms in answers)
        if due_in_s is not None:
            self._pause_s = min(self._pause_s, due_in_s)
        return Look(False, False, due_in_s)

    def received(self, is_woken: bool) -> bool | None:
        """Return at the end of the pause without another poll: the loops run now."""
        return True if is_woken else False if self._pause_s <= BLOCK_S else None


def _listen_flow(parts: Sequence[PartitionWait], for_ms: int) -> Flow[list[tuple[int, int | None]]]:
    return (yield [maintenance.listen(part.wakeups.name, for_ms, part.partition) for part in parts])  # type: ignore[no-any-return]


async def wait_for_maintenance(store: Store, partitions: Sequence[int], for_s: float) -> bool:
    """Wait until maintenance is due in one of the partitions, or for `for_s` seconds. Return True if a wakeup ended the
    wait: something is due earlier than the first reply said."""
    return await wait_async(store, _MaintenanceWait(partitions), for_s * 1000)
