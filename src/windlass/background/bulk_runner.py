"""Bulk runner: executes bulk actions (service/bulk_actions.py) step by step.

After each step it writes the progress into the job of the action, so that another process can continue. At worst one
step runs twice."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Sequence

import msgspec

from windlass.core import bulk_action as actions
from windlass.core.bulk_action import QUEUE, Action, ActionProgress
from windlass.core.errors import AlreadyEnded, Refusal, UnknownJob, WindlassError
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish, LeaseRef, Page, Take, Update
from windlass.service import Service

log = logging.getLogger("windlass.background")

STEP = 200  # jobs
LEASE_MS = 30_000
WAIT_MS = 60_000
STEP_PAUSE_S = 0.005  # between steps, so that other clients get their share of the engine
TROUBLE_PAUSE_S = 1.0
RELEASE_TIMEOUT_S = 2.0


class BulkRunner:
    """Runner of bulk actions. `run` runs until it is cancelled; `run_once` does not wait and is for tests."""

    def __init__(self, *, step: int = STEP) -> None:
        self._step = step

    async def run(self, service: Service) -> None:
        while True:
            try:
                await self.run_once(service, wait_ms=WAIT_MS)
            except WindlassError as error:
                log.warning("Could not run bulk actions; retrying in %g s: %s", TROUBLE_PAUSE_S, error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    async def run_once(self, service: Service, *, wait_ms: int = 0) -> int:
        """Run the next action. Return the number of actions: one or none."""
        taken = await service.take(Take(queues=(QUEUE,), lease_ms=LEASE_MS, wait_ms=wait_ms))
        for job in taken.jobs:
            try:
                await self._run_action(service, job)
            except Refusal as refusal:  # another runner has it by now, or it was deleted
                log.info("Stopped bulk action %s: %s", job.key, refusal)
            except asyncio.CancelledError:
                with contextlib.suppress(WindlassError, TimeoutError):
                    async with asyncio.timeout(RELEASE_TIMEOUT_S):
                        await service.release([LeaseRef(job.id, job.lease_token)])
                raise
        return len(taken.jobs)

    async def _run_action(self, service: Service, job: Job) -> None:
        try:
            progress = actions.decode_progress(job.payload)
        except msgspec.MsgspecError:
            error = Blob(b'{"message":"The payload is not a bulk action. Use `act` to create one."}')
            await service.fail([Fail(id=job.id, token=job.lease_token, error=error)]).one()
            return
        log.info("Bulk action %s of %r starts: %s.", job.key, progress.action.asked_by, progress.action.verb)
        is_wanted = True
        while is_wanted and not progress.is_through:
            progress = await self._run_step(service, progress)
            is_wanted = await self._store_progress(service, job, progress)
            await asyncio.sleep(STEP_PAUSE_S)
        await self._end(service, job, progress)

    async def _run_step(self, service: Service, progress: ActionProgress) -> ActionProgress:
        listing = msgspec.structs.replace(progress.action.listing, most=self._step, cursor=progress.cursor)
        page: Page = await service.jobs(listing)
        # Jobs of bulk actions are skipped: this action itself may be in the list.
        ids = [job.id for job in page.jobs if job.queue != QUEUE]
        answers = await _perform(service, progress.action, ids) if ids else []
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        gone = sum(isinstance(refusal, UnknownJob | AlreadyEnded) for refusal in refused)
        codes = Counter(refusal.code for refusal in refused if not isinstance(refusal, UnknownJob | AlreadyEnded))
        return msgspec.structs.replace(
            progress,
            cursor=page.cursor,
            is_through=not page.cursor,
            looked_at=progress.looked_at + page.looked_at,
            done=progress.done + len(answers) - len(refused),
            gone=progress.gone + gone,
            refused=progress.refused + len(refused) - gone,
            refusals=dict(Counter(progress.refusals) + codes),
        )

    async def _store_progress(self, service: Service, job: Job, progress: ActionProgress) -> bool:
        """Store the progress and extend the lease. Return False if the action must stop."""
        share = min(1.0, progress.looked_at / progress.total) if progress.total else 0.0
        update = Update(
            id=job.id,
            token=job.lease_token,
            progress=1.0 if progress.is_through else share,
            note=f"looked at {progress.looked_at}, done {progress.done}, refused {progress.refused}",
            payload=actions.encode_progress(progress),
        )
        answer = await service.update([update]).one()
        await service.extend([LeaseRef(job.id, job.lease_token)], lease_ms=LEASE_MS).one()
        return not answer.is_cancel_requested

    async def _end(self, service: Service, job: Job, progress: ActionProgress) -> None:
        log.info("Bulk action %s ended: done %d, refused %d.", job.key, progress.done, progress.refused)
        if progress.is_through:
            await service.finish([Finish(job.id, job.lease_token)]).one()
        else:
            await service.fail([Fail(id=job.id, token=job.lease_token, then="cancelled", reason="cancelled")]).one()


async def _perform(service: Service, action: Action, ids: Sequence[bytes]) -> Sequence[str | Refusal]:
    if action.verb == "retry":
        return await service.retry(ids)
    if action.verb == "cancel":
        return await service.cancel(ids, reason=action.reason)
    if action.verb == "requeue":
        return await service.requeue(ids)
    return await service.delete(ids)
