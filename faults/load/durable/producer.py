"""A client that enqueues durable jobs, sends signals to them, and reads their streams in pieces."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import msgspec

from windlass.core.durable import Signal
from windlass.core.ids import format_id
from windlass.core.job import Blob, NewJob
from windlass.core.retry import Backoff
from windlass.service import Service

from ...checks.final_state import stream_texts
from ...history import DurableFacts, JobFacts
from ..context import CallRefused, CallUnanswered, ClientContext
from ..front_ends.engine import call_engine
from .code import JOB_NAME, SIGNAL, DurableProfile, unique_text
from .event_reader import read_events

KEPT_MS = 3_600_000
SIGNALS = 2
PIECE = 2
POLL_S = 0.1


async def run_durable_producer(
    context: ClientContext,
    service: Service,
    queues: Sequence[str],
    profile: DurableProfile,
    *,
    pause_s: float,
    url: str,
) -> None:
    """Enqueue jobs and follow them. `url`: of a server, which streams are read from as server-sent events, too."""
    following: set[asyncio.Task[None]] = set()
    while not context.is_over:
        async with context.ignoring_failures():
            await call_engine(service.store.open())  # ids need the number of partitions
            job_id = await enqueue_durable(context, service, context.random.choice(queues), profile)
            following.add(asyncio.create_task(follow(context, service, job_id, profile, url)))
        following = {task for task in following if not task.done()}
        await context.pause(pause_s * 2 * context.random.random())
    await asyncio.gather(*following)


async def enqueue_durable(context: ClientContext, service: Service, queue: str, profile: DurableProfile) -> bytes:
    job_id, key = service.store.new_id(queue), unique_text(context)
    job = NewJob(
        id=job_id, queue=queue, name=JOB_NAME, payload=Blob(msgspec.json.encode({"key": key})),
        lease_ms=profile.lease_ms, result_ttl_ms=KEPT_MS, retry=Backoff(tries=1_000, base_ms=10, cap_ms=100),
    )  # fmt: skip
    pending = context.recorder.begin("enqueue", [JobFacts(key=key, id=format_id(job_id), queue=queue, name=JOB_NAME)])
    try:
        answer = await call_engine(service.enqueue([job]).one())
    except CallRefused as refused:
        pending.record_refusal(refused.code)
        raise
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        raise
    pending.record_ok([JobFacts(outcome=answer.status, is_durable=answer.is_durable)])
    return job_id


async def follow(
    context: ClientContext, service: Service, job_id: bytes, profile: DurableProfile, url: str = ""
) -> None:
    """Send the signals of a job, some of them too early or too late, and read its stream."""
    senders = [_send_later(context, service, job_id, profile) for _ in range(SIGNALS)]
    readers = [read_stream(context, service, job_id), *([read_events(context, url, job_id)] if url else [])]
    await asyncio.gather(*readers, *senders)


async def _send_later(context: ClientContext, service: Service, job_id: bytes, profile: DurableProfile) -> None:
    await context.pause(context.random.random() * (profile.nap_ms + profile.timeout_ms) / 1000)
    value = unique_text(context)
    request = Signal(
        id=job_id, name=SIGNAL, value=Blob(msgspec.json.encode(value)), request_id=secrets.token_bytes(16)
    )  # fmt: skip
    is_open = True
    while is_open and not context.is_over:
        async with context.ignoring_failures():
            await send(context, service, request, value)
            is_open = False


async def send(context: ClientContext, service: Service, request: Signal, value: str) -> None:
    """Send a signal. A call without an answer may be repeated: the request id makes it one signal."""
    facts = DurableFacts(job=format_id(request.id), value=value)
    pending = context.recorder.begin("signal", durable=facts)
    try:
        outcome = await call_engine(service.signal([request]).one())
    except CallRefused as refused:
        pending.record_refusal(refused.code)  # the job has ended
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        raise
    else:
        pending.record_ok(durable=msgspec.structs.replace(facts, outcome=outcome))


async def read_stream(context: ClientContext, service: Service, job_id: bytes) -> None:
    """Read a stream to its end, each piece after the last one that was answered."""
    after, is_ended = 0, False
    while not is_ended and not context.is_over:
        facts = DurableFacts(job=format_id(job_id), after=after)
        try:
            page = await call_engine(service.read_stream(job_id, after=after, most=PIECE))
        except CallRefused:
            return
        except CallUnanswered:
            await context.pause(POLL_S)
            continue
        is_ended = page.is_ended
        if page.items:
            texts = tuple(stream_texts(page.items))
            pending = context.recorder.begin("read", durable=facts)
            pending.record_ok(durable=msgspec.structs.replace(facts, values=texts))
            after += len(texts)
        elif not is_ended:
            await context.pause(POLL_S)
