"""Owner of a worker's leases: the jobs that it has taken and not reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from windlass.background.lease_holder import HeldLease, describe_fixed_lease, lease_of
from windlass.background.reconciler import Reconciler
from windlass.core.job import Job
from windlass.core.operations import LeaseRef
from windlass.service import Service

from .job_log import format_runtime, job_fields, job_label, job_log
from .run import Run, StopReason

STOPPED = "Its code is stopped; another worker retries it."


class HeldRuns:
    """Jobs that a worker holds. The heartbeat thread asks for their leases; they stop in the worker's event loop.

    `runs` are the running jobs by id. `unstarted` returns the jobs that were taken and do not run. `stop` stops the
    code of a run, and `stop_worker` the worker.
    """

    def __init__(
        self,
        service: Service,
        runs: Mapping[bytes, Run],
        *,
        unstarted: Callable[[], list[Job]],
        stop: Callable[[Run, StopReason], None],
        stop_worker: Callable[[], None],
    ) -> None:
        self._runs = runs
        self._unstarted = unstarted
        self._stop = stop
        self._stop_worker = stop_worker
        self._loop = asyncio.get_running_loop()
        self.reconciler = Reconciler(service, self._holds)

    def _holds(self, lease: LeaseRef) -> bool:
        run = self._runs.get(lease.id)
        known = [*([run.job] if run is not None else []), *self._unstarted()]
        return any(job.id == lease.id and job.lease_token == lease.token for job in known)

    # Called in the worker's event loop

    def stop_lost(self, lease: LeaseRef) -> None:
        """Stop a job whose lease is lost."""
        if (run := self._find(lease)) is not None:
            if run.stop_reason == "timeout" or run.deadline_s <= self._loop.time():
                self._warn(run, "ran into its timeout after", "The engine has ended its attempt; its code is stopped.")
            else:
                self._warn(run, "lost its lease after", STOPPED)
            self._stop(run, "lost")

    def stop_expired(self, lease: LeaseRef) -> None:
        """Stop a job whose fixed lease has ended."""
        if (run := self._find(lease)) is not None:
            advice = describe_fixed_lease(run.job.queue)
            self._warn(run, "was not finished within its lease, after", STOPPED, advice)
            self._stop(run, "lost")

    def _warn(self, run: Run, what: str, *then: str) -> None:
        ran = format_runtime((self._loop.time() - run.started_s) * 1000)
        line = " ".join((f"{ran}.", *then))
        job_log.warning("%s %s %s", job_label(run.job), what, line, extra=job_fields(run.job, outcome="lost"))

    def _find(self, lease: LeaseRef) -> Run | None:
        """Return the run under this lease, unless its end or the loss of its lease is already known.

        Each heartbeat finds a lost lease until the event loop has stopped the run, and a blocked loop gets all of these
        calls at once."""
        run = self._runs.get(lease.id)
        if run is None or run.job.lease_token != lease.token:
            return None
        return None if run.is_reported or run.stop_reason == "lost" else run

    # Called by the heartbeat thread

    def leases(self) -> list[HeldLease]:
        """Return all leases but the lost ones: a lost job may still run here, but another worker has its lease."""
        runs = [run.lease for run in list(self._runs.values()) if run.stop_reason != "lost"]
        return [*runs, *map(lease_of, self._unstarted())]

    def on_lost(self, lease: LeaseRef) -> None:
        self._loop.call_soon_threadsafe(self.stop_lost, lease)

    def on_expired(self, lease: LeaseRef) -> None:
        self._loop.call_soon_threadsafe(self.stop_expired, lease)

    def on_cancel(self, job_id: bytes) -> bool:
        run = self._runs.get(job_id)
        if run is not None:
            run.request_stop()  # at once, for code in a thread that checks `ctx.cancelled`
            self._loop.call_soon_threadsafe(self._stop, run, "cancelled")
        return run is not None

    def on_unclaimed(self, leases: Sequence[LeaseRef]) -> None:
        self._loop.call_soon_threadsafe(self.reconciler.begin, leases)

    def on_stop_request(self) -> None:
        self._loop.call_soon_threadsafe(self._stop_worker)
