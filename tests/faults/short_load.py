"""A load of a second or so, all clients in one process, and what is judged of it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from faults.history import Recorder, Seen
from faults.judging import Final, Finding, Promises, judge, read_final
from faults.load.by_engine import EngineBench, EngineCounter
from faults.load.cancelling import change_minds
from faults.load.draining import drain
from faults.load.life import Life
from faults.load.producing import handed_in
from faults.load.scene import LIMITED, ORDERED, PLAIN, TICKING, prepare, quieten
from faults.load.wishes import Menu, Wishes
from faults.load.working import Conduct, Manner, work
from tests.support.engine_process import EngineProcess
from windlass.background import runner
from windlass.background.callbacks.native_body import native_body
from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback, PendingCallback
from windlass.service import Service

LEASE_MS = 200
MANNERS: tuple[Manner, ...] = (*("finish",) * 3, "extend", "retry", "retry", "give_up", "release", "sleep", "abandon")
NOWHERE = "http://127.0.0.1:9/"
LOTS = 20


class Stage:
    """Clients with their histories, on one deployment."""

    def __init__(self, service: Service, directory: Path, seed: int) -> None:
        self.service = service
        self._directory = directory
        self._seed = seed
        self._recorders: list[Recorder] = []

    def life(self, name: str) -> Life:
        self._recorders.append(Recorder(self._directory / f"{name}.jsonl", name))
        return Life(self._recorders[-1], self._seed, 600.0)

    def judged(self, final: Final, promises: Promises) -> list[Finding]:
        for recorder in self._recorders:
            recorder.close()
        return judge(sorted(self._directory.glob("*.jsonl")), final, promises)


async def jobs_are_worked(stage: Stage, *, drain_s: float = 30.0) -> list[Finding]:
    """Producers, workers of all manners, somebody who cancels, and somebody who delivers callbacks."""
    service = stage.service
    promises = await prepare(service, has_schedule=False)
    async with _loops(service), asyncio.timeout(300):
        lives = [stage.life(name) for name in ("worker-1", "worker-2", "worker-3", "ordered", "canceller", "notifier")]
        rough = Conduct(queues=(PLAIN, LIMITED), most=1, lease_ms=LEASE_MS, work_ms=10, wait_ms=50, manners=MANNERS)
        ordered = Conduct(queues=(ORDERED,), most=3, lease_ms=10_000, work_ms=2, wait_ms=50)
        others = [asyncio.create_task(work(life, [EngineBench(service)] * 3, rough)) for life in lives[:3]]
        others.append(asyncio.create_task(work(lives[3], [EngineBench(service)], ordered)))
        others.append(asyncio.create_task(change_minds(lives[4], service, Menu(queues=(PLAIN,)), pause_s=0.01)))
        others.append(asyncio.create_task(_deliver(lives[5], service)))
        await _produce(stage.life("producer"), service, NOWHERE)
        await asyncio.sleep(2 * LEASE_MS / 1000)  # whoever sleeps wakes up too late
        for life in lives[:5]:
            life.end()
        await asyncio.gather(*others[:5])
        is_drained = await drain(stage.life("drain"), service, limit_s=drain_s)
        is_drained = is_drained and await _are_settled(service, drain_s)
        lives[5].end()
        await others[5]
    final = await read_final(service)
    return stage.judged(final, msgspec.structs.replace(promises, is_drained=is_drained, is_calm=True, slack_ms=50))


async def _produce(life: Life, service: Service, callback: str = "") -> None:
    menu = Menu(queues=(PLAIN, LIMITED, ORDERED), callback=callback, most=3)
    wishes, counter = Wishes(life, menu), EngineCounter(service)
    for _ in range(LOTS):
        await handed_in(life, counter, wishes.some())
        await life.pause(0.01)


async def _deliver(life: Life, service: Service) -> None:
    """Each callback is refused once before it is settled."""
    while not life.is_over:
        for debt in (await service.take_callbacks(most=20, wait_ms=50)).callbacks:
            seen = Seen(
                id=debt.job.key, delivery=debt.key, outcome=debt.job.state.label,
                digest=hashlib.blake2b(native_body(debt), digest_size=16).hexdigest(),
            )  # fmt: skip
            pending = life.recorder.begin("callback", [seen])
            if debt.attempt == 1:
                pending.refused("500")
                await service.retry_callbacks([_again(debt)])
            else:
                pending.ok()
                await service.settle_callbacks([LeasedCallback(debt.id, debt.token)])


def _again(debt: PendingCallback) -> FailedDelivery:
    return FailedDelivery(id=debt.id, token=debt.token, delay_ms=0, error="500")


async def _are_settled(service: Service, limit_s: float) -> bool:
    give_up_at_s = time.monotonic() + limit_s
    while owed := (await service.callbacks(most=1)).callbacks:
        if time.monotonic() > give_up_at_s:
            break
        await asyncio.sleep(0.02)
    return not owed


async def engine_dies(stage: Stage, engine: EngineProcess) -> list[Finding]:
    """Jobs come in, and then the engine is killed and started again."""
    service = stage.service
    promises = await prepare(service, has_schedule=False)
    await _produce(stage.life("producer"), service)
    engine.crash_and_start(forgets=False)
    async with _loops(service):
        is_drained = await drain(stage.life("drain"), service)
    final = await read_final(service)
    return stage.judged(final, msgspec.structs.replace(promises, is_drained=is_drained))


async def schedules_fire(stage: Stage, services: Sequence[Service], occurrences: int = 6) -> list[Finding]:
    """Several schedulers at once, at each of some occurrences; time is moved, so nothing is waited for."""
    first = services[0]
    promises = await prepare(first)
    for _ in range(occurrences):
        first.store.clock_offset_ms += 1_000
        await asyncio.gather(*(service.fire() for service in services))
    await quieten(first)
    is_drained = await drain(stage.life("drain"), first)
    final = await read_final(first)
    assert sum(final.fired.values()) >= occurrences // 2, f"{TICKING} was not filled"
    return stage.judged(final, msgspec.structs.replace(promises, is_drained=is_drained, is_calm=True, slack_ms=50))


@contextlib.asynccontextmanager
async def _loops(service: Service) -> AsyncIterator[None]:
    loops = asyncio.create_task(runner.run(service))
    try:
        yield
    finally:
        loops.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loops
