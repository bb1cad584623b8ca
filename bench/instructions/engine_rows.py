"""Loads whose instructions are counted in the engine."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Sequence

from windlass.engine_api import Blob, Finish, Job, LeaseRef, NewJob, Service, Settings, Take, WorkerInfo, build_store

from .engine import CountedEngine

QUEUE = "bench"
WORKER = b"w" * 16
WAIT_MS = 120_000
QUIET_S = 0.3  # without commands for so long, the engine has finished a load
LIMIT_S = 120.0
RESULT = Blob(b'{"ok":true}')


class EngineLoad:
    """Loads on a counted engine. Each returns the instructions per job."""

    def __init__(self, engine: CountedEngine) -> None:
        self._engine = engine
        self._serial = 0
        self._control = socket.socket(socket.AF_UNIX)
        self._control.connect(str(engine.socket_path))

    # Loads

    def enqueue(self, per_call: int, calls: int, *, is_general: bool = False) -> float:
        with self._service() as service:
            loads = [self._jobs(per_call, is_general=is_general) for _ in range(calls + 2)]
            for jobs in loads[:2]:
                service.enqueue(jobs).wait()
            with self._engine.counted() as count:
                for jobs in loads[2:]:
                    service.enqueue(jobs).wait()
        return count.instructions / (per_call * calls)

    def enqueue_numbered(self, per_call: int, calls: int) -> float:
        loads = [
            [NewJob(queue=QUEUE, name="noop", unique="noop", unique_check="none", unique_while_kept=True)] * per_call
            for _ in range(calls + 2)
        ]
        with self._service() as service:
            service.configure(QUEUE, {"name_lanes": True}).wait()  # as Bedrock's queue
            for jobs in loads[:2]:
                service.enqueue_numbered(jobs).wait()
            with self._engine.counted() as count:
                for jobs in loads[2:]:
                    service.enqueue_numbered(jobs).wait()
        return count.instructions / (per_call * calls)

    def take_and_finish(self, rounds: int, per_round: int = 10) -> tuple[float, float]:
        """Take and finish one job per call. Few jobs run at once, as with a worker that has few slots."""
        taking = finishing = 0
        with self._service() as service:
            self._fill(service, (rounds + 1) * per_round)
            for at in range(rounds + 1):
                with self._engine.counted() as takes:
                    jobs = [self._take(service, 1)[0] for _ in range(per_round)]
                with self._engine.counted() as finishes:
                    for job in jobs:
                        service.finish(_finishes([job])).wait()
                taking += takes.instructions if at else 0
                finishing += finishes.instructions if at else 0
        return taking / (rounds * per_round), finishing / (rounds * per_round)

    def finish_and_take(
        self, per_call: int, calls: int, *, is_general: bool = False, result: Blob | None = None
    ) -> float:
        with self._service() as service:
            self._fill(service, per_call * (calls + 3), is_general=is_general, is_kept=result is not None)
            running = self._take(service, per_call)
            running = self._exchange(service, running, result)
            with self._engine.counted() as count:
                for _ in range(calls):
                    running = self._exchange(service, running, result)
        return count.instructions / (per_call * calls)

    def await_results(self, per_call: int, calls: int) -> float:
        """Finish and take jobs whose callers wait: all instructions until the callers have their results."""
        return asyncio.run(self._await_results(per_call, calls))

    async def _await_results(self, per_call: int, calls: int) -> float:
        instructions = 0
        with self._service() as service:
            self._fill(service, per_call * (calls + 2))
            running = self._take(service, per_call)
            async with build_store(self._settings()) as waiting_store:
                waiting = Service(waiting_store)
                for at in range(calls + 1):
                    results = [asyncio.ensure_future(_ending(waiting, job)) for job in running]
                    await self._become_quiet()
                    with self._engine.counted() as count:
                        running = self._exchange(service, running, None)
                        await asyncio.gather(*results)
                        await asyncio.sleep(QUIET_S)  # the waiting store listens again
                    instructions += count.instructions if at else 0
        return instructions / (per_call * calls)

    def hand_off(self, times: int) -> float:
        """Enqueue a job to a waiting worker, which accepts it. The rest of the job is not counted.

        Each job has another queue. In the same queue, a hand-off more than two seconds after another needs the
        recoverer in between, which does not run here."""
        return asyncio.run(self._hand_off(times))

    async def _hand_off(self, times: int) -> float:
        found: list[int] = []
        with self._service() as service:
            async with build_store(self._settings()) as waiting_store:
                waiting = Service(waiting_store)
                for number in range(2 * times):
                    found += await self._hand_off_in(f"{QUEUE}{number}", service, waiting)
                    if len(found) > times:
                        return sum(found[1:]) / times
        raise RuntimeError("too many jobs were not handed over")

    async def _hand_off_in(self, queue: str, service: Service, waiting: Service) -> list[int]:
        """Return the instructions, or an empty list if the job was too long on its way: then the worker takes it."""
        service.enqueue([NewJob(queue=queue, name="noop")]).wait()  # a queue is known from its first job on
        service.finish(_finishes(self._take(service, 1, queue))).wait()
        request = Take(queues=(queue,), worker=WORKER, wait_ms=WAIT_MS, by_hand=True)
        take = asyncio.ensure_future(_taken(waiting, request))
        await self._become_quiet()
        with self._engine.counted() as count:
            service.enqueue([NewJob(queue=queue, name="noop")]).wait()
            (job,) = await take
            is_handed_over = job.state.label == "dispatched"
            if is_handed_over:
                await waiting.accept([LeaseRef(job.id, job.lease_token)])
            await asyncio.sleep(QUIET_S)  # the waiting store listens again
        await waiting.finish(_finishes([job]))
        return [count.instructions] if is_handed_over else []

    def store_steps(self, per_call: int, calls: int) -> float:
        """Store steps of running jobs. Each job gets a step per call, as jobs that run at the same time do."""
        with self._service() as service:
            self._fill(service, per_call)
            jobs = self._take(service, per_call)
            _store_steps(service, jobs, "first")
            with self._engine.counted() as count:
                for at in range(calls):
                    _store_steps(service, jobs, f"charge:{at}")
        return count.instructions / (per_call * calls)

    def read_steps(self, steps: int, jobs: int) -> float:
        """Read the stored steps of a job that runs again. Returns the instructions per step."""
        with self._service() as service:
            self._fill(service, jobs)
            taken = self._take(service, jobs)
            for at in range(steps):
                _store_steps(service, taken, f"charge:{at}")
            with self._engine.counted() as count:
                for job in taken:
                    service.durable_states([job.id]).wait()
        return count.instructions / (steps * jobs)

    # Parts of loads

    def _settings(self) -> Settings:
        return Settings(url=self._engine.url)

    @contextlib.contextmanager
    def _service(self) -> Iterator[Service]:
        """Open a service on an empty engine, with a registered worker."""
        self._call("FLUSHALL SYNC")
        store = build_store(self._settings())
        try:
            service = Service(store)
            service.register(WORKER, WorkerInfo(queues=(QUEUE,), slots=100), beat_ms=10 * WAIT_MS).wait()
            yield service
        finally:
            store.close_sync()

    def _jobs(self, count: int, *, is_general: bool = False, is_kept: bool = False) -> list[NewJob]:
        if not is_general:
            return [NewJob(queue=QUEUE, name="noop", result_ttl_ms=600_000 if is_kept else 0)] * count
        first, self._serial = self._serial, self._serial + count
        return [
            NewJob(queue=QUEUE, name="noop", lane=f"lane{at % 4}", tags=("tag",), unique=f"key{at}")
            for at in range(first, first + count)
        ]

    def _fill(self, service: Service, count: int, *, is_general: bool = False, is_kept: bool = False) -> None:
        for start in range(0, count, 1_000):
            service.enqueue(self._jobs(min(1_000, count - start), is_general=is_general, is_kept=is_kept)).wait()

    def _take(self, service: Service, most: int, queue: str = QUEUE) -> list[Job]:
        jobs = service.take(Take(queues=(queue,), most=most, worker=WORKER)).wait().jobs
        assert len(jobs) == most, "the queue was empty too early"
        return jobs

    def _exchange(self, service: Service, running: Sequence[Job], result: Blob | None) -> list[Job]:
        request = Take(queues=(QUEUE,), most=len(running), worker=WORKER)
        answer = service.finish_and_take(_finishes(running, result), [], request).wait()
        assert answer.finished == [None] * len(running), "a finish was refused"
        assert len(answer.taken.jobs) == len(running), "the queue was empty too early"
        return answer.taken.jobs

    def _call(self, command: str) -> str:
        """Send a command that has a short reply, and return the reply."""
        self._control.sendall(f"{command}\r\n".encode())
        reply = self._control.recv(65536).decode()
        while not reply.endswith("\r\n"):
            reply += self._control.recv(65536).decode()
        return reply

    async def _become_quiet(self) -> None:
        """Wait until the engine has run no command but ours for a while."""
        give_up_at_s = time.monotonic() + LIMIT_S
        last, quiet_since_s = self._commands(), time.monotonic()
        while time.monotonic() - quiet_since_s < QUIET_S:
            assert time.monotonic() < give_up_at_s, "the engine does not become quiet"
            await asyncio.sleep(QUIET_S / 5)
            now = self._commands()
            if now != last + 1:
                quiet_since_s = time.monotonic()
            last = now

    def _commands(self) -> int:
        lines = self._call("INFO stats").splitlines()
        return next(int(line.partition(":")[2]) for line in lines if line.startswith("total_commands_processed"))


async def _ending(service: Service, job: Job) -> object:
    return await service.result(job.id, wait_ms=WAIT_MS)


async def _taken(service: Service, request: Take) -> list[Job]:
    return (await service.take(request)).jobs


def _finishes(jobs: Sequence[Job], result: Blob | None = None) -> list[Finish]:
    return [Finish(job.id, job.lease_token, result) for job in jobs]


def _store_steps(service: Service, jobs: Sequence[Job], name: str) -> None:
    from windlass.core.durable import StoreStep  # an earlier tree does not have it

    steps = [StoreStep(id=job.id, token=job.lease_token, name=name, value=RESULT) for job in jobs]
    assert service.store_steps(steps).wait() == [None] * len(steps), "a step was refused"


Measure = Callable[[EngineLoad], float | tuple[float, ...]]


def engine_rows() -> Iterator[tuple[str, Measure]]:
    """Yield titles and their loads. The title of two rows has a part for each, divided by a bar."""
    yield "enqueue, 1 per call", lambda load: load.enqueue(1, 400)
    yield "enqueue, 50 per call", lambda load: load.enqueue(50, 40)
    yield "take, 1 per call|finish, 1 per call", lambda load: load.take_and_finish(20)
    yield "finish and take, 1 per call", lambda load: load.finish_and_take(1, 400)
    yield "finish and take, 10 per call", lambda load: load.finish_and_take(10, 100)
    yield "finish and take, 100 per call", lambda load: load.finish_and_take(100, 20)
    yield "hand-off: enqueue and accept", lambda load: load.hand_off(25)
    yield "numbered job, 30 per call", lambda load: load.enqueue_numbered(30, 50)
    general = "lane, tag, unique key"
    yield f"{general}: enqueue, 1 per call", lambda load: load.enqueue(1, 400, is_general=True)
    yield f"{general}: enqueue, 50 per call", lambda load: load.enqueue(50, 40, is_general=True)
    yield f"{general}: finish and take, 1 per call", lambda load: load.finish_and_take(1, 400, is_general=True)
    yield f"{general}: finish and take, 50 per call", lambda load: load.finish_and_take(50, 40, is_general=True)
    yield "awaited: finish and take, 1 per call", lambda load: load.await_results(1, 30)
    yield "awaited: finish and take, 50 per call", lambda load: load.await_results(50, 10)
    yield "kept result: finish and take, 1 per call", lambda load: load.finish_and_take(1, 400, result=RESULT)
    yield "kept result: finish and take, 50 per call", lambda load: load.finish_and_take(50, 40, result=RESULT)
    if hasattr(Service, "store_steps"):  # an earlier tree does not have it
        yield "store step, 1 per call", lambda load: load.store_steps(1, 400)
        yield "store step, 50 per call", lambda load: load.store_steps(50, 15)
        yield "read steps, 20 per job", lambda load: load.read_steps(20, 40)
