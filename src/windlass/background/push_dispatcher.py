"""Push dispatcher: pushes jobs to workers that registered with a URL.

The engine chooses the worker of each job and stores the state of the workers, so any number of processes may push. A
process that dies loses nothing: jobs that were not accepted go back to their queue."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from windlass.core.errors import Refusal, WindlassError
from windlass.core.job import Blob, Job
from windlass.core.operations import Dispatch, Fail, PushOutcome, PushReport, Redirect
from windlass.outbound import Outbound, RequestFailed
from windlass.pauses import random_fraction
from windlass.retry_loop import RetryLoop
from windlass.service import Service

from .push_message import address_of, headers_of, lease_ms_of, message_of, outcome_of, pause_ms_of, retry_of

log = logging.getLogger("windlass.background")

WAIT_MS = 60_000
IN_FLIGHT_MAX = 200  # pushes
ANSWER_S = 5.0  # a worker accepts a job at once, before it runs it
ACCEPT_MS = 10_000  # longer than ANSWER_S; after it the engine takes the job back
ANSWER_MAX = 64 * 1024
REPORT_S = 1.0  # to report accepted jobs when this process stops


class PushDispatcher:
    """Dispatcher of jobs to push workers. `run` runs until it is cancelled; `push_once` is one round for tests."""

    def __init__(self, outbound: Outbound, *, answer_s: float = ANSWER_S, accept_ms: int = ACCEPT_MS) -> None:
        self._outbound = outbound
        self._answer_s = answer_s
        self._accept_ms = accept_ms

    async def run(self, service: Service) -> None:
        """Push the jobs of each partition in a task of its own. While no worker has a URL, a task waits for a wakeup
        and polls once a minute."""
        async with asyncio.TaskGroup() as group:
            for partition in range(service.store.partitions):
                group.create_task(self._run_within(service.within(partition)), name=f"windlass-dispatcher-{partition}")

    async def _run_within(self, service: Service) -> None:
        pushing: set[asyncio.Task[None]] = set()

        async def dispatch() -> None:
            most = IN_FLIGHT_MAX - len(pushing)
            found = await service.dispatch(most=most, accept_ms=self._accept_ms, wait_ms=WAIT_MS)
            for job in found.jobs:
                task = asyncio.create_task(self._push(service, job, found))
                pushing.add(task)
                task.add_done_callback(pushing.discard)
            while len(pushing) >= IN_FLIGHT_MAX:
                await asyncio.wait(pushing, return_when=asyncio.FIRST_COMPLETED)

        try:
            await RetryLoop(log, "Could not lease jobs for push workers", WindlassError).forever(dispatch)
        finally:
            # A job that a worker accepts while this process stops must be reported, or it would be pushed again.
            if pushing:
                await asyncio.wait(pushing, timeout=self._answer_s + REPORT_S)
            for task in pushing:
                task.cancel()
            await asyncio.gather(*pushing, return_exceptions=True)

    async def push_once(self, service: Service) -> int:
        found = await service.dispatch(most=IN_FLIGHT_MAX, accept_ms=self._accept_ms)
        await asyncio.gather(*(self._push(service, job, found) for job in found.jobs))
        return len(found.jobs)

    async def _push(self, service: Service, job: Job, found: Dispatch) -> None:
        """Push a job to its worker, and to other workers while they refuse it."""
        refused_by: tuple[bytes, ...] = ()
        try:
            while True:
                worker = job.worker or b""
                outcome, pause_ms = await self._send(job, worker, found)
                if outcome is not None:
                    await self._report(service, job, worker, outcome, pause_ms)
                    return
                refused_by += (worker,)
                request = Redirect(id=job.id, token=job.lease_token, refused_by=refused_by, accept_ms=self._accept_ms)
                again = await service.redirect(request)
                if again == "no_worker":
                    await _fail(service, job, "Every worker has refused the job as invalid (400).")
                if not isinstance(again, Dispatch):
                    return
                found, (job,) = again, again.jobs
        except Refusal as refusal:
            log.debug("The state of job %s changed during its push: %s", job.key, refusal)
        except WindlassError as error:
            log.warning("Could not report the push of job %s; it goes back to its queue: %s", job.key, error)

    async def _send(self, job: Job, worker: bytes, found: Dispatch) -> tuple[PushOutcome | None, int]:
        """Send a job to its worker. Return the outcome, None if the worker refuses the job, and the pause that a busy
        worker asks for."""
        message = message_of(job, found.fixed_leases_ms.get(job.id, 0))
        if message is None:
            return None, 0
        url = address_of(found.workers[worker].url)
        try:
            answered = await self._outbound.post(
                url, message, headers_of(worker), timeout_s=self._answer_s, answer_max=ANSWER_MAX
            )
        except (RequestFailed, Refusal) as error:
            log.info("Could not push job %s: %s", job.key, error)
            return "unreachable", 0
        outcome = outcome_of(answered.status)
        if outcome in ("busy", "unreachable"):
            log.info("Could not push job %s: %s answered %d.", job.key, url, answered.status)
        return outcome, pause_ms_of(answered.headers, time.time())

    async def _report(self, service: Service, job: Job, worker: bytes, outcome: PushOutcome, pause_ms: int) -> None:
        request = PushReport(
            id=job.id,
            token=job.lease_token,
            worker=worker,
            outcome=outcome,
            lease_ms=lease_ms_of(job),
            pause_ms=pause_ms,
        )
        state = await service.pushed([request]).one()
        if outcome == "unknown" and state == "scheduled" and await divide_by_name(service, job.queue):
            log.info(
                "A push worker does not know the name %r. The queue %r now has name lanes, so that it gets other jobs.",
                job.name,
                job.queue,
            )


async def divide_by_name(service: Service, queue: str) -> bool:
    """Give a queue a lane per name, so that a name that a worker does not know does not block other names. Return False
    if it has them already."""
    if (await service.configuration(queue)).name_lanes:
        return False
    await service.configure(queue, {"name_lanes": True})
    return True


async def _fail(service: Service, job: Job, message: str) -> None:
    """Fail the attempt. A refused job spends an attempt too; otherwise it would be pushed forever."""
    retry = retry_of(job)
    delay_ms = retry.delay_ms(job.attempt, random_fraction())
    wants_retry = retry.wants_retry(job.attempt)
    failure = Fail(
        id=job.id,
        token=job.lease_token,
        then="retry" if wants_retry else "final",
        delay_ms=delay_ms if wants_retry else 0,
        reason="other",
        error=Blob(msgspec.json.encode({"message": message})),
    )
    await service.fail([failure]).one()
