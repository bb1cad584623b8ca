"""Durable operations: steps, suspensions, signals and streams of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.durable import (
    DurableState,
    OpenWaits,
    ReceiveSignal,
    Rewind,
    Signal,
    SignalOutcome,
    Step,
    StoreStep,
    StreamPage,
    StreamWrite,
    Suspend,
    SuspendOutcome,
)
from windlass.core.validation.durable import (
    check_receive_signal,
    check_rewind,
    check_signal,
    check_store_step,
    check_stream_position,
    check_stream_write,
    check_suspend,
)
from windlass.core.validation.values import check_id
from windlass.service.facet import Facet, send_or_raise
from windlass.store.commands.durable import signals, steps, streams
from windlass.store.operation import BatchOperation, Operation


class DurableOperations(Facet):
    def store_steps(self, requests: Sequence[StoreStep]) -> BatchOperation[None]:
        """Store steps that their holders have run, and extend their leases. The first outcome of a name stays."""
        return self._batch_of_jobs(requests, check_store_step, steps.store_steps)

    def suspend(self, requests: Sequence[Suspend]) -> BatchOperation[SuspendOutcome]:
        """End runs whose code waits. No attempt is spent. A job whose condition is already met is `queued`."""
        return self._batch_of_jobs(requests, check_suspend, steps.suspend)

    def receive_signals(self, requests: Sequence[ReceiveSignal]) -> BatchOperation[Step | None]:
        """Assign unread signals to waits of running jobs. The answer is the stored step; None: there is no signal."""
        return self._batch_of_jobs(requests, check_receive_signal, signals.receive_signals)

    def signal(self, requests: Sequence[Signal]) -> BatchOperation[SignalOutcome]:
        """Send signals to jobs that have not ended. A signal that comes before its wait is kept."""
        return self._batch_of_jobs(requests, check_signal, signals.signal)

    def durable_states(self, ids: Sequence[bytes]) -> BatchOperation[DurableState]:
        """Read the steps, waits and unread signals of jobs."""
        return self._batch_of_ids(ids, steps.durable_states)

    def open_waits(self, ids: Sequence[bytes]) -> BatchOperation[OpenWaits]:
        """Read only the waits of suspended jobs. For lists: the other steps of a job may hold megabytes."""
        return self._batch_of_ids(ids, steps.open_waits)

    def rewind(self, requests: Sequence[Rewind]) -> BatchOperation[int]:
        """Drop steps of jobs that no worker holds, from the named step on. Returns how many were dropped.

        The job itself stays where it is: retry or requeue it afterwards."""
        return self._batch_of_jobs(requests, check_rewind, steps.rewind)

    def write_stream(self, requests: Sequence[StreamWrite]) -> BatchOperation[int]:
        """Append values to the streams of running jobs. Returns the position of the last entry."""
        return self._batch_of_jobs(requests, check_stream_write, streams.write_stream)

    def read_stream(self, job_id: bytes, *, after: int = 0, most: int = 500) -> Operation[StreamPage]:
        """Read entries of a job's stream after a position, during its run or after its end."""
        check_id("id", job_id)
        check_stream_position(after, most)
        partition = self.store.partition_of_job(job_id)
        return Operation(self.store, lambda: send_or_raise(streams.read_stream(job_id, after, most, partition)))
