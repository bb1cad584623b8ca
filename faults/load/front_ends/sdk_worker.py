"""The SDK's own worker, with a task that records its runs.

The worker itself handles leases and reports. The history shows only that the code of a job ran to its end."""

from __future__ import annotations

import asyncio

from windlass import Context, Windlass
from windlass.sdk.worker.worker import Worker

from ...history import JobFacts
from ..context import ClientContext
from ..worker import WorkerProfile


class RandomFailure(Exception):
    """A failed attempt that is retried."""


def build(
    context: ClientContext, url: str, namespace: str, patience_s: float, profile: WorkerProfile
) -> tuple[Windlass, Worker]:
    app = Windlass(url, namespace=namespace, patience=patience_s)

    @app.task(name="work", queue=profile.queues[0])
    async def work(ctx: Context, key: str, group: str = "", limit_keys: tuple[str, ...] = ()) -> None:
        job = ctx.job
        facts = JobFacts(key=key, id=job.key, queue=job.queue, token=job.lease_token, attempt=job.attempt)
        pending = context.recorder.begin("run", [facts])
        await asyncio.sleep(context.random.random() * profile.work_ms / 1000)
        if context.random.choice(profile.actions) == "retry":
            pending.record_refusal("random_failure")
            raise RandomFailure
        pending.record_ok()

    @app.task(name="tick", queue=profile.queues[0])
    async def tick(ctx: Context) -> None:
        job = ctx.job
        facts = JobFacts(id=job.key, queue=job.queue, schedule=job.schedule, planned_at_ms=job.planned_at_ms or 0)
        context.recorder.begin("run", [facts]).record_ok()

    worker = Worker(app, queues=profile.queues, concurrency=profile.slots, grace="2s", name=context.client)
    return app, worker


async def run(context: ClientContext, app: Windlass, worker: Worker) -> None:
    async with app:
        running = asyncio.create_task(worker.run())
        while not context.is_over and not running.done():
            await context.pause(0.2)
        worker.stop()
        await running
