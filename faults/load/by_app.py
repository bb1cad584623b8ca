"""The SDK's own worker: pumps, heartbeats, pools and all, with a task that writes down its runs. Leases and reports are
the worker's business; what can be said of a job here is that its code ran to the end."""

from __future__ import annotations

import asyncio

from windlass import Context, Windlass
from windlass.sdk.worker.worker import Worker

from ..history import Seen
from .life import Life
from .working import Conduct


class Unlucky(Exception):
    """An attempt that fails, to be made again."""


def build(life: Life, url: str, namespace: str, patience_s: float, conduct: Conduct) -> tuple[Windlass, Worker]:
    app = Windlass(url, namespace=namespace, patience=patience_s)

    @app.task(name="work", queue=conduct.queues[0])
    async def work(ctx: Context, key: str, group: str = "", limit_keys: tuple[str, ...] = ()) -> None:
        job = ctx.job
        seen = Seen(key=key, id=job.key, queue=job.queue, token=job.lease_token, attempt=job.attempt)
        pending = life.recorder.begin("run", [seen])
        await asyncio.sleep(life.random.random() * conduct.work_ms / 1000)
        if life.random.choice(conduct.manners) == "retry":
            pending.refused("unlucky")
            raise Unlucky
        pending.ok()

    @app.task(name="tick", queue=conduct.queues[0])
    async def tick(ctx: Context) -> None:
        job = ctx.job
        seen = Seen(id=job.key, queue=job.queue, schedule=job.schedule, planned_at_ms=job.planned_at_ms or 0)
        life.recorder.begin("run", [seen]).ok()

    worker = Worker(app, queues=conduct.queues, concurrency=conduct.slots, grace="2s", name=life.client)
    return app, worker


async def run(life: Life, app: Windlass, worker: Worker) -> None:
    async with app:
        running = asyncio.create_task(worker.run())
        while not life.is_over and not running.done():
            await life.pause(0.2)
        worker.stop()
        await running
