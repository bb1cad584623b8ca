"""Between a worker's slots and the engine: takes as many jobs as slots are free, and reports ends, in as few calls as
possible. While the engine works on one call, the code of the jobs that another brought runs: neither side waits for the
other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from windlass.core.errors import (
    AlreadyEnded,
    EngineError,
    EngineFull,
    EngineUnavailable,
    Forbidden,
    Refusal,
    WindlassError,
)
from windlass.core.job import Job
from windlass.core.operations import ANYTHING, Exchanged, Fail, Filter, Finish, Held, Take
from windlass.core.states import State
from windlass.core.validation.bounds import NAMES_PER_FILTER, TAKE_MAX
from windlass.service import Service
from windlass.store.waiting.take import Acceptance

from .run import Run
from .runner import RunReport

log = logging.getLogger("windlass.worker")

WAIT_MS = 60_000  # a take that waits is asked anew after so long
CALLS_MAX = 2  # calls on their way at once
HALVED_FROM = 32  # slots: from here on a call is about half of them, so that the engine works while their code does
TROUBLE_PAUSE_S = 1.0
CROWDED_PAUSE_S = 5.0

EndedRun = tuple[Run, Finish | Fail | Held]


class Fetcher:
    """`admit` is given the jobs that a take has brought, and answers those that may begin. `start` is given these, and
    answers those whose task nobody here knows."""

    def __init__(
        self,
        service: Service,
        worker: bytes,
        queues: Sequence[str],
        slots: int,
        *,
        admit: Callable[[list[Job]], list[Job]],
        start: Callable[[list[Job]], list[Job]],
        told: Callable[[Sequence[Run]], None],
        lost: Callable[[Job], None],
    ) -> None:
        self._service = service
        self._worker = worker
        self._queues = tuple(queues)
        self._slots = slots
        self._at_once = min((slots + 1) // 2 if slots >= HALVED_FROM else slots, TAKE_MAX)  # outcomes of one call
        self._admit = admit
        self._start = start
        self._told = told
        self._lost = lost
        self._wants: Filter = ANYTHING
        self._outcomes: list[EndedRun] = []
        self._occupied = 0
        self._promised = 0  # slots that calls on their way may fill
        self._on_their_way = 0  # calls that report
        self._starting = asyncio.Lock()
        self._talks: set[asyncio.Task[None]] = set()
        self._acceptances: set[asyncio.Task[None]] = set()
        self._waiting: asyncio.Task[None] | None = None
        self._unstarted: dict[int, list[Job]] = {}  # taken, and neither begun nor given back yet
        self._changed = asyncio.Event()
        self.is_open = True  # takes more
        self.is_empty = False  # the last look found nothing
        self.trouble: BaseException | None = None

    # What happens at the slots

    def ended(self, run: Run, outcome: RunReport) -> None:
        """The outcome is reported with the next call."""
        if outcome is None:
            self._told((run,))
        else:
            self._outcomes.append((run, outcome))
        self._changed.set()

    def vacated(self) -> None:
        self._occupied -= 1
        self._changed.set()

    @property
    def occupied(self) -> int:
        return self._occupied

    @property
    def unstarted(self) -> list[Job]:
        """Jobs in hand whose code does not run. May be asked in any thread."""
        return [job for jobs in list(self._unstarted.values()) for job in jobs]

    def close(self) -> None:
        """Takes no more; a take that waits ends. Ends are still reported."""
        self.is_open = False
        if self._waiting is not None:
            self._waiting.cancel()
        self._changed.set()

    # Its work

    async def turn(self, until_s: float | None = None, *, waits: bool = True) -> None:
        """One decision, or waiting until there is something to decide."""
        if self.trouble is not None:
            raise self.trouble
        if self._talk_if_due():
            return
        if self._free > 0 and self._waiting is None and not self._talks and not self._outcomes:
            self._look(self._free, waits)
        else:
            await self.change(until_s)

    @property
    def _free(self) -> int:
        return self._slots - self._occupied - self._promised if self.is_open else 0

    def _talk_if_due(self) -> bool:
        is_due = bool(self._outcomes) and self._on_their_way < CALLS_MAX
        if is_due:
            self._talk()
        return is_due

    async def change(self, until_s: float | None) -> None:
        try:
            async with asyncio.timeout_at(until_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def drained(self) -> None:
        """Everything that ended is reported."""
        while self._outcomes or self._talks:
            await self.turn()

    def _talk(self) -> None:
        """Slots of what waits for the next call are left to that one."""
        outcomes, self._outcomes = self._outcomes[: self._at_once], self._outcomes[self._at_once :]
        most = min(max(0, self._free - len(self._outcomes)), TAKE_MAX)
        self._promised += most
        self._on_their_way += 1
        talk = asyncio.create_task(self._exchange(self._sent(outcomes, most), outcomes, most))
        self._talks.add(talk)
        talk.add_done_callback(self._finished)

    def _sent(self, outcomes: list[EndedRun], most: int) -> Coroutine[Any, Any, Exchanged] | None:
        """On its way to the engine; None: what ended is reported without taking."""
        if most <= 0 or _of_type(outcomes, Held):
            return None
        finishes = [outcome for _, outcome in _of_type(outcomes, Finish)]
        failures = [outcome for _, outcome in _of_type(outcomes, Fail)] if len(finishes) < len(outcomes) else []
        return self._service.finish_and_take(finishes, failures, self._request(most)).sent()

    def _look(self, most: int, waits: bool) -> None:
        most = min(most, TAKE_MAX)
        self._promised += most
        self._waiting = asyncio.create_task(self._take(most, WAIT_MS if waits else 0))
        self._waiting.add_done_callback(self._finished)

    def _finished(self, done: asyncio.Task[None]) -> None:
        self._talks.discard(done)
        if self._waiting is done:
            self._waiting = None
        if not done.cancelled() and (error := done.exception()) is not None:
            self.trouble = error
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
            """As soon as the ring is heard: nothing lies between that and its code but its acceptance."""
            if not self.is_open or len(received) >= most:
                return False
            received.append(job)
            unknown.extend(self._begin_at_once(job, accept))
            return True

        try:
            jobs = (await self._service.take(self._request(most, wait_ms), receive=receive)).jobs
            jobs = [self._taken_on(job) if job.state is State.DISPATCHED else job for job in jobs]
        except WindlassError as error:
            log.warning("Nothing can be taken (%s); still trying.", error)
            await asyncio.sleep(TROUBLE_PAUSE_S)
            return
        finally:
            self._promised -= most
        if received:
            self.is_empty = False
            await self._unknown(unknown)
        else:
            await self._begin(jobs)

    # What was handed over is accepted. That is sent before its code runs, so that its attempt counts also when the code
    # ends this process; what it answers is heard after its code was begun.

    def _begin_at_once(self, job: Job, accept: Callable[[], Acceptance]) -> list[Job]:
        """In the turn of the bell, which goes on whatever happens here."""
        self._occupied += 1
        try:
            acceptance = accept()
            unknown = self._start([replace(job, state=State.RUNNING)])
            asyncio.get_running_loop().call_soon(self._hear, job, acceptance)
        except Exception as error:
            self.trouble = error
            return []
        return unknown

    def _taken_on(self, job: Job) -> Job:
        self._hear(job, self._service.accept([Held(job.id, job.lease_token)]).one().sent())
        return replace(job, state=State.RUNNING)

    def _hear(self, job: Job, acceptance: Acceptance) -> None:
        hearing = asyncio.create_task(self._accepted(job, acceptance))
        self._acceptances.add(hearing)
        hearing.add_done_callback(self._acceptances.discard)

    async def _accepted(self, job: Job, acceptance: Acceptance) -> None:
        try:
            await acceptance
        except AlreadyEnded:
            return
        except Refusal:
            self._lost(job)
        except WindlassError as error:  # whose it is is seen when it is extended
            log.warning("What was handed over cannot be accepted (%s).", error)

    async def _exchange(self, sent: Coroutine[Any, Any, Exchanged] | None, outcomes: list[EndedRun], most: int) -> None:
        jobs: list[Job] | None = None
        try:
            jobs = await self._exchanged(sent, outcomes)
        finally:
            self._promised -= most
            self._on_their_way -= 1
        if jobs is not None:
            await self._begin(jobs)

    async def _exchanged(
        self, sent: Coroutine[Any, Any, Exchanged] | None, outcomes: list[EndedRun]
    ) -> list[Job] | None:
        """What was taken, if anybody asked. The engine may be away: what ended is told when it is back."""
        if sent is None:
            await self._report(outcomes)
            return None
        try:
            answer = await sent
        except WindlassError as error:
            log.warning("What has ended cannot be reported (%s); still trying.", error)
            await asyncio.sleep(TROUBLE_PAUSE_S)
            await self._report(outcomes)
            return None
        self._note(_of_type(outcomes, Finish), answer.finished)
        self._note(_of_type(outcomes, Fail), answer.failed)
        return answer.taken.jobs

    async def _report(self, outcomes: list[EndedRun]) -> None:
        while True:
            try:
                for kind, ask in (
                    (Finish, self._service.finish),
                    (Fail, self._service.fail),
                    (Held, self._service.release),
                ):
                    part = _of_type(outcomes, kind)
                    if part:
                        self._note(part, await ask([outcome for _, outcome in part]))
                        outcomes = [one for one in outcomes if not isinstance(one[1], kind)]
                return
            except (EngineUnavailable, EngineError, EngineFull) as error:
                log.warning("What has ended cannot be reported (%s); still trying.", error)
                await asyncio.sleep(TROUBLE_PAUSE_S)

    def _note(self, told: Sequence[EndedRun], answers: Sequence[Any]) -> None:
        for (run, outcome), answer in zip(told, answers, strict=True):
            if answer is None:  # ended well, as mostly
                continue
            if isinstance(answer, Refusal) and not isinstance(answer, AlreadyEnded):  # that one went through before
                kind = type(outcome).__name__.lower()
                log.warning("Job %s (%s): its %s was refused: %s", run.job.key, run.job.name, kind, answer)
        self._told([run for run, _ in told])

    async def _begin(self, jobs: list[Job]) -> None:
        self.is_empty = not jobs
        jobs = self._admit(jobs)
        if not jobs:
            return
        self._unstarted[id(jobs)] = jobs
        try:
            await self._begin_all(jobs)
        finally:
            del self._unstarted[id(jobs)]

    async def _begin_all(self, jobs: list[Job]) -> None:
        if not self.is_open:  # closed while they were on their way; if this fails, they go back when the worker leaves
            with contextlib.suppress(WindlassError):
                await self._service.release([Held(job.id, job.lease_token) for job in jobs])
            return
        self._occupied += len(jobs)
        if self._at_once < self._slots:
            unknown = await self._start_apart(jobs)
        else:
            unknown = self._start(jobs)
        await self._unknown(unknown)

    async def _unknown(self, jobs: list[Job]) -> None:
        if jobs:
            self._occupied -= len(jobs)
            self._unstarted[id(jobs)] = jobs
            try:
                await self._set_aside(jobs)
            finally:
                del self._unstarted[id(jobs)]

    async def _start_apart(self, jobs: list[Job]) -> list[Job]:
        """Two halves that come together would end together and be reported together: the engine would stand still while
        their code runs, and the other way round. So what has ended leaves before the next half begins."""
        async with self._starting:
            self._talk_if_due()
            unknown = self._start(jobs)
            await asyncio.sleep(0)  # their code runs, at least until it waits
            self._talk_if_due()
            await asyncio.sleep(0)  # and this leaves
        return unknown

    async def _set_aside(self, jobs: list[Job]) -> None:
        """Jobs of names that nobody here knows wait where they are seen, for a worker that does."""
        names = {*self._wants.all_but, *(job.name for job in jobs)}
        log.warning("No task here is called %s; such jobs wait for a worker that knows them.", ", ".join(sorted(names)))
        if len(names) > NAMES_PER_FILTER:  # the filter cannot hold all of them: at least they are not met at once again
            await asyncio.sleep(CROWDED_PAUSE_S)
        while True:
            try:
                for queue in self._queues:
                    await self._service.configure(queue, {"name_lanes": True})
                self._wants = Filter(all_but=tuple(sorted(names))[:NAMES_PER_FILTER])
                await self._service.release([Held(job.id, job.lease_token) for job in jobs])
                return
            except Forbidden as refusal:  # then they are met again, but not at once
                log.warning("They cannot be set aside: %s", refusal)
                await asyncio.sleep(CROWDED_PAUSE_S)
                await self._service.release([Held(job.id, job.lease_token) for job in jobs])
                return
            except WindlassError as error:
                log.warning("Jobs of other names cannot be set aside (%s); still trying.", error)
                await asyncio.sleep(TROUBLE_PAUSE_S)


def _of_type(outcomes: Sequence[EndedRun], kind: type[Any]) -> list[tuple[Run, Any]]:
    return [one for one in outcomes if type(one[1]) is kind]
