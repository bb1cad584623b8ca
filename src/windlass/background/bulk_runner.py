"""Bulk runner: executes bulk actions (service/bulk_actions.py) step by step.

After each step it writes the progress into the job of the action, so that another process can continue. At worst one
step runs twice."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial

import msgspec

from windlass.core import bulk_action as actions
from windlass.core.bulk_action import QUEUE, Action, ActionProgress
from windlass.core.errors import AlreadyEnded, BadInput, MemberFailed, Refusal, UnknownJob, WindlassError
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish, LeaseRef, Listing, Page, Take, Update
from windlass.retry_loop import RetryLoop
from windlass.service import Service
from windlass.store.records.holder_ids import anonymous_holder

from .lease_holder import HeldLease, LeaseHolder, describe_fixed_lease, lease_of
from .outcomes import TRANSIENT, Outcome, report_outcomes
from .reconciler import Reconciler

log = logging.getLogger("windlass.background")

STEP = 200  # jobs
LEASE_MS = 30_000
WAIT_MS = 60_000
STEP_PAUSE_S = 0.005  # between steps, so that other clients get their share of the engine
DEREGISTER_TIMEOUT_S = 2.0


class HeldAction:
    """Bulk action that a runner holds, as the owner of its lease. The runner is no worker: nothing lists it."""

    def __init__(self, service: Service) -> None:
        self._lease: HeldLease | None = None
        self.id = anonymous_holder()
        self.has_lost_lease = False
        self.must_stop = asyncio.Event()  # its cancellation was requested, or its lease is lost
        self.reconciler = Reconciler(service, lambda lease: self._lease is not None and lease == self._lease.ref)
        self.holder = LeaseHolder(service, self.id, None, self, log, lease_ms=LEASE_MS)

    def hold(self, job: Job) -> None:
        self._lease = lease_of(job)
        self.has_lost_lease = False
        self.must_stop.clear()

    def drop(self) -> None:
        self._lease = None

    # Called by the lease holder

    def leases(self) -> list[HeldLease]:
        return [self._lease] if self._lease is not None and not self.has_lost_lease else []

    def on_lost(self, lease: LeaseRef) -> None:
        if self._lease is not None and lease == self._lease.ref:
            self.has_lost_lease = True
            self.must_stop.set()

    def on_expired(self, lease: LeaseRef) -> None:
        log.warning("A bulk action was not finished within its lease. %s", describe_fixed_lease(QUEUE))
        self.on_lost(lease)

    def on_cancel(self, job_id: bytes) -> bool:
        is_held = self._lease is not None and job_id == self._lease.ref.id
        if is_held:
            self.must_stop.set()
        return is_held

    def on_unclaimed(self, leases: Sequence[LeaseRef]) -> None:
        self.reconciler.begin(leases)

    def on_stop_request(self) -> None:
        """Do nothing: only workers are asked to stop."""


class BulkRunner:
    """Runner of bulk actions. `run` runs until it is cancelled; `run_once` does not wait and is for tests."""

    def __init__(self, *, step: int = STEP) -> None:
        self._step = step

    async def run(self, service: Service) -> None:
        held = HeldAction(service)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(held.holder.run())
                await RetryLoop(log, "Could not run bulk actions", WindlassError).forever(
                    lambda: self._run_next(service, held, WAIT_MS)
                )
        finally:
            held.reconciler.close()
            await held.holder.deregister(DEREGISTER_TIMEOUT_S)

    async def run_once(self, service: Service) -> int:
        """Run the next action without renewing its lease. Return the number of actions: one or none."""
        return await self._run_next(service, HeldAction(service), 0)

    async def _run_next(self, service: Service, held: HeldAction, wait_ms: int) -> int:
        taken = await service.take(Take(queues=(QUEUE,), worker=held.id, lease_ms=LEASE_MS, wait_ms=wait_ms))
        jobs = held.reconciler.admit(taken.jobs)
        for job in jobs:
            held.hold(job)
            try:
                await self._run_action(service, job, held)
            except Refusal as refusal:  # another runner has it by now, or it was deleted
                log.info("Stopped bulk action %s: %s", job.key, refusal)
            finally:
                held.drop()
        return len(jobs)

    async def _run_action(self, service: Service, job: Job, held: HeldAction) -> None:
        try:
            progress = actions.decode_progress(job.payload)
        except msgspec.MsgspecError:
            error = Blob(b'{"message":"The payload is not a bulk action. Use `act` to create one."}')
            await _report(service, job, Fail(id=job.id, token=job.lease_token, error=error))
            return
        log.info("Bulk action %s of %r starts: %s.", job.key, progress.action.asked_by, progress.action.verb)
        attempts = RetryLoop(log, f"Could not run a step of bulk action {job.key}", TRANSIENT)
        while not held.must_stop.is_set() and not progress.is_through:
            progress = await attempts.until_done(partial(self._run_step, service, progress), held.must_stop)
            store_progress = partial(self._store_progress, service, job, progress)
            if not await attempts.until_done(store_progress, held.must_stop):
                break
            await asyncio.sleep(STEP_PAUSE_S)
        if held.has_lost_lease:
            log.warning("Lost the lease of bulk action %s; another runner continues it.", job.key)
        else:
            await self._end(service, job, progress)

    async def _run_step(self, service: Service, progress: ActionProgress) -> ActionProgress:
        listing = msgspec.structs.replace(progress.action.listing, most=self._step, cursor=progress.cursor)
        page = await _read_page(service, listing)
        # Jobs of bulk actions are left out: this action itself may be in the list.
        jobs = [job for job in page.jobs if job.queue != QUEUE]
        # Consequences follow the retry of their cause, which may be on another page.
        ids = [job.id for job in jobs if progress.action.verb != "retry" or not job.is_consequence]
        answers = await _perform(service, progress.action, ids) if ids else []
        outcomes = Counter(_outcome_of(answer) for answer in answers)
        codes = Counter(answer.code for answer in answers if _outcome_of(answer) == "refused")  # type: ignore[union-attr]
        return msgspec.structs.replace(
            progress,
            cursor=page.cursor,
            is_through=not page.cursor,
            looked_at=progress.looked_at + page.looked_at,
            done=progress.done + outcomes["done"],
            gone=progress.gone + outcomes["gone"],
            skipped=progress.skipped + outcomes["skipped"] + len(jobs) - len(ids),
            refused=progress.refused + outcomes["refused"],
            refusals=dict(Counter(progress.refusals) + codes),
        )

    async def _store_progress(self, service: Service, job: Job, progress: ActionProgress) -> bool:
        """Store the progress. Return False if the action must stop."""
        share = min(1.0, progress.looked_at / progress.total) if progress.total else 0.0
        update = Update(
            id=job.id,
            token=job.lease_token,
            progress=1.0 if progress.is_through else share,
            note=f"looked at {progress.looked_at}, done {progress.done}, refused {progress.refused}",
            payload=actions.encode_progress(progress),
        )
        answer = await service.update([update]).one()
        return not answer.is_cancel_requested

    async def _end(self, service: Service, job: Job, progress: ActionProgress) -> None:
        log.info("Bulk action %s ended: done %d, refused %d.", job.key, progress.done, progress.refused)
        if progress.is_through:
            await _report(service, job, Finish(job.id, job.lease_token))
        else:
            await _report(service, job, Fail(id=job.id, token=job.lease_token, then="cancelled", reason="cancelled"))


def _outcome_of(answer: str | Refusal) -> str:
    if not isinstance(answer, Refusal):
        return "done"
    if isinstance(answer, UnknownJob | AlreadyEnded):
        return "gone"
    return "skipped" if isinstance(answer, MemberFailed) else "refused"


async def _report(service: Service, job: Job, outcome: Outcome) -> None:
    retries = RetryLoop(log, f"Could not report the end of bulk action {job.key}", TRANSIENT)
    (answer,) = await report_outcomes(service, [outcome], retries)
    if isinstance(answer, Refusal):
        log.info("The state of bulk action %s changed before its report: %s", job.key, answer)


async def _read_page(service: Service, listing: Listing) -> Page:
    try:
        return await service.jobs(listing)
    except BadInput:
        if not listing.where:
            raise
        return Page([], "")  # no queue indexes the field any more, and no job is left


async def _perform(service: Service, action: Action, ids: Sequence[bytes]) -> Sequence[str | Refusal]:
    if action.verb == "retry":
        return await service.retry(ids)
    if action.verb == "cancel":
        return await service.cancel(ids, reason=action.reason)
    if action.verb == "requeue":
        return await service.requeue(ids)
    return await service.delete(ids)
