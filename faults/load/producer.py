"""A producer for any front end: it enqueues jobs and records the answers.

It repeats an unanswered enqueue where that makes no second job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..history import JobFacts
from .context import CallRefused, CallUnanswered, ClientContext
from .job_generator import JobGenerator, JobMix, JobRequest

PAUSE_S = 0.02


class FrontEndProducer(Protocol):
    """The enqueue call of a front end."""

    is_repeatable: bool  # a repeated enqueue makes no second job

    async def enqueue(self, requests: Sequence[JobRequest]) -> Sequence[JobFacts]:
        """Return for each job its id and outcome, or the code of its refusal.

        Raise CallRefused or CallUnanswered for all of them."""


async def run_producer(
    context: ClientContext, producer: FrontEndProducer, mix: JobMix, *, pause_s: float = PAUSE_S
) -> None:
    generator = JobGenerator(context, mix)
    while not context.is_over:
        batch = generator.next_batch()
        while not await enqueue_batch(context, producer, batch) and producer.is_repeatable and not context.is_over:
            await context.pause(0.1)
        await context.pause(pause_s * 2 * context.random.random())


async def enqueue_batch(context: ClientContext, producer: FrontEndProducer, requests: Sequence[JobRequest]) -> bool:
    """Enqueue the jobs and record the answer. Return False if there was none."""
    pending = context.recorder.begin("enqueue", [request.facts() for request in requests])
    try:
        pending.record_ok(await producer.enqueue(requests))
    except CallRefused as refused:
        pending.record_refusal(refused.code)
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        return False
    return True
