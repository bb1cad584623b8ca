"""Calls per second of our connections compared with redis-py's: `SET k v` on one private Valkey over a unix socket.

Run `python -m bench connection` from the root of the repository.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import redis
import redis.asyncio
import uvloop

from bench.figures import Setting, Table, in_turns, ratio, spread
from tests.support.engine_process import EngineProcess
from windlass.store.connection.connection import Connection
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import ReconnectingConnection
from windlass.store.connection.sync_connection import SyncConnection

TASKS = 50
CALLS_PER_TASK = 1_000
PIPELINE_LENGTH = 100
ONE_BY_ONE_CALLS = 5_000

Measurement = Callable[[str], float]  # URL of the engine -> calls per second


def section(setting: Setting) -> list[Table]:
    with EngineProcess() as engine:
        ways = {name: partial(measure, engine.unix_url) for name, measure in MEASUREMENTS.items()}
        found = in_turns(setting, "connections", ways)
    rows = [[name, spread(rates), ratio(rates, found[BASE_OF[name]])] for name, rates in found.items()]
    note = "`SET k v`. Ratios compare with redis-py used in the same way."
    return [Table("Connections", ("", "calls/s", "against redis-py"), rows, note)]


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
        link = ReconnectingConnection(parse_url(url))

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
    connection = SyncConnection.open(parse_url(url))
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
    f"windlass ReconnectingConnection, {TASKS} tasks": _link_tasks,
    "windlass SyncConnection, one by one": _blocking_connection,
}
BASE_OF = {
    name: "redis-py, one by one" if "one by one" in name else f"redis.asyncio, {TASKS} tasks" for name in MEASUREMENTS
}
