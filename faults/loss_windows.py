"""Measured losses of each durability level.

Producers enqueue jobs as fast as possible, the engine that serves them is lost, and the acknowledged jobs that are
unknown afterwards are counted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from windlass.core.errors import Refusal, UnknownJob, WindlassError
from windlass.core.job import Durability, NewJob
from windlass.core.operations import Enqueued
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

from .engines import ClusterEngine, Engine, SentinelEngine, StandaloneEngine
from .power_loss.volatile_disk import unavailable_reason
from .scenario import ShowProgress

PRODUCERS = 8
BEFORE_S = 0.6
BEFORE = 30  # acknowledgements
AFTERWARDS = 20  # acknowledgements of the next serving engine
LIMIT_S = 40.0
CUT_OFF_S = 0.3
QUEUES = tuple(f"window-{number}" for number in range(12))
LoseEngine = Callable[[], float]  # returns when the engine was lost


class Window(msgspec.Struct, kw_only=True):
    topology: str
    event: str
    durability: str
    rounds: int
    acknowledged: int  # in all rounds
    unconfirmed: int  # accepted with is_durable=False: the level was not reached
    lost: int  # of those acknowledged at the level
    lost_unconfirmed: int
    rounds_with_loss: int
    longest_ms: float  # from the oldest lost acknowledgement to the loss of the engine


class Acknowledgements:
    """Ids of acknowledged jobs with the instant of the answer."""

    def __init__(self) -> None:
        self.durable: dict[bytes, float] = {}
        self.others: dict[bytes, float] = {}
        self.is_over = False

    @property
    def count(self) -> int:
        return len(self.durable) + len(self.others)


async def _produce(service: Service, acknowledged: Acknowledgements, rng: random.Random) -> None:
    while not acknowledged.is_over:
        try:
            (answer,) = await service.enqueue([NewJob(queue=rng.choice(QUEUES), name="n")])
        except WindlassError:
            await asyncio.sleep(0.05)
            continue
        if isinstance(answer, Enqueued):
            (acknowledged.durable if answer.is_durable else acknowledged.others)[answer.id] = time.monotonic()


async def _run_round(
    url: str, level: Durability, namespace: str, lose_engine: LoseEngine
) -> tuple[Acknowledgements, float]:
    acknowledged = Acknowledgements()
    async with Store(parse_url(url), namespace=namespace, durability=level, patience_s=LIMIT_S) as store:
        service = Service(store)
        tasks = [
            asyncio.create_task(_produce(service, acknowledged, random.Random(number)))  # noqa: S311
            for number in range(PRODUCERS)
        ]
        await asyncio.sleep(BEFORE_S)
        while acknowledged.count < BEFORE:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        lost_at_s = await asyncio.to_thread(lose_engine)
        goal = acknowledged.count + AFTERWARDS
        give_up_at_s = time.monotonic() + LIMIT_S
        while acknowledged.count < goal and time.monotonic() < give_up_at_s:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        acknowledged.is_over = True
        await asyncio.wait(tasks, timeout=LIMIT_S)
    return acknowledged, lost_at_s


async def _find_missing(url: str, namespace: str, ids: Sequence[bytes]) -> list[bytes]:
    async with Store(parse_url(url), namespace=namespace, patience_s=LIMIT_S) as store:
        service, missing = Service(store), list[bytes]()
        for first in range(0, len(ids), 500):
            part = ids[first : first + 500]
            for job_id, answer in zip(part, await service.job(part), strict=True):
                if isinstance(answer, UnknownJob):
                    missing.append(job_id)
                elif isinstance(answer, Refusal):
                    raise answer
        return missing


def measure_loss(
    engine: Engine,
    event: str,
    lose_engine: LoseEngine,
    level: Durability,
    rounds: int,
    show: ShowProgress,
    prefix: str,  # of the namespaces
    prepare: Callable[[], None] = lambda: None,
) -> Window:
    window = Window(
        topology=engine.topology, event=event, durability=level, rounds=rounds, acknowledged=0, unconfirmed=0, lost=0,
        lost_unconfirmed=0, rounds_with_loss=0, longest_ms=0.0,
    )  # fmt: skip
    for number in range(rounds):
        show(f"loss windows: {engine.topology}, {event}, {level}, round {number + 1} of {rounds}")
        namespace = f"{prefix}{number}"
        prepare()
        acknowledged, lost_at_s = asyncio.run(_run_round(engine.url, level, namespace, lose_engine))
        engine.revive()
        missing = asyncio.run(_find_missing(engine.url, namespace, list(acknowledged.durable)))
        window.acknowledged += len(acknowledged.durable)
        window.unconfirmed += len(acknowledged.others)
        window.lost += len(missing)
        window.lost_unconfirmed += len(asyncio.run(_find_missing(engine.url, namespace, list(acknowledged.others))))
        window.rounds_with_loss += bool(missing)
        oldest_s = min((acknowledged.durable[job_id] for job_id in missing), default=lost_at_s)
        window.longest_ms = max(window.longest_ms, (lost_at_s - oldest_s) * 1000)
        engine.send_command("FLUSHALL")
    return window


def _enable_files(engine: Any) -> None:
    for node in engine.group.nodes:
        if node.is_running:
            node.send_command("CONFIG", "SET", "appendonly", "yes", "appendfsync", "always")


def measure_topology(topology: str, rounds: int, seed: int, show: ShowProgress) -> list[Window]:
    rng = random.Random(seed)  # noqa: S311 (it must be repeatable)
    if topology == "standalone":
        return _measure_standalone(rounds, rng, show)
    return _measure_group(topology, rounds, rng, show)


def _measure_standalone(rounds: int, rng: random.Random, show: ShowProgress) -> list[Window]:
    windows = list[Window]()
    for fsync in ("always", "everysec"):
        engine = StandaloneEngine(fsync)
        engine.start()
        try:

            def lose_engine(engine: StandaloneEngine = engine) -> float:
                engine.kill(rng)
                lost_at_s = time.monotonic()
                engine.revive()
                return lost_at_s

            def lose_power(engine: StandaloneEngine = engine) -> float:
                engine.lose_power(rng)
                lost_at_s = time.monotonic()
                engine.revive()
                return lost_at_s

            events: dict[str, LoseEngine] = {"kill -9 of the engine": lose_engine}
            if not unavailable_reason():
                events["power loss"] = lose_power
            for event, lose in events.items():
                # An engine that cannot confirm a single sync is refused with the level `fsync`.
                levels: list[Durability] = ["memory", "fsync"] if fsync == "always" else ["memory"]
                for level in levels:
                    words, prefix = f"{event}, `appendfsync {fsync}`", f"{fsync}{level}{len(windows)}"
                    windows.append(measure_loss(engine, words, lose, level, rounds, show, prefix))
        finally:
            engine.close()
    return windows


def _now(_: None) -> float:
    return time.monotonic()


def _kill_cut_off(engine: SentinelEngine | ClusterEngine, rng: random.Random) -> float:
    """Cut a primary off from its replicas, and kill it later: its last answers are known to no other node.

    Stopping the replicas would not do, because their sockets would still hold the writes."""
    primary = engine.primary(rng)
    primary.send_command("ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
    primary.send_command("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(CUT_OFF_S)
    primary.kill()
    return time.monotonic()


def _measure_group(topology: str, rounds: int, rng: random.Random, show: ShowProgress) -> list[Window]:
    engine: SentinelEngine | ClusterEngine = SentinelEngine() if topology == "sentinel" else ClusterEngine()
    engine.start()
    events: dict[str, LoseEngine] = {
        "kill -9 of a primary": lambda: _now(engine.kill(rng)),
        "kill -9 of a primary that had been cut off from its replicas for 300 ms": lambda: _kill_cut_off(engine, rng),
        "planned failover": lambda: _now(engine.fail_over(rng)),
    }
    windows = list[Window]()
    try:
        for event, lose_engine in events.items():
            for level in ("memory", "fsync", "replica"):
                prefix = f"{level}{len(windows)}"
                # Before every round: a restarted node has lost this setting.
                prepare = partial(_enable_files, engine)
                windows.append(measure_loss(engine, event, lose_engine, level, rounds, show, prefix, prepare))
    finally:
        engine.close()
    return windows
