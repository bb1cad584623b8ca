"""Fetcher: takes jobs for free slots and reports ends to the engine, in as few calls as possible.

The jobs of one call run while the engine works on another call, so that neither side waits for the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from windlass.background.outcomes import TRANSIENT, report_outcomes
from windlass.core.durable import Suspend
from windlass.core.errors import AlreadyEnded, Forbidden, Refusal, StepsFull, TooManySuspensions, WindlassError
from windlass.core.job import Job
from windlass.core.operations import ANY_JOB_WITH_STEPS, Fail, Filter, Finish, FinishedAndTaken, LeaseRef, Take
from windlass.core.states import State
from windlass.core.text.similar_names import describe_missing_task, suggest_name
from windlass.core.validation.bounds import NAMES_PER_FILTER, TAKE_MAX
from windlass.retry_loop import RetryLoop
from windlass.sdk.failures import encode_error
from windlass.service import Service
from windlass.store.waiting.take import Acceptance

from .job_log import RunReport, log_late_end
from .run import Run

log = logging.getLogger("windlass.worker")

WAIT_MS = 60_000  # a waiting take is repeated after this time
CALLS_MAX = 2  # calls in flight
HALVE_FROM = 32  # with so many slots, a call covers about half, so that the engine works while the other half runs
UNKNOWN_PAUSE_S = 5.0  # before jobs of unknown tasks are released that this worker would take again
TAKE_RETRIES = RetryLoop(log, "Could not take jobs", WindlassError)
REPORT_RETRIES = RetryLoop(log, "Could not report ended jobs", TRANSIENT)
EXCLUDE_RETRIES = RetryLoop(log, "Could not exclude jobs of unknown tasks", WindlassError, unless=Forbidden)

EndedRun = tuple[Run, Finish | Fail | Suspend | LeaseRef]


class Fetcher:
    """Connects a worker's slots with the engine.

    `names` are those of the worker's tasks. `admit` gets the jobs of a take and returns those that may start. `start`
    gets these and returns jobs whose task this worker does not know.
    """

    def __init__(
        self,
        service: Service,
        worker: bytes,
        queues: Sequence[str],
        slots: int,
        *,
        names: Collection[str],
        admit: Callable[[list[Job]], list[Job]],
        start: Callable[[list[Job]], list[Job]],
        on_reported: Callable[[Sequence[Run]], None],
        on_lost: Callable[[LeaseRef], None],
    ) -> None:
        self._service = service
        self._worker = worker
        self._queues = tuple(queues)
        self._slots = slots
        self._names = names
        self._report_size = min((slots + 1) // 2 if slots >= HALVE_FROM else slots, TAKE_MAX)  # outcomes per call
        self._admit = admit
        self._start = start
        self._on_reported = on_reported
        self._on_lost = on_lost
        self._wants: Filter = ANY_JOB_WITH_STEPS
        self._outcomes: list[EndedRun] = []
        self._occupied = 0
        self._reserved = 0  # slots that calls in flight may fill
        self._reports_in_flight = 0
        self._starting = asyncio.Lock()
        self._calls: set[asyncio.Task[None]] = set()
        self._acceptances: set[asyncio.Task[None]] = set()
        self._waiting: asyncio.Task[None] | None = None
        self._unstarted: dict[int, list[Job]] = {}  # taken, and neither started nor released yet
        self._changed = asyncio.Event()
        self.is_open = True  # takes jobs
        self.is_empty = False  # the last take found nothing
        self.error: BaseException | None = None

    # Slots

    def add_outcome(self, run: Run, outcome: RunReport) -> None:
        """Report the outcome with the next call."""
        if outcome is None:
            self._on_reported((run,))
        else:
            self._outcomes.append((run, outcome))
        self._changed.set()

    def free_slot(self) -> None:
        self._occupied -= 1
        self._changed.set()

    @property
    def occupied(self) -> int:
        return self._occupied

    @property
    def unstarted(self) -> list[Job]:
        """Jobs that were taken and do not run yet. Thread-safe."""
        return [job for jobs in list(self._unstarted.values()) for job in jobs]

    def close(self) -> None:
        """Take no more jobs and end a waiting take. Ends are still reported."""
        self.is_open = False
        if self._waiting is not None:
            self._waiting.cancel()
        self._changed.set()

    # Calls

    async def step(self, until_s: float | None = None, *, waits: bool = True) -> None:
        """Make one decision, or wait until there is something to decide."""
        if self.error is not None:
            raise self.error
        if self._send_if_due():
            return
        if self._free > 0 and self._waiting is None and not self._calls and not self._outcomes:
            self._start_take(self._free, waits)
        else:
            await self.wait_for_change(until_s)

    @property
    def _free(self) -> int:
        return self._slots - self._occupied - self._reserved if self.is_open else 0

    def _send_if_due(self) -> bool:
        is_due = bool(self._outcomes) and self._reports_in_flight < CALLS_MAX
        if is_due:
            self._finish_and_take()
        return is_due

    async def wait_for_change(self, until_s: float | None) -> None:
        try:
            async with asyncio.timeout_at(until_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def drain(self) -> None:
        """Wait until all ends are reported."""
        while self._outcomes or self._calls:
            await self.step()

    def _finish_and_take(self) -> None:
        """Report a batch of ends and take jobs. Slots of ends that are left are filled by the next call."""
        outcomes, self._outcomes = self._outcomes[: self._report_size], self._outcomes[self._report_size :]
        most = min(max(0, self._free - len(self._outcomes)), TAKE_MAX)
        self._reserved += most
        self._reports_in_flight += 1
        call = asyncio.create_task(self._receive(self._send(outcomes, most), outcomes, most))
        self._calls.add(call)
        call.add_done_callback(self._call_done)

    def _send(self, outcomes: list[EndedRun], most: int) -> Coroutine[Any, Any, FinishedAndTaken] | None:
        """Send the finish-and-take call. Returns None if nothing can be taken, so that ends are only reported."""
        if most <= 0 or any(type(outcome) in _SEPARATE for _, outcome in outcomes):
            return None
        finishes = [outcome for _, outcome in _of_type(outcomes, Finish)]
        failures = [outcome for _, outcome in _of_type(outcomes, Fail)] if len(finishes) < len(outcomes) else []
        return self._service.finish_and_take(finishes, failures, self._request(most)).start()

    def _start_take(self, most: int, waits: bool) -> None:
        most = min(most, TAKE_MAX)
        self._reserved += most
        self._waiting = asyncio.create_task(self._take(most, WAIT_MS if waits else 0))
        self._waiting.add_done_callback(self._call_done)

    def _call_done(self, done: asyncio.Task[None]) -> None:
        self._calls.discard(done)
        if self._waiting is done:
            self._waiting = None
        if not done.cancelled() and (error := done.exception()) is not None:
            self.error = error
        self._changed.set()

    def _request(self, most: int, wait_ms: int = 0) -> Take:
        return Take(
            queues=self._queues, most=most, wants=self._wants, worker=self._worker, wait_ms=wait_ms, by_hand=wait_ms > 0
        )

    async def _take(self, most: int, wait_ms: int) -> None:
        jobs: list[Job] = []
        received: list[Job] = []
        unknown: list[Job] = []

        def receive(job: Job, accept: Callable[[], Acceptance]) -> bool:
            """Start a job that was handed over with a wakeup. Only its acceptance precedes its code."""
            if not self.is_open or len(received) >= most:
                return False
            received.append(job)
            unknown.extend(self._start_handed_over(job, accept))
            return True

        try:
            jobs = (await self._service.take(self._request(most, wait_ms), receive=receive)).jobs
            jobs = [self._accept(job) if job.state is State.DISPATCHED else job for job in jobs]
        except WindlassError as error:
            await TAKE_RETRIES.pause_after(error)
            return
        finally:
            self._reserved -= most
        if received:
            self.is_empty = False
            await self._return_unknown(unknown)
        else:
            await self._start_taken(jobs)

    # A handed-over job must be accepted. The acceptance is sent before the code runs, so that the attempt counts even
    # if the code ends this process. Its answer is read after the code has started.

    def _start_handed_over(self, job: Job, accept: Callable[[], Acceptance]) -> list[Job]:
        """Start a handed-over job. Runs inside the wakeup's callback, so it must not raise."""
        self._occupied += 1
        try:
            acceptance = accept()
            unknown = self._start([replace(job, state=State.RUNNING)])
            asyncio.get_running_loop().call_soon(self._watch_acceptance, job, acceptance)
        except Exception as error:
            self.error = error
            return []
        return unknown

    def _accept(self, job: Job) -> Job:
        self._watch_acceptance(job, self._service.accept([LeaseRef(job.id, job.lease_token)]).one().start())
        return replace(job, state=State.RUNNING)

    def _watch_acceptance(self, job: Job, acceptance: Acceptance) -> None:
        watch = asyncio.create_task(self._await_acceptance(job, acceptance))
        self._acceptances.add(watch)
        watch.add_done_callback(self._acceptances.discard)

    async def _await_acceptance(self, job: Job, acceptance: Acceptance) -> None:
        try:
            await acceptance
        except AlreadyEnded:
            return
        except Refusal:
            self._on_lost(LeaseRef(job.id, job.lease_token))
        except WindlassError as error:
            log.warning("Could not accept job %s: %s. The next heartbeat checks its lease.", job.key, error)

    async def _receive(
        self, sent: Coroutine[Any, Any, FinishedAndTaken] | None, outcomes: list[EndedRun], most: int
    ) -> None:
        jobs: list[Job] | None = None
        try:
            jobs = await self._receive_answer(sent, outcomes)
        finally:
            self._reserved -= most
            self._reports_in_flight -= 1
        if jobs is not None:
            await self._start_taken(jobs)

    async def _receive_answer(
        self, sent: Coroutine[Any, Any, FinishedAndTaken] | None, outcomes: list[EndedRun]
    ) -> list[Job] | None:
        """Return the jobs that were taken, or None without a take. While the engine is away, reports are repeated."""
        if sent is None:
            await self._report(outcomes)
            return None
        try:
            answer = await sent
        except WindlassError as error:
            await REPORT_RETRIES.pause_after(error)
            await self._report(outcomes)
            return None
        self._record_answers(_of_type(outcomes, Finish), answer.finished)
        self._record_answers(_of_type(outcomes, Fail), answer.failed)
        return answer.taken.jobs

    async def _report(self, outcomes: list[EndedRun]) -> None:
        answers = await report_outcomes(self._service, [outcome for _, outcome in outcomes], REPORT_RETRIES)
        refused = [
            (run, _make_unsuspendable(outcome, answer))
            for (run, outcome), answer in zip(outcomes, answers, strict=True)
            if type(outcome) is Suspend and isinstance(answer, _UNSUSPENDABLE)
        ]
        self._record_answers(outcomes, answers)
        if refused:
            await report_outcomes(self._service, [failure for _, failure in refused], REPORT_RETRIES)

    def _record_answers(self, ended: Sequence[EndedRun], answers: Sequence[Any]) -> None:
        for (run, outcome), answer in zip(ended, answers, strict=True):
            if answer is None:  # accepted, as mostly
                continue
            if isinstance(answer, AlreadyEnded):  # a repeated report, or a late one
                log_late_end(run)
            elif isinstance(answer, Refusal):
                kind = type(outcome).__name__.lower()
                log.warning("The engine refused the %s of job %s (%s): %s", kind, run.job.key, run.job.name, answer)
        self._on_reported([run for run, _ in ended])

    async def _start_taken(self, jobs: list[Job]) -> None:
        self.is_empty = not jobs
        jobs = self._admit(jobs)
        if not jobs:
            return
        self._unstarted[id(jobs)] = jobs
        try:
            await self._start_admitted(jobs)
        finally:
            del self._unstarted[id(jobs)]

    async def _start_admitted(self, jobs: list[Job]) -> None:
        if not self.is_open:  # closed during the take; if this fails, the jobs are released when the worker deregisters
            with contextlib.suppress(WindlassError):
                await self._service.release([LeaseRef(job.id, job.lease_token) for job in jobs])
            return
        self._occupied += len(jobs)
        if self._report_size < self._slots:
            unknown = await self._start_interleaved(jobs)
        else:
            unknown = self._start(jobs)
        await self._return_unknown(unknown)

    async def _return_unknown(self, jobs: list[Job]) -> None:
        if jobs:
            self._occupied -= len(jobs)
            self._unstarted[id(jobs)] = jobs
            try:
                await self._exclude_names(jobs)
            finally:
                del self._unstarted[id(jobs)]

    async def _start_interleaved(self, jobs: list[Job]) -> list[Job]:
        """Start half of the slots while the other half is reported.

        Two halves that start together would end together and be reported together: the engine would be idle while their
        code runs, and the reverse. So ended jobs are sent off before the next half starts.
        """
        async with self._starting:
            self._send_if_due()
            unknown = self._start(jobs)
            await asyncio.sleep(0)  # lets their code run until its first wait
            self._send_if_due()
            await asyncio.sleep(0)  # lets the call be sent
        return unknown

    async def _exclude_names(self, jobs: list[Job]) -> None:
        """Return jobs of unknown tasks to their own lane, where they wait for a worker that knows them."""
        unknown = {job.name for job in jobs}
        for name in sorted(unknown):
            missing = describe_missing_task("This worker has no", name, suggest_name(name, self._names))
            log.warning("%s Its jobs wait for a worker that has it.", missing)
        names = {*self._wants.all_but, *unknown}
        if len(names) > NAMES_PER_FILTER:  # the filter cannot hold all names: delay the next take of these jobs
            await asyncio.sleep(UNKNOWN_PAUSE_S)
        leases = [LeaseRef(job.id, job.lease_token) for job in jobs]

        async def exclude() -> None:
            for queue in self._queues:
                await self._service.configure(queue, {"name_lanes": True})
            self._wants = Filter(all_but=tuple(sorted(names))[:NAMES_PER_FILTER], steps=True)
            await self._service.release(leases)

        try:
            await EXCLUDE_RETRIES.until_done(exclude)
        except Forbidden as refusal:  # this worker will take them again: delay that
            log.warning("%s: %s. They are released in %g s.", EXCLUDE_RETRIES.failure, refusal, UNKNOWN_PAUSE_S)
            await asyncio.sleep(UNKNOWN_PAUSE_S)
            await self._service.release(leases)


_SEPARATE = (Suspend, LeaseRef)  # not part of a finish-and-take
_UNSUSPENDABLE = (TooManySuspensions, StepsFull)


def _make_unsuspendable(outcome: Suspend, refusal: Refusal) -> Fail:
    """Make the failure of a job that cannot be suspended: a further attempt would end in the same way."""
    error = encode_error(type(refusal).__name__, str(refusal))
    return Fail(id=outcome.id, token=outcome.token, then="final", reason=refusal.code, error=error)


def _of_type(outcomes: Sequence[EndedRun], kind: type[Any]) -> list[tuple[Run, Any]]:
    return [ended for ended in outcomes if type(ended[1]) is kind]
