"""What the loops do."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection

from windlass.core.errors import BadInput
from windlass.core.job import Job
from windlass.core.validation.bounds import DURATION_MAX
from windlass.core.validation.values import check_number, check_partition, check_scan_cursor
from windlass.service.facet import Facet
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import queues
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Command, Flow, MigratingPartitions
from windlass.store.operation import Operation, WaitingOperation
from windlass.store.waiting import job_end


class MaintenanceOperations(Facet):
    def promote(self) -> Operation[maintenance.MaintenanceStep]:
        """One step of the scheduler: jobs whose time has come."""
        return Operation(self.store, lambda: self._step_flow(maintenance.promote))

    def _step_flow(
        self, build: Callable[[int], Command[maintenance.MaintenanceStep]]
    ) -> Flow[maintenance.MaintenanceStep]:
        return maintenance.merge_steps((yield from self._in_each(build)))

    def recover(self) -> Operation[maintenance.MaintenanceStep]:
        """One step of the recoverer: leases and workers that went silent, attempts over their time."""
        return Operation(self.store, self._recover_flow)

    def _recover_flow(self) -> Flow[maintenance.MaintenanceStep]:
        found = yield from self._in_each(maintenance.recover)
        timed_out = [job for one in found for job in one.timed_out]
        if timed_out:
            decisions = [_time_out(job) for job in timed_out]
            yield from split_by_partition(
                decisions, lambda one: self.store.partition_of_job(one.id), maintenance.time_out
            )
        step = maintenance.merge_steps([one.step for one in found])
        return maintenance.MaintenanceStep(step.now_ms, step.done + len(timed_out), step.next_at_ms)

    def clean(self) -> Operation[maintenance.MaintenanceStep]:
        """One step of the janitor: retention and expiry."""
        return Operation(self.store, lambda: self._step_flow(maintenance.clean))

    def sweep(self, cursor: str = "0") -> Operation[maintenance.SweepStep]:
        """One step of the janitor's walk over queues: forgets empty ones, finishes divisions by name."""
        check_scan_cursor(cursor)
        return Operation(self.store, lambda: self._sweep_flow(cursor))

    def _sweep_flow(self, cursor: str) -> Flow[maintenance.SweepStep]:
        """One partition after another; the cursor holds both the place in a partition and which one it is."""
        count = len(self.homes)
        inner, at = divmod(int(cursor), count)
        home = self.homes[at]
        swept: maintenance.SweepStep = yield maintenance.sweep(str(inner), home)
        for queue in swept.to_relane:
            yield queues.relane(queue, home)
        if swept.cursor == "0":
            return swept._replace(cursor=str((at + 1) % count))
        return swept._replace(cursor=str(int(swept.cursor) * count + at))

    def stop_torn(self, already: Collection[int] = ()) -> Operation[list[int]]:
        """Partitions whose slots are moved key by key: their takers are stopped for some minutes. Those that were
        stopped before and are whole again go on at once. Answers which are torn now."""
        for partition in already:
            check_partition(partition)
        return Operation(self.store, lambda: self._stop_torn_flow(already))

    def _stop_torn_flow(self, already: Collection[int]) -> Flow[list[int]]:
        torn: list[int] = yield MigratingPartitions()
        whole = set(already) - set(torn)
        calls = [maintenance.stop_migrating_partition(home) for home in torn]
        calls += [maintenance.stop(0, "", home) for home in range(self.store.partitions) if home in whole]
        if calls:
            yield calls
        return torn

    def listen(self, *, for_s: float) -> Operation[bool]:
        """Waits until something is due, at the latest after `for_s`. True when that was not known at first."""
        check_number("for_s", for_s, 0, DURATION_MAX // 1000)
        return WaitingOperation(self.store, lambda: self._listen(for_s), _needs_event_loop)

    async def _listen(self, for_s: float) -> bool:
        await self.store.open()
        return await job_end.upkeep_waiting(self.store, self.homes, for_s)


def _time_out(job: Job) -> maintenance.TimeOut:
    if not job.retry.wants_retry(job.attempt):
        return maintenance.TimeOut(job.id, job.lease_token, "final", 0)
    return maintenance.TimeOut(job.id, job.lease_token, "retry", job.retry.delay_ms(job.attempt, random.random()))  # noqa: S311


def _needs_event_loop() -> bool:
    raise BadInput("The loops listen in an event loop; await this.")
