"""Calls per second of our connections beside redis-py's: `SET k v` on one private Valkey over a unix socket.

Run with `python -m bench.connection` from the root of the repository.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import redis
import redis.asyncio
import uvloop
from tests.engine_process import EngineProcess

from windlass.store.blocking import BlockingConnection
from windlass.store.connection import Connection
from windlass.store.endpoint import parse_url
from windlass.store.link import Link

ROUNDS = 3
TASKS = 50
CALLS_PER_TASK = 1_000
PIPELINE_LENGTH = 100
ONE_BY_ONE_CALLS = 5_000

Measurement = Callable[[str], float]  # URL of the engine -> calls per second


def run() -> list[tuple[str, float]]:
    """Each way's median over rounds; the ways take turns, so that a noisy moment hits all of them."""
    figures: dict[str, list[float]] = {name: [] for name in MEASUREMENTS}
    with EngineProcess() as engine:
        for _ in range(ROUNDS):
            for name, measure in MEASUREMENTS.items():
                figures[name].append(measure(engine.unix_url))
    return [(name, statistics.median(rates)) for name, rates in figures.items()]


def _rate_of_tasks(calls_per_task: Callable[[], Awaitable[None]]) -> Awaitable[float]:
    async def measured() -> float:
        began_at_s = time.perf_counter()
        await asyncio.gather(*(calls_per_task() for _ in range(TASKS)))
        return TASKS * CALLS_PER_TASK / (time.perf_counter() - began_at_s)

    return measured()


def _redis_asyncio_tasks(url: str) -> float:
    async def main() -> float:
        async with redis.asyncio.Redis.from_url(url) as client:

            async def calls() -> None:
                for _ in range(CALLS_PER_TASK):
                    await client.set("k", "v")

            await client.ping()
            return await _rate_of_tasks(calls)

    return uvloop.run(main())


def _redis_asyncio_pipeline(url: str) -> float:
    async def main() -> float:
        async with redis.asyncio.Redis.from_url(url) as client:
            await client.ping()
            batches = TASKS * CALLS_PER_TASK // PIPELINE_LENGTH
            began_at_s = time.perf_counter()
            for _ in range(batches):
                pipeline = client.pipeline(transaction=False)
                for _ in range(PIPELINE_LENGTH):
                    pipeline.set("k", "v")
                await pipeline.execute()
            return batches * PIPELINE_LENGTH / (time.perf_counter() - began_at_s)

    return uvloop.run(main())


def _redis_sync(url: str) -> float:
    with redis.Redis.from_url(url) as client:
        client.ping()
        began_at_s = time.perf_counter()
        for _ in range(ONE_BY_ONE_CALLS):
            client.set("k", "v")
        return ONE_BY_ONE_CALLS / (time.perf_counter() - began_at_s)


def _connection_tasks(url: str) -> float:
    async def main() -> float:
        connection = await Connection.open(parse_url(url))

        async def calls() -> None:
            for _ in range(CALLS_PER_TASK):
                await connection.call("SET", "k", "v")

        rate = await _rate_of_tasks(calls)
        connection.close()
        await connection.wait_closed()
        return rate

    return uvloop.run(main())


def _link_tasks(url: str) -> float:
    async def main() -> float:
        link = Link(parse_url(url))

        async def calls() -> None:
            for _ in range(CALLS_PER_TASK):
                await link.call("SET", "k", "v")

        await link.call("PING")
        rate = await _rate_of_tasks(calls)
        link.close()
        await link.wait_closed()
        return rate

    return uvloop.run(main())


def _blocking_connection(url: str) -> float:
    connection = BlockingConnection.open(parse_url(url))
    began_at_s = time.perf_counter()
    for _ in range(ONE_BY_ONE_CALLS):
        connection.call("SET", "k", "v")
    rate = ONE_BY_ONE_CALLS / (time.perf_counter() - began_at_s)
    connection.close()
    return rate


MEASUREMENTS: dict[str, Measurement] = {
    f"redis.asyncio, {TASKS} tasks": _redis_asyncio_tasks,
    f"redis.asyncio, pipeline of {PIPELINE_LENGTH}": _redis_asyncio_pipeline,
    "redis-py, one by one": _redis_sync,
    f"windlass Connection, {TASKS} tasks": _connection_tasks,
    f"windlass Link, {TASKS} tasks": _link_tasks,
    "windlass BlockingConnection, one by one": _blocking_connection,
}


if __name__ == "__main__":
    for way, rate in run():
        print(f"{way:<42}{rate:>12,.0f} calls/s")
