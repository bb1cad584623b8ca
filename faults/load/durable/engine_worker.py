"""A worker that runs durable jobs by direct calls of the engine. Some of its reports come after the end of a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from windlass.core.durable import ReceiveSignal, Step, StepStatus, StoreStep, StreamWrite, Suspend, Wait
from windlass.core.job import Blob, Job
from windlass.core.operations import ANY_JOB_WITH_STEPS, Take
from windlass.service import Service

from ...checks.final_state import text_of
from ...history import DurableFacts, JobFacts
from ..context import CallRefused, CallUnanswered, ClientContext
from ..front_ends.engine import EngineWorker, call_engine, lease_facts
from ..worker import record_report
from .code import SIGNAL, DurableProfile, RandomFailure, RecordedCalls, Work, run_code, unique_text

WAIT_MS = 50
EARLY = 0.5  # share of the sleeps that a signal may interrupt


class Suspension(BaseException):
    """The code waits. It is no Exception, as in the SDK."""

    def __init__(self, *waits: Wait) -> None:
        super().__init__()
        self.waits = waits


class Abandoned(BaseException):
    """The run ends without a report, as if its process had died."""


class StreamWriter:
    """Writer of a run to the stream of its job, outside of steps."""

    def __init__(self, service: Service, job: Job) -> None:
        self._service = service
        self._job = job
        self._written = 0

    async def write(self, values: Sequence[str]) -> None:
        blobs = tuple(Blob(msgspec.json.encode(value)) for value in values)
        request = StreamWrite(
            id=self._job.id, token=self._job.lease_token, values=blobs, sequence=self._written, outside=self._written
        )  # fmt: skip
        self._written += len(values)
        await call_engine(self._service.write_stream([request]).one())


class EngineCalls:
    """Durable calls by the service. `stored`: the steps of earlier runs."""

    def __init__(
        self, context: ClientContext, service: Service, job: Job, stored: Sequence[Step], profile: DurableProfile
    ) -> None:
        self._context = context
        self._service = service
        self._job = job
        self._stored = {step.name: step for step in stored}
        self._profile = profile
        self._stream = StreamWriter(service, job)

    async def step(self, name: str, work: Work) -> str:
        if name in self._stored:
            return text_of(self._stored[name].value)
        value = await work()
        await self._end_badly()
        request = StoreStep(
            id=self._job.id, token=self._job.lease_token, name=name, value=Blob(msgspec.json.encode(value))
        )  # fmt: skip
        facts = DurableFacts(job=self._job.key, token=self._job.lease_token, name=name, value=value)
        pending = self._context.recorder.begin("store", durable=facts)
        await call_engine(self._service.store_steps([request]).one())
        pending.record_ok()
        return value

    async def _end_badly(self) -> None:
        chance = self._context.random.random()
        if chance < self._profile.abandoned:
            raise Abandoned
        if chance < self._profile.abandoned + self._profile.late:
            await self._context.pause(self._profile.lease_ms * 2 / 1000)

    async def sleep(self, name: str, length_ms: int) -> None:
        step = self._stored.get(name)
        if step is not None and step.status is StepStatus.DONE:
            return
        # A signal may wake the job before its sleep is over. It then sleeps again, up to the same instant.
        others = [Wait(name="early", kind="signal", signal=SIGNAL)] if self._context.random.random() < EARLY else []
        raise Suspension(Wait(name=name, kind="sleep", for_ms=length_ms), *others)

    async def wait(self, name: str, signal: str, timeout_ms: int) -> str:
        step = self._stored.get(name)
        if step is None:
            request = ReceiveSignal(id=self._job.id, token=self._job.lease_token, name=name, signal=signal)
            step = await call_engine(self._service.receive_signals([request]).one())
        if step is None or step.status is StepStatus.WAITING:
            raise Suspension(Wait(name=name, kind="signal", signal=signal, for_ms=timeout_ms))
        return text_of(step.value) if step.status is StepStatus.DONE else ""

    async def gather(self, name: str) -> str:
        return await self.step(name, self._no_children)

    async def _no_children(self) -> str:
        return f"no children: {unique_text(self._context)}"

    async def write(self, values: Sequence[str]) -> None:
        await self._stream.write(values)


async def run_durable_worker(
    context: ClientContext, service: Service, queue: str, profile: DurableProfile, slots: int
) -> None:
    await asyncio.gather(*(_run_slot(context, service, queue, profile) for _ in range(slots)))


async def _run_slot(context: ClientContext, service: Service, queue: str, profile: DurableProfile) -> None:
    while not context.is_over:
        async with context.ignoring_failures():
            for job in await _take(context, service, queue, profile):
                await _run_job(context, service, job, profile)


async def _take(context: ClientContext, service: Service, queue: str, profile: DurableProfile) -> list[Job]:
    request = Take(queues=(queue,), wants=ANY_JOB_WITH_STEPS, lease_ms=profile.lease_ms, wait_ms=WAIT_MS)
    pending = context.recorder.begin("take")
    try:
        jobs = (await call_engine(service.take(request))).jobs
    except (CallRefused, CallUnanswered) as error:
        pending.record_unknown(str(error))
        raise
    pending.record_ok(map(lease_facts, jobs))
    return jobs


async def _run_job(context: ClientContext, service: Service, job: Job, profile: DurableProfile) -> None:
    lease, worker = lease_facts(job), EngineWorker(service)
    stored = (await call_engine(service.durable_states([job.id]).one())).steps if job.is_durable else ()
    calls = EngineCalls(context, service, job, stored, profile)
    try:
        await run_code(RecordedCalls(context, job, calls, profile))
    except Suspension as suspension:
        await _suspend(context, service, lease, job, suspension.waits)
    except RandomFailure:
        expected = msgspec.structs.replace(lease, outcome="retried")
        await record_report(context, worker, "fail", expected, lambda: worker.fail(lease, final=False, delay_ms=10))
    except Abandoned:
        return
    else:
        await record_report(context, worker, "finish", lease, lambda: worker.finish(lease))


async def _suspend(
    context: ClientContext, service: Service, lease: JobFacts, job: Job, waits: tuple[Wait, ...]
) -> None:
    pending = context.recorder.begin("suspend", [JobFacts(key=lease.key, id=lease.id, token=lease.token)])
    try:
        outcome = await call_engine(service.suspend([Suspend(id=job.id, token=job.lease_token, waits=waits)]).one())
    except CallRefused as refused:
        pending.record_refusal(refused.code)
    except CallUnanswered as error:
        pending.record_unknown(str(error))
    else:
        pending.record_ok([JobFacts(outcome=outcome)])
