"""The kinds of clients, each wired to its front end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

from windlass.core.job import Durability
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

from . import by_app
from .by_bedrock import QUEUE as BEDROCK
from .by_bedrock import BedrockBench, BedrockCounter, Talk
from .by_engine import EngineBench, EngineCounter
from .by_forms import DOWNLOADS, DownloadCounter, JobberCounter, serving_files
from .by_http import Http, HttpBench, HttpCounter
from .by_lightjq import QUEUE as LIGHTJQ
from .by_lightjq import LightCounter, PushedWorker, listening
from .by_pipes import Piped
from .cancelling import change_minds
from .life import Life
from .options import Options
from .producing import produce
from .receiving import receiving
from .watching import watch_schedules
from .wishes import Menu
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
        await produce(life, BedrockCounter(talk), _bare(BEDROCK, options.menu.most), pause_s=options.pause_s)


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


async def _producer_lightjq(life: Life, options: Options) -> None:
    async with contextlib.aclosing(Http(options.http)) as http:
        await produce(life, LightCounter(http), _bare(LIGHTJQ), pause_s=options.pause_s)


async def _producer_jobber(life: Life, options: Options) -> None:
    async with contextlib.aclosing(Http(options.http)) as http:
        counter = JobberCounter(http, options.type)
        await produce(life, counter, _bare(counter.queue), pause_s=options.pause_s)


async def _producer_downloader(life: Life, options: Options) -> None:
    async with contextlib.aclosing(Http(options.http)) as http:
        counter = DownloadCounter(http, options.origin, options.menu.callback)
        await produce(life, counter, _bare(DOWNLOADS), pause_s=options.pause_s)


def _bare(queue: str, most: int = 1) -> Menu:
    """Of front ends that know neither delays nor groups, and most of them one job at a time."""
    return Menu(queues=(queue,), most=most, is_bare=True)


async def _producer_processor(life: Life, options: Options) -> None:
    engine = ["--url", options.url, "--namespace", options.namespace]
    await Piped(life, engine, options.conduct.slots, options.conduct.work_ms).run()


async def _worker_push(life: Life, options: Options) -> None:
    async with contextlib.aclosing(Http(options.http)) as http:
        worker = PushedWorker(life, http, options.conduct)
        async with listening(worker, port=options.port) as url:
            await worker.run(url)


async def _worker_app(life: Life, options: Options) -> None:
    await by_app.run(life, *by_app.build(life, options.url, options.namespace, options.patience_s, options.conduct))


async def _origin(life: Life, options: Options) -> None:
    async with serving_files(port=options.port) as url:
        print(url, flush=True)
        await life.until_over()


KINDS: dict[str, Callable[[Life, Options], Awaitable[None]]] = {
    "producer-sdk": _producer_sdk,
    "producer-http": _producer_http,
    "producer-bedrock": _producer_bedrock,
    "producer-lightjq": _producer_lightjq,
    "producer-jobber": _producer_jobber,
    "producer-downloader": _producer_downloader,
    "producer-processor": _producer_processor,
    "worker-sdk": _worker_sdk,
    "worker-http": _worker_http,
    "worker-bedrock": _worker_bedrock,
    "worker-push": _worker_push,
    "worker-app": _worker_app,
    "origin": _origin,
    "canceller": _canceller,
    "receiver": _receiver,
    "scheduler-watch": _scheduler_watch,
}
