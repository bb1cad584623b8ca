"""Registry of a store's wakeups, one entry per partition."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from windlass.core.job import Job
from windlass.core.operations import LeaseRef
from windlass.store.commands import reports
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Effect
from windlass.store.connection.pool import ConnectionPool

from .wakeups import SyncWakeups, Wakeups

if TYPE_CHECKING:
    from windlass.store.store import Store


class WakeupRegistry:
    def __init__(
        self, store: Store, pool: ConnectionPool, perform: Callable[[Effect], Coroutine[Any, Any, Any]]
    ) -> None:
        self._store = store
        self._pool = pool
        self._perform = perform
        self._by_partition: dict[int, Wakeups] = {}
        self._on_cancel: Callable[[bytes], None] | None = None

    def of(self, partition: int) -> Wakeups:
        found = self._by_partition.get(partition)
        if found is None:
            found = self._by_partition[partition] = self._create(partition)
            if self._on_cancel is not None:
                found.read_cancels(self._on_cancel)
        return found

    def _create(self, partition: int) -> Wakeups:
        async def pass_on(name: str, queue: str, filters: tuple[str, ...]) -> Any:
            return await self._perform(maintenance.pass_wakeup(name, queue, filters, partition))

        def give_back(job: Job) -> None:
            release = reports.release([LeaseRef(job.id, job.lease_token)], partition)
            self._store.run_in_background(self._perform(release))

        # Looked up at each connect: the wakeups do not exist before their connection.
        purpose = f"wakeups {partition}"
        connection = self._pool.connection(purpose, partition, lambda: self._by_partition[partition].connecting())  # noqa: PLW0108
        return Wakeups(connection, self._store.root(partition), pass_on, give_back)

    def on_cancel_request(self, handler: Callable[[bytes], None]) -> None:
        """Call `handler` with the id of each running job whose cancellation is requested, in all partitions.

        Before the store is open, only the existing entries read their lists; others start when they are created.
        """
        self._on_cancel = handler
        for partition in range(self._store.partitions) if self._store.deployment else self._by_partition:
            self.of(partition).read_cancels(handler)

    def cancel_list(self, partition: int) -> str:
        """Return the name of the list that receives cancel requests of a partition; empty without a handler."""
        return self.of(partition).name if self._on_cancel is not None else ""

    def new_sync(self, partition: int) -> SyncWakeups:
        """Return wakeups for one blocking caller."""
        return SyncWakeups(self._pool, partition, self._store.root(partition))

    async def close(self) -> None:
        for wakeups in self._by_partition.values():
            await wakeups.settle()
            wakeups.close()

    def clear(self) -> None:
        """Forget all entries, after the connections are closed."""
        self._by_partition.clear()
