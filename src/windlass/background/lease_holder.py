"""Lease holder: registers a worker, renews the leases of its jobs, and reports lost leases and cancel requests to their
owner."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import shlex
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from windlass import __version__
from windlass.core.errors import Refusal, UnknownWorker, WindlassError
from windlass.core.job import Job
from windlass.core.operations import Extended, LeaseRef, WorkerInfo
from windlass.processes.memory import used_bytes
from windlass.retry_loop import Pauses, RetryLoop
from windlass.service import Service

BEAT_MS = 30_000  # a worker without a heartbeat for this time counts as silent
BEAT_EVERY_S = 10.0
# A worker that holds jobs, if it wants this: decision 108 has the figures. The recoverer waits for some seconds more.
BUSY_BEAT_MS = 9_000
BUSY_CHECK_S = 1.0  # an idle worker beats early for jobs that last this long
DESCRIBE_EVERY_S = 60.0  # between registrations, which tell how much memory the process uses
BEATS_PER_LEASE = 3
SHORTEST_BEAT_S = 0.05
RETRY_S = 1.0
BATCH = 1000
EARLY_CANCELS_MAX = 1_000


class HeldLease(NamedTuple):
    """A lease and its length in ms; the length is not positive if the lease does not expire."""

    ref: LeaseRef
    lease_ms: int


def lease_of(job: Job) -> HeldLease:
    """Return the lease under which the job was taken."""
    return HeldLease(LeaseRef(job.id, job.lease_token), lease_length_ms(job))


def lease_length_ms(job: Job) -> int:
    """Return the length of a taken job's lease; not positive if it does not expire.

    The deadline of a job that was handed over is that of its acceptance, and its own lease may be shorter."""
    length_ms = (job.lease_deadline_at_ms or 0) - (job.started_at_ms or 0)
    return job.lease_ms if 0 < job.lease_ms < length_ms else length_ms


def describe_fixed_lease(queue: str) -> str:
    """Return a sentence for the log line about a job that was not finished within a fixed lease."""
    command = f"windlass queues configure {shlex.quote(queue)}"
    return (
        f"Leases of the queue {queue} are not renewed. `{command} --lease-renewal` lets live workers keep their jobs, "
        f"and `{command} --lease 5m` gives them more time."
    )


class LeaseOwner(Protocol):
    """Owner of jobs: it runs them, and a lease holder calls it from the event loop in which that holder runs."""

    def leases(self) -> Sequence[HeldLease]:
        """Return the leases of all jobs that were received and neither reported nor lost."""

    def on_lost(self, lease: LeaseRef) -> None:
        """Stop a job whose lease is lost. Its outcome would be refused."""

    def on_expired(self, lease: LeaseRef) -> None:
        """Stop a job at the end of its fixed lease: its queue does not renew leases, and another worker gets it."""

    def on_cancel(self, job_id: bytes) -> bool:
        """Stop a job whose cancellation was requested. Return False if the job is not known (yet)."""

    def on_unclaimed(self, leases: Sequence[LeaseRef]) -> None:
        """Give back leases that `leases` does not return, unless the answer of their take arrives after all."""

    def on_stop_request(self) -> None:
        """Stop the worker. Every heartbeat repeats the request."""


class LeaseHolder:
    """Keeps the leases of one owner alive. It runs in any event loop; the owner reports the outcomes (outcomes.py).

    The engine does not extend a fixed lease, and answers how long it lasts. Its end is reported to the owner at once,
    without another heartbeat.

    Without `info` the holder is no worker: it is not listed, and cancel requests arrive only when leases are renewed.
    `lease_ms` is the length of renewed leases; 0: the job's or the queue's. A cancel request that arrives before its
    job is in `early_cancels` until the next heartbeat.

    `busy_beat_ms` is how long the worker may be silent while it holds jobs, 0: as long as without jobs. It loses its
    jobs after that time, however long their leases last. An idle worker sends fewer heartbeats, because they cost the
    engine more than anything else that it does."""

    def __init__(
        self,
        service: Service,
        holder_id: bytes,
        info: WorkerInfo | None,
        owner: LeaseOwner,
        log: logging.Logger,
        *,
        lease_ms: int = 0,
        beat_every_s: float | None = None,
        busy_beat_ms: int = 0,
    ) -> None:
        self._service = service
        self._id = holder_id
        self._info = info
        self._owner = owner
        self._log = log
        self._lease_ms = lease_ms
        self._idle_interval_s = BEAT_EVERY_S if beat_every_s is None else beat_every_s
        self._busy_beat_ms = busy_beat_ms
        self._beat_ms = BEAT_MS  # as registered
        self._interval_changed = asyncio.Event()
        self.beat_every_s = self._idle_interval_s
        self._described_at_s = 0.0  # monotonic, of the last registration
        self._fixed_ends: dict[LeaseRef, asyncio.TimerHandle] = {}  # timers at the ends of fixed leases
        self.on_registered: Callable[[], None] = lambda: None  # called when the engine knows the worker again
        self.early_cancels: deque[bytes] = deque(maxlen=EARLY_CANCELS_MAX)

    async def register(self) -> None:
        """Register the worker. While the engine is unavailable, try again."""
        if self._info is None:
            return
        info = self._info
        self._service.hear_cancels(self._cancel)
        await RetryLoop(self._log, "Could not register the worker", WindlassError, unless=Refusal).until_done(
            lambda: self._describe(info, self._beat_ms)
        )
        self.on_registered()

    async def _describe(self, info: WorkerInfo, beat_ms: int) -> None:
        """Register the worker with what is known about its process. A repeated registration only updates this."""
        self._described_at_s = time.monotonic()
        described = msgspec.structs.replace(
            info, version=__version__, python=platform.python_version(), memory_bytes=used_bytes(os.getpid())
        )
        await self._service.register(self._id, described, beat_ms=beat_ms)
        self._beat_ms = beat_ms

    async def run(self) -> None:
        """Renew leases and send heartbeats until cancelled."""
        while True:
            await self.turn()

    async def turn(self) -> None:
        """Wait until the next heartbeat is due, and send it. While the engine is unavailable, try again."""
        await self._wait_until_due()
        pauses = Pauses(min(RETRY_S, self.beat_every_s), self.beat_every_s)
        await RetryLoop(self._log, "Could not send a heartbeat", WindlassError, pauses=pauses).until_done(self.beat)

    async def beat(self) -> None:
        """Renew all leases and send one heartbeat."""
        self.early_cancels.clear()  # the answers below repeat them
        await self._extend()
        await self._announce_silence()
        await self._send_heartbeat()
        # First the longest interval: a job that another thread starts now either sees it, and calls `expect_lease`, or
        # is among the leases.
        self.beat_every_s = self._idle_interval_s
        leases = self._owner.leases()
        busy_s = [_interval_s(self._busy_beat_ms)] if leases else []
        self.beat_every_s = min([self.beat_every_s, *busy_s, *(_interval_s(lease.lease_ms) for lease in leases)])

    def expect_lease(self, lease_ms: int) -> None:
        """Beat often enough for a job that was taken under a lease of this length."""
        self._shorten_interval(_interval_s(lease_ms))

    @property
    def is_idle(self) -> bool:
        """Whether `expect_busy` must be called for a job that starts."""
        return 0 < self._busy_beat_ms != self._beat_ms and self.beat_every_s > BUSY_CHECK_S

    def expect_busy(self) -> None:
        """Beat soon, because a job has started. If it still runs then, the worker is busy."""
        if self.is_idle:
            self._shorten_interval(BUSY_CHECK_S)

    def _shorten_interval(self, interval_s: float) -> None:
        if interval_s < self.beat_every_s:
            self.beat_every_s = interval_s
            self._interval_changed.set()

    async def _announce_silence(self) -> None:
        """Register again with the time for which the worker may be silent, if that has changed."""
        wanted_ms = self._busy_beat_ms if self._busy_beat_ms and self._owner.leases() else BEAT_MS
        if self._info is not None and wanted_ms != self._beat_ms:
            await self._describe(self._info, wanted_ms)

    async def deregister(self, timeout_s: float | None = None) -> None:
        """Deregister the worker. Its remaining jobs go back without a spent attempt."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._service.forget(self._id)
        except UnknownWorker:
            pass  # not registered, and without leases
        except (TimeoutError, WindlassError) as error:
            self._log.warning("Could not deregister the worker: %r. Its leases will expire.", error)

    async def _wait_until_due(self) -> None:
        is_due = False
        while not is_due:
            self._interval_changed.clear()
            is_due = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.beat_every_s):
                    await self._interval_changed.wait()
                    is_due = False

    async def _extend(self) -> None:
        leases = [lease.ref for lease in self._owner.leases()]
        for gone in self._fixed_ends.keys() - leases if self._fixed_ends else ():
            self._forget_fixed(gone)
        for start in range(0, len(leases), BATCH):
            part = leases[start : start + BATCH]
            answers = await self._service.extend(part, lease_ms=self._lease_ms)
            for lease, answer in zip(part, answers, strict=True):
                if isinstance(answer, Refusal):
                    self._forget_fixed(lease)
                    self._owner.on_lost(lease)
                elif isinstance(answer, Extended):
                    self._note_extended(lease, answer)

    def _note_extended(self, lease: LeaseRef, answer: Extended) -> None:
        if answer.is_cancel_requested:
            self._owner.on_cancel(lease.id)
        if answer.fixed_for_ms is None:
            self._forget_fixed(lease)
        elif lease not in self._fixed_ends:
            end_s = answer.fixed_for_ms / 1000
            self._fixed_ends[lease] = asyncio.get_running_loop().call_later(end_s, self._expire, lease)

    def _forget_fixed(self, lease: LeaseRef) -> None:
        if self._fixed_ends and (timer := self._fixed_ends.pop(lease, None)) is not None:
            timer.cancel()

    def _expire(self, lease: LeaseRef) -> None:
        del self._fixed_ends[lease]
        self._owner.on_expired(lease)

    async def _send_heartbeat(self) -> None:
        """Send the ids of all held jobs. The answer lists other leases: the answers of their takes were lost."""
        held = [lease.ref.id for lease in self._owner.leases()]
        if self._info is None:
            unclaimed = await self._service.unclaimed([(self._id, held)])
        else:
            try:
                reply = await self._service.beat_holding(self._id, held)
            except UnknownWorker:
                await self.register()
                return
            if reply.is_asked_to_stop:
                self._owner.on_stop_request()
            unclaimed = reply.unclaimed
        if unclaimed:
            self._owner.on_unclaimed(unclaimed)
        if self._info is not None and time.monotonic() - self._described_at_s >= DESCRIBE_EVERY_S:
            await self._describe(self._info, self._beat_ms)

    def _cancel(self, job_id: bytes) -> None:
        if not self._owner.on_cancel(job_id):
            self.early_cancels.append(job_id)


def _interval_s(lease_ms: int) -> float:
    return max(SHORTEST_BEAT_S, lease_ms / 1000 / BEATS_PER_LEASE) if lease_ms > 0 else float("inf")
