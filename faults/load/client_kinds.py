"""The kinds of load clients, each connected to its front end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

from windlass.core.job import Durability
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

from .callback_receiver import callback_receiver
from .canceller import run_canceller
from .context import ClientContext
from .durable import sdk_worker as durable_sdk_worker
from .durable.code import DurableProfile
from .durable.engine_worker import run_durable_worker
from .durable.producer import run_durable_producer
from .flow_client import run_flow_client
from .front_ends import sdk_worker
from .front_ends.bedrock import QUEUE as BEDROCK
from .front_ends.bedrock import BedrockClient, BedrockProducer, BedrockWorker
from .front_ends.downloads import QUEUE as DOWNLOADS
from .front_ends.downloads import DownloadProducer, file_server
from .front_ends.engine import EngineProducer, EngineWorker
from .front_ends.jobber import JobberProducer
from .front_ends.lightjq import QUEUE as LIGHTJQ
from .front_ends.lightjq import LightjqProducer, PushWorker, push_listener
from .front_ends.native_http import HttpClient, HttpProducer, HttpWorker
from .front_ends.processor import QUEUE as PROCESSOR
from .front_ends.processor import ProcessorClient
from .job_generator import JobMix
from .options import Options
from .producer import run_producer
from .schedule_watcher import watch_schedules
from .setup import DURABLE, DURABLE_ENGINE
from .state_watcher import watch_states
from .worker import run_worker


@contextlib.asynccontextmanager
async def _service(options: Options) -> AsyncIterator[Service]:
    store = Store(parse_url(options.url), namespace=options.namespace, patience_s=options.patience_s)
    try:
        yield Service(store)
    finally:
        await store.close()


async def _producer_sdk(context: ClientContext, options: Options) -> None:
    async with _service(options) as service:
        producer = EngineProducer(service, cast(Durability | None, options.durability or None))
        await run_producer(context, producer, options.mix, pause_s=options.pause_s)


async def _producer_flows(context: ClientContext, options: Options) -> None:
    async with _service(options) as service:
        await run_flow_client(context, service, options.mix, pause_s=options.pause_s)


async def _producer_durable(context: ClientContext, options: Options) -> None:
    async with _service(options) as service:
        queues, profile = (DURABLE, DURABLE_ENGINE), DurableProfile()
        await run_durable_producer(context, service, queues, profile, pause_s=options.pause_s, url=options.http)


async def _producer_http(context: ClientContext, options: Options) -> None:
    async with contextlib.aclosing(HttpClient(options.http)) as http:
        await run_producer(context, HttpProducer(http), options.mix, pause_s=options.pause_s)


async def _producer_bedrock(context: ClientContext, options: Options) -> None:
    async with contextlib.aclosing(BedrockClient(options.bedrock, context.client)) as client:
        mix = _bare_mix(BEDROCK, options.mix.most)
        await run_producer(context, BedrockProducer(client), mix, pause_s=options.pause_s)


async def _worker_sdk(context: ClientContext, options: Options) -> None:
    async with _service(options) as service:
        workers = [EngineWorker(service) for _ in range(options.profile.slots)]
        await run_worker(context, workers, options.profile)


async def _worker_http(context: ClientContext, options: Options) -> None:
    async with contextlib.aclosing(HttpClient(options.http)) as http:
        await run_worker(context, [HttpWorker(http) for _ in range(options.profile.slots)], options.profile)


async def _worker_bedrock(context: ClientContext, options: Options) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [BedrockClient(options.bedrock, context.client) for _ in range(options.profile.slots)]
        for client in clients:
            await stack.enter_async_context(contextlib.aclosing(client))
        await run_worker(context, [BedrockWorker(client) for client in clients], options.profile)


async def _canceller(context: ClientContext, options: Options) -> None:
    async with _service(options) as service:
        await run_canceller(context, service, options.mix)


async def _receiver(context: ClientContext, options: Options) -> None:
    async with callback_receiver(context, port=options.port) as url:
        print(url, flush=True)
        await context.wait_until_over()


async def _scheduler_watch(context: ClientContext, options: Options) -> None:
    async with _service(options) as service:
        await watch_schedules(context, service)


async def _state_watch(context: ClientContext, options: Options) -> None:
    async with _service(options) as service:
        await watch_states(context, service, (LIGHTJQ, PROCESSOR))


async def _producer_lightjq(context: ClientContext, options: Options) -> None:
    async with contextlib.aclosing(HttpClient(options.http)) as http:
        await run_producer(context, LightjqProducer(http), _bare_mix(LIGHTJQ), pause_s=options.pause_s)


async def _producer_jobber(context: ClientContext, options: Options) -> None:
    async with contextlib.aclosing(HttpClient(options.http)) as http:
        producer = JobberProducer(http, options.type)
        await run_producer(context, producer, _bare_mix(producer.queue), pause_s=options.pause_s)


async def _producer_downloader(context: ClientContext, options: Options) -> None:
    async with contextlib.aclosing(HttpClient(options.http)) as http:
        producer = DownloadProducer(http, options.origin, options.mix.callback)
        await run_producer(context, producer, _bare_mix(DOWNLOADS), pause_s=options.pause_s)


def _bare_mix(queue: str, most: int = 1) -> JobMix:
    """Return the mix for front ends without delays and groups. Most of them enqueue one job at a time."""
    return JobMix(queues=(queue,), most=most, is_bare=True)


async def _producer_processor(context: ClientContext, options: Options) -> None:
    engine = ["--url", options.url, "--namespace", options.namespace]
    await ProcessorClient(context, engine, options.profile.slots, options.profile.work_ms).run()


async def _worker_push(context: ClientContext, options: Options) -> None:
    async with contextlib.aclosing(HttpClient(options.http)) as http:
        worker = PushWorker(context, http, options.profile)
        async with push_listener(worker, port=options.port) as url:
            await worker.run(url)


async def _worker_app(context: ClientContext, options: Options) -> None:
    app, worker = sdk_worker.build(context, options.url, options.namespace, options.patience_s, options.profile)
    await sdk_worker.run(context, app, worker)


async def _worker_durable(context: ClientContext, options: Options) -> None:
    connection = options.url, options.namespace, options.patience_s
    app, worker = durable_sdk_worker.build(context, *connection, DURABLE, DurableProfile(), options.profile.slots)
    await sdk_worker.run(context, app, worker)


async def _worker_durable_engine(context: ClientContext, options: Options) -> None:
    """Run durable jobs without the SDK, so that some reports come too late. Jobs with children stay with the SDK."""
    profile = DurableProfile(late=0.05, abandoned=0.05)
    async with _service(options) as service:
        await run_durable_worker(context, service, DURABLE_ENGINE, profile, options.profile.slots)


async def _origin(context: ClientContext, options: Options) -> None:
    async with file_server(port=options.port) as url:
        print(url, flush=True)
        await context.wait_until_over()


CLIENT_KINDS: dict[str, Callable[[ClientContext, Options], Awaitable[None]]] = {
    "producer-sdk": _producer_sdk,
    "producer-flows": _producer_flows,
    "producer-durable": _producer_durable,
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
    "worker-durable": _worker_durable,
    "worker-durable-engine": _worker_durable_engine,
    "origin": _origin,
    "canceller": _canceller,
    "receiver": _receiver,
    "scheduler-watch": _scheduler_watch,
    "state-watch": _state_watch,
}
