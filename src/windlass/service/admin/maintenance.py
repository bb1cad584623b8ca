"""Maintenance operations: the steps of the background loops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from windlass.core.errors import BadInput
from windlass.core.job import Job
from windlass.core.validation.bounds import DURATION_MAX
from windlass.core.validation.values import check_integer, check_number, check_partition, check_scan_cursor
from windlass.pauses import random_fraction
from windlass.service.facet import Facet
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import queues
from windlass.store.commands.admin import maintenance
from windlass.store.commands.command import Command, Flow, MigratingPartitions
from windlass.store.operation import Operation, WaitingOperation
from windlass.store.waiting import maintenance as maintenance_waiting


class MaintenanceOperations(Facet):
    def promote(self) -> Operation[maintenance.MaintenanceStep]:
        """Run one step of the scheduler: queue scheduled jobs that are due."""
        return Operation(self.store, lambda: self._step_flow(maintenance.promote))

    def _step_flow(
        self, build: Callable[[int], Command[maintenance.MaintenanceStep]]
    ) -> Flow[maintenance.MaintenanceStep]:
        return maintenance.merge_steps((yield from self._send_to_each(build)))

    def recover(
        self, *, silent_before_ms: int | None = None, look_again_ms: int = 0
    ) -> Operation[maintenance.MaintenanceStep]:
        """Run one step of the recoverer: expired leases, silent workers, and attempts over their timeout.

        Only workers that were silent at `silent_before_ms` lose their jobs; None: those that are silent now. The step
        is due again after `look_again_ms` if there are others."""
        check_integer("silent_before_ms", silent_before_ms or 0, 0, DURATION_MAX)
        check_integer("look_again_ms", look_again_ms, 0, DURATION_MAX)
        return Operation(self.store, lambda: self._recover_flow(silent_before_ms, look_again_ms))

    def _recover_flow(self, silent_before_ms: int | None, look_again_ms: int) -> Flow[maintenance.MaintenanceStep]:
        found = yield from self._send_to_each(partial(maintenance.recover, silent_before_ms, look_again_ms))
        timed_out = [job for result in found for job in result.timed_out]
        if timed_out:
            decisions = [_time_out(job) for job in timed_out]
            yield from split_by_partition(
                decisions, lambda decision: self.store.partition_of_job(decision.id), maintenance.time_out
            )
        step = maintenance.merge_steps([result.step for result in found])
        return maintenance.MaintenanceStep(step.now_ms, step.done + len(timed_out), step.next_at_ms)

    def clean(self) -> Operation[maintenance.MaintenanceStep]:
        """Run one step of the janitor: retention and expiry."""
        return Operation(self.store, lambda: self._step_flow(maintenance.clean))

    def sweep(self, cursor: str = "0") -> Operation[maintenance.SweepStep]:
        """Run one step of the janitor's scan of queues: remove empty queues, and complete changes of lanes by name."""
        check_scan_cursor(cursor)
        return Operation(self.store, lambda: self._sweep_flow(cursor))

    def _sweep_flow(self, cursor: str) -> Flow[maintenance.SweepStep]:
        """Scan one partition after another. The cursor encodes the partition and the position in it."""
        count = len(self.partition_scope)
        inner, at = divmod(int(cursor), count)
        partition = self.partition_scope[at]
        swept: maintenance.SweepStep = yield maintenance.sweep(str(inner), partition)
        for queue in swept.to_relane:
            yield queues.relane(queue, partition)
        if swept.cursor == "0":
            return swept._replace(cursor=str((at + 1) % count))
        return swept._replace(cursor=str(int(swept.cursor) * count + at))

    def stop_torn(self, already: Collection[int] = ()) -> Operation[list[int]]:
        """Stop takes, for some minutes, in partitions whose slots migrate key by key. Partitions that were stopped
        before and are complete again continue at once. Return the migrating partitions."""
        for partition in already:
            check_partition(partition)
        return Operation(self.store, lambda: self._stop_torn_flow(already))

    def _stop_torn_flow(self, already: Collection[int]) -> Flow[list[int]]:
        torn: list[int] = yield MigratingPartitions()
        whole = set(already) - set(torn)
        commands = [maintenance.stop_migrating_partition(partition) for partition in torn]
        commands += [
            maintenance.stop(0, "", partition) for partition in range(self.store.partitions) if partition in whole
        ]
        if commands:
            yield commands
        return torn

    def listen(self, *, for_s: float) -> Operation[bool]:
        """Wait until maintenance is due, at most `for_s`. Return True if it became due earlier than known at the
        start."""
        check_number("for_s", for_s, 0, DURATION_MAX // 1000)
        return WaitingOperation(self.store, lambda: self._listen(for_s), _needs_event_loop)

    async def _listen(self, for_s: float) -> bool:
        await self.store.open()
        return await maintenance_waiting.wait_for_maintenance(self.store, self.partition_scope, for_s)


def _time_out(job: Job) -> maintenance.TimeOut:
    if not job.retry.wants_retry(job.attempt):
        return maintenance.TimeOut(job.id, job.lease_token, "final", 0)
    return maintenance.TimeOut(job.id, job.lease_token, "retry", job.retry.delay_ms(job.attempt, random_fraction()))


def _needs_event_loop() -> bool:
    raise BadInput("listen needs an event loop: await this operation.")
