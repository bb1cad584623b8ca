"""Callbacks delivered per second to one receiver, to many, and with a dead receiver, compared with the bare client."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import uvloop

from bench.engine import BULK, QUEUE, Engine
from bench.figures import Setting, Table, in_turns, ratio, spread
from windlass.background.callbacks.notifier import IN_FLIGHT_MAX, PER_DESTINATION_MAX
from windlass.core.job import Callback, NewJob
from windlass.core.operations import Finish, Take
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

from .http_api import served
from .push import Handler

CALLBACKS = 8_000
RECEIVERS = 10
BODY = b"x" * 500  # about the size of the native body of a small job


@asynccontextmanager
async def receivers(count: int, wanted: int) -> AsyncIterator[tuple[list[str], list[Any], asyncio.Event]]:
    """Open ports that answer at once. `enough` is set when they have received `wanted` requests in total."""
    got: list[tuple[int, bytes]] = []
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        urls = []
        for _ in range(count):
            server = await loop.create_server(lambda: Handler(got, enough, wanted), "127.0.0.1", 0)
            stack.callback(server.close)
            urls.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        yield urls, got, enough


@asynccontextmanager
async def dead_receiver() -> AsyncIterator[str]:
    """Open a port that accepts connections and never answers."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()


async def owe(service: Service, count: int, urls: Sequence[str]) -> None:
    for start in range(0, count, BULK):
        hooks = [Callback(url=urls[at % len(urls)]) for at in range(start, start + BULK)]
        await service.enqueue([NewJob(queue=QUEUE, name="no_op", callback=hook) for hook in hooks])
        jobs = (await service.take(Take(queues=(QUEUE,), most=BULK))).jobs
        await service.finish([Finish(job.id, job.lease_token) for job in jobs])


def delivered_per_s(engine: Engine, count: int, to: int, *, is_one_dead: bool = False) -> float:
    """Measure the deliveries only: the jobs have already ended."""

    async def main() -> float:
        async with Store(parse_url(engine.url)) as store, AsyncExitStack() as stack:
            service = Service(store)
            urls, _, enough = await stack.enter_async_context(receivers(to, count))
            if is_one_dead:
                await owe(service, count, [await stack.enter_async_context(dead_receiver())])
            await owe(service, count, urls)
            began_at_s = await asyncio.to_thread(_start, stack, engine)
            await enough.wait()
            return count / (time.perf_counter() - began_at_s)

    engine.empty()
    return uvloop.run(main())


def _start(stack: AsyncExitStack, engine: Engine) -> float:
    stack.enter_context(served(engine))
    return time.perf_counter()


def posted_per_s(count: int, to: int) -> float:
    """Post with the same client and as many concurrent requests, without a queue."""

    async def main() -> float:
        async with receivers(to, count) as (urls, _, _enough), Outbound(parse_policy("", is_local=True)) as outbound:
            left = iter(range(count))

            async def post() -> None:
                for at in left:
                    await outbound.post(urls[at % to], BODY, {"content-type": "application/json"})

            began_at_s = time.perf_counter()
            await asyncio.gather(*(post() for _ in range(min(IN_FLIGHT_MAX, PER_DESTINATION_MAX * to))))
            return count / (time.perf_counter() - began_at_s)

    return uvloop.run(main())


def section(setting: Setting) -> list[Table]:
    count = max(BULK, setting.scaled(CALLBACKS) // BULK * BULK)
    with Engine() as engine:
        rates = in_turns(
            setting,
            "callbacks",
            {
                "to one receiver": partial(delivered_per_s, engine, count, 1),
                f"to {RECEIVERS} receivers": partial(delivered_per_s, engine, count, RECEIVERS),
                f"to {RECEIVERS}, with a dead receiver": partial(
                    delivered_per_s, engine, count, RECEIVERS, is_one_dead=True
                ),
                f"bare posts to {RECEIVERS}": partial(posted_per_s, count, RECEIVERS),
            },
        )
    base = rates[f"bare posts to {RECEIVERS}"]
    rows = [(name, spread(values), ratio(values, base)) for name, values in rates.items()]
    note = (
        f"Callbacks of {count} ended jobs, delivered by one `windlass serve` process from the moment it is ready, "
        f"{IN_FLIGHT_MAX} at once and {PER_DESTINATION_MAX} to one receiver. Receivers answer at once and share the "
        "machine. "
        "*With a dead receiver*: as many more callbacks are pending, before all others, for a receiver that never "
        "answers. *Bare posts*: the same client, without a queue."
    )
    return [Table("Callbacks", ("", "per second", "ratio to bare posts"), rows, note)]
