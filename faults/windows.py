"""What each level of durability loses, measured: jobs are enqueued as fast as it goes, the engine that serves them
is lost in the middle, and those that were acknowledged and are unknown afterwards are counted."""

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

from .engines import Alone, Divided, Engine, Watched

PRODUCERS = 8
BEFORE_S = 0.6
BEFORE = 30  # acknowledgements
AFTERWARDS = 20  # acknowledgements of whoever serves then
LIMIT_S = 40.0
BEHIND_S = 0.3
QUEUES = tuple(f"window-{number}" for number in range(12))
Say = Callable[[str], None]
Lose = Callable[[], float]  # loses the engine; answers when


class Window(msgspec.Struct, kw_only=True):
    topology: str
    event: str
    durability: str
    rounds: int
    acknowledged: int  # in all rounds
    unconfirmed: int  # accepted, and the caller was told that the level was not reached
    lost: int  # of those that were acknowledged at the level
    lost_unconfirmed: int
    rounds_with_loss: int
    longest_ms: float  # before the loss of the engine was the oldest acknowledgement that was lost


class Told:
    """Acknowledgements, each with its instant."""

    def __init__(self) -> None:
        self.durable: dict[bytes, float] = {}
        self.others: dict[bytes, float] = {}
        self.is_over = False

    @property
    def count(self) -> int:
        return len(self.durable) + len(self.others)


async def _produce(service: Service, told: Told, chance: random.Random) -> None:
    while not told.is_over:
        try:
            (answer,) = await service.enqueue([NewJob(queue=chance.choice(QUEUES), name="n")])
        except WindlassError:
            await asyncio.sleep(0.05)
            continue
        if isinstance(answer, Enqueued):
            (told.durable if answer.is_durable else told.others)[answer.id] = time.monotonic()


async def _round(url: str, level: Durability, namespace: str, lose: Lose) -> tuple[Told, float]:
    told = Told()
    async with Store(parse_url(url), namespace=namespace, durability=level, patience_s=LIMIT_S) as store:
        service = Service(store)
        tasks = [asyncio.create_task(_produce(service, told, random.Random(n))) for n in range(PRODUCERS)]  # noqa: S311
        await asyncio.sleep(BEFORE_S)
        while told.count < BEFORE:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        lost_at_s = await asyncio.to_thread(lose)
        seen = told.count
        give_up_at_s = time.monotonic() + LIMIT_S
        while told.count < seen + AFTERWARDS and time.monotonic() < give_up_at_s:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        told.is_over = True
        await asyncio.wait(tasks, timeout=LIMIT_S)
    return told, lost_at_s


async def _missing(url: str, namespace: str, ids: Sequence[bytes]) -> list[bytes]:
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


def measured(
    engine: Engine,
    event: str,
    lose: Lose,
    level: Durability,
    rounds: int,
    say: Say,
    mark: str,
    prepare: Callable[[], None] = lambda: None,
) -> Window:
    found = Window(
        topology=engine.topology, event=event, durability=level, rounds=rounds, acknowledged=0, unconfirmed=0, lost=0,
        lost_unconfirmed=0, rounds_with_loss=0, longest_ms=0.0,
    )  # fmt: skip
    for number in range(rounds):
        say(f"loss windows: {engine.topology}, {event}, {level}, round {number + 1} of {rounds}")
        namespace = f"{mark}{number}"
        prepare()
        told, lost_at_s = asyncio.run(_round(engine.url, level, namespace, lose))
        engine.revive()
        missing = asyncio.run(_missing(engine.url, namespace, list(told.durable)))
        found.acknowledged += len(told.durable)
        found.unconfirmed += len(told.others)
        found.lost += len(missing)
        found.lost_unconfirmed += len(asyncio.run(_missing(engine.url, namespace, list(told.others))))
        found.rounds_with_loss += bool(missing)
        oldest_s = min((told.durable[one] for one in missing), default=lost_at_s)
        found.longest_ms = max(found.longest_ms, (lost_at_s - oldest_s) * 1000)
        engine.ask("FLUSHALL")
    return found


def _nodes_with_files(engine: Any) -> None:
    for node in engine.group.nodes:
        if node.is_running:
            node.ask("CONFIG", "SET", "appendonly", "yes")


def of_topology(topology: str, rounds: int, seed: int, say: Say) -> list[Window]:
    chance = random.Random(seed)  # noqa: S311 (it must be repeatable)
    return _alone(rounds, chance, say) if topology == "standalone" else _group(topology, rounds, chance, say)


def _alone(rounds: int, chance: random.Random, say: Say) -> list[Window]:
    found = []
    for fsync in ("always", "everysec"):
        engine = Alone(fsync)
        engine.start()
        try:

            def lose(engine: Alone = engine) -> float:
                engine.kill(chance)
                lost_at_s = time.monotonic()
                engine.revive()
                return lost_at_s

            for level in ("memory", "fsync"):
                event = f"kill -9 of the engine, `appendfsync {fsync}`"
                found.append(measured(engine, event, lose, level, rounds, say, f"{fsync}{level}"))
        finally:
            engine.close()
    return found


def _now(_: None) -> float:
    return time.monotonic()


def _kill_behind(engine: Watched | Divided, chance: random.Random) -> float:
    """What the primary says meanwhile is known to nobody else. (To stop the replicas would not do: what was sent to
    them waits in their sockets.)"""
    primary = engine.serving(chance)
    primary.ask("ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
    primary.ask("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(BEHIND_S)
    primary.kill()
    return time.monotonic()


def _group(topology: str, rounds: int, chance: random.Random, say: Say) -> list[Window]:
    engine: Watched | Divided = Watched() if topology == "sentinel" else Divided()
    engine.start()
    events: dict[str, Lose] = {
        "kill -9 of a primary": lambda: _now(engine.kill(chance)),
        "kill -9 of a primary that had been cut off from its replicas for 300 ms": lambda: _kill_behind(engine, chance),
        "planned failover": lambda: _now(engine.fail_over(chance)),
    }
    found = list[Window]()
    try:
        for event, lose in events.items():
            for level in ("memory", "fsync", "replica"):
                mark = f"{level}{len(found)}"
                # Before every round: a node that came back has forgotten it.
                prepare = partial(_nodes_with_files, engine)
                found.append(measured(engine, event, lose, level, rounds, say, mark, prepare))
    finally:
        engine.close()
    return found
