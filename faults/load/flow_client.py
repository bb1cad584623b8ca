"""A client that enqueues flows, and resumes those that failed or were cancelled, its own and those of earlier runs.

It reads a flow before it changes it, and records what it read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from windlass.core.errors import Refusal
from windlass.core.flow import Flow, FlowState, FlowStep
from windlass.core.ids import format_id
from windlass.service import Service

from ..checks.final_state import flow_facts
from ..history import JobFacts
from .context import CallRefused, CallUnanswered, ClientContext
from .flow_generator import FlowGenerator, FlowRequest
from .front_ends.engine import call_engine
from .job_generator import JobMix

PAGE = 100
RESUME_PAUSE_S = 0.5
RESUMED_AT_ONCE = 3
BY_RETRY, CANCELLED = 0.3, 0.1  # shares: of the resumes by a retry of each step, of the rounds with a cancel
STOPPED: tuple[FlowState, ...] = ("failed", "cancelled")


async def run_flow_client(context: ClientContext, service: Service, mix: JobMix, *, pause_s: float = 0.3) -> None:
    await asyncio.gather(_enqueue_flows(context, service, mix, pause_s), _resume_flows(context, service))


async def _enqueue_flows(context: ClientContext, service: Service, mix: JobMix, pause_s: float) -> None:
    request: FlowRequest | None = None
    generator = FlowGenerator(context, mix, service.store)
    while not context.is_over:
        async with context.ignoring_failures():
            await call_engine(service.store.open())  # ids need the number of partitions
            request = request or generator.next_flow()
            if await enqueue_flow(context, service, request):
                request = None
        await context.pause(pause_s * 2 * context.random.random())


async def enqueue_flow(context: ClientContext, service: Service, request: FlowRequest) -> bool:
    """Enqueue a flow and record the answer. Return False if there was none."""
    pending = context.recorder.begin("enqueue", request.facts())
    try:
        answers = await call_engine(service.enqueue(request.jobs(), whole=True))
    except CallRefused as refused:
        pending.record_refusal(refused.code)
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        return False
    else:
        flow = format_id(request.flow_id)
        pending.record_ok(
            JobFacts(code=answer.code)
            if isinstance(answer, Refusal)
            else JobFacts(outcome=answer.status, is_durable=answer.is_durable, flow=flow)
            for answer in answers
        )
    return True


async def _resume_flows(context: ClientContext, service: Service) -> None:
    while not context.is_over:
        async with context.ignoring_failures():
            await resume_some_flows(context, service)
        await context.pause(RESUME_PAUSE_S * 2 * context.random.random())


async def resume_some_flows(context: ClientContext, service: Service) -> None:
    """Resume some flows that stopped, in two ways. Read one that runs, and cancel it now and then."""
    rng = context.random
    stopped = await find_flows(service, *STOPPED)
    for flow_id in rng.sample(stopped, min(len(stopped), RESUMED_AT_ONCE)):
        flow = await _observe(context, service, flow_id)
        resume = retry_steps if rng.random() < BY_RETRY else resume_flow
        await resume(context, service, flow)
    running = await find_flows(service, "running")
    if running:
        flow = await _observe(context, service, rng.choice(running))
        if rng.random() < CANCELLED:
            await _cancel_flow(context, service, flow)


async def find_flows(service: Service, *states: FlowState) -> list[bytes]:
    """Return the flows in these states."""
    found: list[bytes] = []
    cursor = ""
    while True:
        page = await call_engine(service.flows(most=PAGE, cursor=cursor))
        found += [flow.id for flow in page.flows if flow.state in states]
        cursor = page.cursor
        if not cursor:
            return found


async def resume_stopped_flows(context: ClientContext, service: Service) -> int:
    """Resume all flows that failed or were cancelled. Return how many steps were queued again."""
    count = 0
    for flow_id in await find_flows(service, *STOPPED):
        count += await resume_flow(context, service, await _observe(context, service, flow_id))
    return count


async def _observe(context: ClientContext, service: Service, flow_id: bytes) -> Flow:
    flow = await call_engine(service.flow(flow_id))
    context.recorder.record_flow(flow_facts(flow))
    return flow


async def resume_flow(context: ClientContext, service: Service, flow: Flow) -> int:
    """Resume a flow and return how many steps were queued again. The engine chooses the steps."""
    pending = context.recorder.begin("requeue", _requested(flow.steps))
    try:
        answer = await call_engine(service.resume_flow(flow.summary.id))
    except (CallRefused, CallUnanswered) as error:
        # The call reads the flow first, so the refusal may belong to its second part.
        pending.record_unknown(str(error))
        raise
    retried = set(answer.retried)
    facts = {job_id: JobFacts(outcome="queued") for job_id in retried}
    # A step that another client queued at the same time is refused. A lost answer may hide that we queued it.
    facts |= {job_id: JobFacts(outcome=f"refused: {reason}") for job_id, reason in answer.refused.items()}
    pending.record_ok(facts.get(step.job_id, JobFacts(code="no_cause")) for step in flow.steps)
    return len(retried)


async def retry_steps(context: ClientContext, service: Service, flow: Flow) -> int:
    """Retry all steps that stopped, in any order. Steps that stopped because of others are refused."""
    steps = [step for step in flow.steps if step.state is not None and step.state.label in STOPPED]
    context.random.shuffle(steps)
    pending = context.recorder.begin("requeue", _requested(steps))
    try:
        answers = await call_engine(service.retry([step.job_id for step in steps]))
    except CallRefused as refused:
        pending.record_refusal(refused.code)
        raise
    except CallUnanswered as error:
        pending.record_unknown(str(error))
        raise
    pending.record_ok(
        JobFacts(code=answer.code) if isinstance(answer, Refusal) else JobFacts(outcome=answer) for answer in answers
    )
    return sum(not isinstance(answer, Refusal) for answer in answers)


async def _cancel_flow(context: ClientContext, service: Service, flow: Flow) -> None:
    """Cancel a flow. Its answer does not say which steps were cancelled."""
    pending = context.recorder.begin("cancel", _requested(flow.steps))
    try:
        await call_engine(service.cancel_flow(flow.summary.id))
    except CallRefused as refused:
        pending.record_refusal(refused.code)
    except CallUnanswered as error:
        pending.record_unknown(str(error))
    else:
        pending.record_ok(JobFacts(outcome="requested") for _ in flow.steps)


def _requested(steps: Iterable[FlowStep]) -> list[JobFacts]:
    return [JobFacts(id=format_id(step.job_id)) for step in steps]
