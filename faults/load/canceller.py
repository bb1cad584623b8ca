"""A client that enqueues a job and cancels it a little later, when the job may already run."""

from __future__ import annotations

import msgspec

from windlass.core.ids import parse_id
from windlass.service import Service

from ..history import JobFacts
from .context import CallRefused, CallUnanswered, ClientContext
from .front_ends.engine import EngineProducer, call_engine
from .job_generator import JobGenerator, JobMix, JobRequest

LATEST_S = 0.05


async def run_canceller(context: ClientContext, service: Service, mix: JobMix, *, pause_s: float = 0.05) -> None:
    generator, producer = JobGenerator(context, mix), EngineProducer(service)
    while not context.is_over:
        request = msgspec.structs.replace(generator.next_batch()[0], delay_ms=context.random.choice((0, 20, 500)))
        async with context.ignoring_failures():
            job = await _enqueue(context, producer, request)
            await context.pause(context.random.random() * LATEST_S)
            await _cancel(context, service, job)
        await context.pause(pause_s * 2 * context.random.random())


async def _enqueue(context: ClientContext, producer: EngineProducer, request: JobRequest) -> JobFacts:
    pending = context.recorder.begin("enqueue", [request.facts()])
    try:
        (job,) = await producer.enqueue([request])
    except CallRefused as refused:
        pending.record_refusal(refused.code)
        raise
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        raise
    pending.record_ok([job])
    return msgspec.structs.replace(job, key=request.key)


async def _cancel(context: ClientContext, service: Service, job: JobFacts) -> None:
    pending = context.recorder.begin("cancel", [JobFacts(key=job.key, id=job.id)])
    try:
        outcome = await call_engine(service.cancel([parse_id(job.id)]).one())
    except CallRefused as refused:
        pending.record_refusal(refused.code)
    except CallUnanswered as error:
        pending.record_unknown(str(error))
    else:
        pending.record_ok([JobFacts(outcome=outcome)])
