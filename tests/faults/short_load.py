"""A load of about a second with all clients in one process, and its findings."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from faults.checks import FinalState, Finding, Guarantees, check_histories, read_final_state
from faults.history import JobFacts, Recorder
from faults.load.canceller import run_canceller
from faults.load.context import ClientContext
from faults.load.drain import drain
from faults.load.durable.code import DurableProfile
from faults.load.durable.engine_worker import run_durable_worker
from faults.load.durable.producer import enqueue_durable, follow
from faults.load.flow_client import enqueue_flow, resume_some_flows
from faults.load.flow_generator import FlowGenerator
from faults.load.front_ends.engine import EngineProducer, EngineWorker
from faults.load.job_generator import JobGenerator, JobMix
from faults.load.producer import enqueue_batch
from faults.load.setup import DURABLE, FLOWS, LIMITED, ORDERED, PLAIN, TICKING, pause_schedules, set_up
from faults.load.worker import JobAction, WorkerProfile, run_worker
from tests.support.engine_process import EngineProcess
from windlass.background import runner
from windlass.background.callbacks.native_body import native_body
from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback, PendingCallback
from windlass.service import Service

LEASE_MS = 200
ACTIONS: tuple[JobAction, ...] = (
    *("finish",) * 3,
    "extend",
    "retry",
    "retry",
    "give_up",
    "release",
    "sleep",
    "abandon",
)
NOWHERE = "http://127.0.0.1:9/"
BATCHES = 20
DURABLE_PROFILE = DurableProfile(
    nap_ms=150, timeout_ms=300, lease_ms=LEASE_MS, work_ms=5, failed=0.1, late=0.1, abandoned=0.05
)
FLOW_ACTIONS: tuple[JobAction, ...] = (*("finish",) * 4, "give_up")


class LoadRun:
    """Clients on one deployment, with their histories."""

    def __init__(self, service: Service, directory: Path, seed: int) -> None:
        self.service = service
        self._directory = directory
        self._seed = seed
        self._recorders: list[Recorder] = []

    def add_client(self, name: str) -> ClientContext:
        self._recorders.append(Recorder(self._directory / f"{name}.jsonl", name))
        return ClientContext(self._recorders[-1], self._seed, 600.0)

    def check(self, final: FinalState, guarantees: Guarantees) -> list[Finding]:
        for recorder in self._recorders:
            recorder.close()
        return check_histories(sorted(self._directory.glob("*.jsonl")), final, guarantees)


async def run_jobs(run: LoadRun, *, drain_s: float = 30.0) -> list[Finding]:
    """Run producers, workers with all actions, a canceller and a sender of callbacks."""
    service = run.service
    guarantees = await set_up(service, has_schedule=False)
    async with _background_loops(service), asyncio.timeout(300):
        names = ("worker-1", "worker-2", "worker-3", "ordered", "canceller", "notifier")
        contexts = [run.add_client(name) for name in names]
        mixed = WorkerProfile(
            queues=(PLAIN, LIMITED), most=1, lease_ms=LEASE_MS, work_ms=10, wait_ms=50, actions=ACTIONS
        )  # fmt: skip
        ordered = WorkerProfile(queues=(ORDERED,), most=3, lease_ms=10_000, work_ms=2, wait_ms=50)
        clients = [
            *(run_worker(context, [EngineWorker(service)] * 3, mixed) for context in contexts[:3]),
            run_worker(contexts[3], [EngineWorker(service)], ordered),
            run_canceller(contexts[4], service, JobMix(queues=(PLAIN,)), pause_s=0.01),
            _deliver_callbacks(contexts[5], service),
        ]
        tasks = [asyncio.create_task(client) for client in clients]
        await _produce(run.add_client("producer"), service, NOWHERE)
        await asyncio.sleep(2 * LEASE_MS / 1000)  # sleeping workers report after the expiry of their leases
        for context in contexts[:5]:
            context.end()
        await asyncio.gather(*tasks[:5])
        is_drained = await drain(run.add_client("drain"), service, limit_s=drain_s)
        is_drained = is_drained and await _wait_settled(service, drain_s)
        contexts[5].end()
        await tasks[5]
    return await _check(run, guarantees, is_drained=is_drained, has_every_lease=True, slack_ms=50)


async def _check(run: LoadRun, guarantees: Guarantees, **changes: object) -> list[Finding]:
    return run.check(await read_final_state(run.service), msgspec.structs.replace(guarantees, **changes))


async def _produce(context: ClientContext, service: Service, callback: str = "") -> None:
    mix = JobMix(queues=(PLAIN, LIMITED, ORDERED), callback=callback, most=3)
    generator, producer = JobGenerator(context, mix), EngineProducer(service)
    for _ in range(BATCHES):
        await enqueue_batch(context, producer, generator.next_batch())
        await context.pause(0.01)


async def _deliver_callbacks(context: ClientContext, service: Service) -> None:
    """Refuse each callback once before it is settled."""
    while not context.is_over:
        for callback in (await service.take_callbacks(most=20, wait_ms=50)).callbacks:
            facts = JobFacts(
                id=callback.job.key, delivery=callback.key, outcome=callback.job.state.label,
                digest=hashlib.blake2b(native_body(callback), digest_size=16).hexdigest(),
            )  # fmt: skip
            pending = context.recorder.begin("callback", [facts])
            if callback.attempt == 1:
                pending.record_refusal("500")
                await service.retry_callbacks([_failed_delivery(callback)])
            else:
                pending.record_ok()
                await service.settle_callbacks([LeasedCallback(callback.id, callback.token)])


def _failed_delivery(callback: PendingCallback) -> FailedDelivery:
    return FailedDelivery(id=callback.id, token=callback.token, delay_ms=0, error="500")


async def _wait_settled(service: Service, limit_s: float) -> bool:
    give_up_at_s = time.monotonic() + limit_s
    while pending := (await service.callbacks(most=1)).callbacks:
        if time.monotonic() > give_up_at_s:
            break
        await asyncio.sleep(0.02)
    return not pending


async def run_flows(run: LoadRun, *, drain_s: float = 30.0) -> list[Finding]:
    """Run flows with failing steps, and resume them."""
    service = run.service
    guarantees = await set_up(service, has_schedule=False)
    async with _background_loops(service), asyncio.timeout(300):
        producer, workers, resumer = (run.add_client(name) for name in ("producer", "workers", "resumer"))
        profile = WorkerProfile(queues=(FLOWS,), most=1, lease_ms=10_000, work_ms=2, wait_ms=50, actions=FLOW_ACTIONS)
        working = asyncio.create_task(run_worker(workers, [EngineWorker(service)] * 3, profile))
        generator = FlowGenerator(producer, JobMix(queues=(FLOWS,)), service.store)
        for _ in range(BATCHES):
            await enqueue_flow(producer, service, generator.next_flow())
            async with resumer.ignoring_failures():  # a flow may be gone when a bug is planted
                await resume_some_flows(resumer, service)
        workers.end()
        await working
        is_drained = await drain(run.add_client("drain"), service, limit_s=drain_s)
    return await _check(run, guarantees, is_drained=is_drained, has_every_lease=True, slack_ms=50)


async def run_durable(run: LoadRun, *, drain_s: float = 30.0) -> list[Finding]:
    """Run durable jobs on workers of which some report late or never, and send them signals."""
    service = run.service
    guarantees = await set_up(service, has_schedule=False)
    async with _background_loops(service), asyncio.timeout(300):
        producer, *workers = (run.add_client(name) for name in ("producer", "worker-1", "worker-2"))
        working = [
            asyncio.create_task(run_durable_worker(worker, service, DURABLE, DURABLE_PROFILE, slots=4))
            for worker in workers
        ]
        following = []
        for _ in range(BATCHES):
            job_id = await enqueue_durable(producer, service, DURABLE, DURABLE_PROFILE)
            following.append(asyncio.create_task(follow(producer, service, job_id, DURABLE_PROFILE)))
        is_drained = await drain(run.add_client("drain"), service, excluded=(DURABLE,), limit_s=drain_s)
        for context in (producer, *workers):
            context.end()
        await asyncio.gather(*working, *following)
    return await _check(run, guarantees, is_drained=is_drained, has_every_lease=True, slack_ms=50)


async def run_engine_crash(run: LoadRun, engine: EngineProcess) -> list[Finding]:
    """Enqueue jobs, then kill the engine and start it again."""
    service = run.service
    guarantees = await set_up(service, has_schedule=False)
    await _produce(run.add_client("producer"), service)
    engine.crash_and_start(forgets=False)
    async with _background_loops(service):
        is_drained = await drain(run.add_client("drain"), service)
    return await _check(run, guarantees, is_drained=is_drained)


async def run_schedules(run: LoadRun, services: Sequence[Service], occurrences: int = 6) -> list[Finding]:
    """Let several schedulers fire each occurrence at once. The clock is moved, so nothing waits."""
    first = services[0]
    guarantees = await set_up(first)
    for _ in range(occurrences):
        first.store.clock_offset_ms += 1_000
        await asyncio.gather(*(service.fire() for service in services))
    await pause_schedules(first)
    is_drained = await drain(run.add_client("drain"), first)
    final = await read_final_state(first)
    assert sum(final.fired.values()) >= occurrences // 2, f"{TICKING} was not filled"
    strict = msgspec.structs.replace(guarantees, is_drained=is_drained, has_every_lease=True, slack_ms=50)
    return run.check(final, strict)


@contextlib.asynccontextmanager
async def _background_loops(service: Service) -> AsyncIterator[None]:
    loops = asyncio.create_task(runner.run(service))
    try:
        yield
    finally:
        loops.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loops
