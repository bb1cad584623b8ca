"""The SDK's own worker with a durable task. It may be killed at any time; another worker continues its jobs."""

from __future__ import annotations

from collections.abc import Sequence

from windlass import Context, SignalTimeout, Windlass
from windlass.sdk.worker.worker import Worker

from ...history import JobFacts
from ..context import ClientContext
from .code import CHILD_NAME, JOB_NAME, DurableProfile, RecordedCalls, Work, run_code, unique_text

CHILDREN = 2


class SdkCalls:
    """Durable calls of the SDK's context."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def step(self, name: str, work: Work) -> str:
        return await self._ctx.step(name, work)

    async def sleep(self, name: str, length_ms: int) -> None:
        await self._ctx.sleep(length_ms / 1000, name=name)

    async def wait(self, name: str, signal: str, timeout_ms: int) -> str:
        try:
            return await self._ctx.wait_for(signal, str, timeout=timeout_ms / 1000)
        except SignalTimeout:
            return ""

    async def gather(self, name: str) -> str:
        child = self._ctx.app.tasks[CHILD_NAME]
        results = await self._ctx.gather((child.call(number) for number in range(CHILDREN)), name=name)
        return " ".join(map(str, results))

    async def write(self, values: Sequence[str]) -> None:
        await self._ctx.stream.write(*values)


def build(
    context: ClientContext, url: str, namespace: str, patience_s: float, queue: str, profile: DurableProfile, slots: int
) -> tuple[Windlass, Worker]:
    app = Windlass(url, namespace=namespace, patience=patience_s)

    @app.task(name=JOB_NAME, queue=queue)
    async def durable(ctx: Context, key: str) -> None:
        job = ctx.job
        facts = JobFacts(key=key, id=job.key, queue=job.queue, token=job.lease_token, attempt=job.attempt)
        pending = context.recorder.begin("run", [facts])
        await run_code(RecordedCalls(context, job, SdkCalls(ctx), profile))
        pending.record_ok()

    @app.task(name=CHILD_NAME, queue=queue)
    async def child(number: int) -> str:
        return f"{unique_text(context)} {number}"

    worker = Worker(app, queues=(queue,), concurrency=slots, grace="2s", name=context.client)
    return app, worker
