"""One client, by its kind, until its time is over or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

from windlass.core.job import Durability
from windlass.service import Service
from windlass.store.endpoint import parse_url
from windlass.store.store import Store

from ..history import Recorder
from .by_bedrock import BedrockBench, BedrockCounter, Talk
from .by_engine import EngineBench, EngineCounter
from .by_http import Http, HttpBench, HttpCounter
from .cancelling import change_minds
from .life import Life
from .options import Options, read_options
from .producing import produce
from .receiving import receiving
from .watching import watch_schedules
from .working import work


@contextlib.asynccontextmanager
async def _service(options: Options) -> AsyncIterator[Service]:
    store = Store(parse_url(options.url), namespace=options.namespace, patience_s=options.patience_s)
    try:
        yield Service(store)
    finally:
        await store.close()


async def _producer_sdk(life: Life, options: Options) -> None:
    async with _service(options) as service:
        counter = EngineCounter(service, cast(Durability | None, options.durability or None))
        await produce(life, counter, options.menu, pause_s=options.pause_s)


async def _producer_http(life: Life, options: Options) -> None:
    async with contextlib.aclosing(Http(options.http)) as http:
        await produce(life, HttpCounter(http), options.menu, pause_s=options.pause_s)


async def _producer_bedrock(life: Life, options: Options) -> None:
    async with contextlib.aclosing(Talk(options.bedrock, life.client)) as talk:
        await produce(life, BedrockCounter(talk), options.menu, pause_s=options.pause_s)


async def _worker_sdk(life: Life, options: Options) -> None:
    async with _service(options) as service:
        await work(life, [EngineBench(service) for _ in range(options.conduct.slots)], options.conduct)


async def _worker_http(life: Life, options: Options) -> None:
    async with contextlib.aclosing(Http(options.http)) as http:
        await work(life, [HttpBench(http) for _ in range(options.conduct.slots)], options.conduct)


async def _worker_bedrock(life: Life, options: Options) -> None:
    async with contextlib.AsyncExitStack() as stack:
        talks = [Talk(options.bedrock, life.client) for _ in range(options.conduct.slots)]
        for talk in talks:
            await stack.enter_async_context(contextlib.aclosing(talk))
        await work(life, [BedrockBench(talk) for talk in talks], options.conduct)


async def _canceller(life: Life, options: Options) -> None:
    async with _service(options) as service:
        await change_minds(life, service, options.menu)


async def _receiver(life: Life, options: Options) -> None:
    async with receiving(life, port=options.port) as url:
        print(url, flush=True)
        await life.until_over()


async def _scheduler_watch(life: Life, options: Options) -> None:
    async with _service(options) as service:
        await watch_schedules(life, service)


KINDS: dict[str, Callable[[Life, Options], Awaitable[None]]] = {
    "producer-sdk": _producer_sdk,
    "producer-http": _producer_http,
    "producer-bedrock": _producer_bedrock,
    "worker-sdk": _worker_sdk,
    "worker-http": _worker_http,
    "worker-bedrock": _worker_bedrock,
    "canceller": _canceller,
    "receiver": _receiver,
    "scheduler-watch": _scheduler_watch,
}


async def run(options: Options) -> None:
    life = Life(Recorder(options.history, options.client), options.seed, options.seconds)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, life.end)
    await KINDS[options.kind](life, options)


if __name__ == "__main__":
    asyncio.run(run(read_options(sys.argv[1:], list(KINDS))))
