"""The state after a run: everything that an operator can still see once all jobs have drained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.diagnosis import MEANINGS
from windlass.core.durable import StreamItem
from windlass.core.flow import Flow, FlowStep
from windlass.core.ids import format_id
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Listing
from windlass.service import Service

from ..history import FlowFacts, StepFacts
from .job_identity import job_identity

STATES = ("queued", "scheduled", "waiting", "suspended", "running", "finished", "failed", "cancelled", "history")
PAGE = 100
FLOW_COUNTS = ("total", "finished", "failed", "cancelled", "consequences", "deleted")
_DECODERS: dict[Codec, Callable[[bytes], Any]] = {
    Codec.JSON: msgspec.json.decode,
    Codec.MSGPACK: msgspec.msgpack.decode,
}


class FinalJob(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    key: str = ""
    queue: str = ""
    state: str
    attempt: int = 0
    token: int = 0
    schedule: str = ""
    planned_at_ms: int = 0


class FinalStep(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    value: str
    begun_at_ms: int
    ended_at_ms: int | None
    wake_at_ms: int | None


class FinalDurable(msgspec.Struct, frozen=True, kw_only=True):
    """Durable state of a job that has ended."""

    steps: tuple[FinalStep, ...] = ()
    unread: tuple[str, ...] = ()  # signals that no wait has received
    stream: tuple[str | None, ...] = ()  # None: a new attempt begins


class FinalState(msgspec.Struct, kw_only=True, dict=True):
    jobs: Mapping[str, FinalJob] = {}  # by identity
    pending_callbacks: frozenset[str] = frozenset()  # jobs with a pending or a given-up callback
    limits: Mapping[str, int] = {}  # limit -> jobs that count as running
    fired: Mapping[str, int] = {}  # schedule -> jobs that it made
    doctor: tuple[str, ...] = ()  # descriptions of what is wrong
    flows: Mapping[str, FlowFacts] = {}  # by identity
    durable: Mapping[str, FinalDurable] = {}  # of jobs with steps, signals or a stream, by identity

    def find(self, job_id: str, keys: Collection[str]) -> FinalJob | None:
        """Find a job by id, or by key where the front end shows no id."""
        if job_id in self.jobs or not keys:
            return self.jobs.get(job_id)
        return next((self.by_key[key] for key in keys if key in self.by_key), None)

    @cached_property
    def by_key(self) -> dict[str, FinalJob]:
        return {job.key: job for job in self.jobs.values() if job.key}


async def read_final_state(service: Service) -> FinalState:
    """Read the final state. Call this when nothing moves any more."""
    stored = [job for state in STATES for job in await _jobs_in(service, state)]
    diagnosis = await service.doctor()
    return FinalState(
        jobs={job.id: job for job in map(final_job, stored)},
        pending_callbacks=frozenset([job_identity(callback.job.key) for callback in await _pending_callbacks(service)]),
        limits={found.limit.name: sum(level.running for level in found.levels) for found in await service.limits()},
        fired={found.schedule.name: found.fired for found in await service.schedules()},
        doctor=tuple(
            f"{finding.code}: {finding.what} ({finding.count}: {', '.join(finding.examples)})"
            for finding in diagnosis.findings
            if finding.code in MEANINGS
        ),
        flows={flow.id: flow for flow in await _flows(service)},
        durable={job_identity(job.key): await _durable(service, job) for job in stored if job.is_durable},
    )


async def _jobs_in(service: Service, state: str) -> list[Job]:
    found: list[Job] = []
    for queue in await service.queues():
        cursor = ""
        while True:
            page = await service.jobs(Listing(queue=queue, state=state, most=PAGE, cursor=cursor))
            found += page.jobs
            cursor = page.cursor
            if not cursor:
                break
    return found


async def _pending_callbacks(service: Service) -> list[PendingCallback]:
    found: list[PendingCallback] = []
    for given_up in (False, True):
        cursor = ""
        while True:
            page = await service.callbacks(given_up=given_up, most=PAGE, cursor=cursor)
            found += page.callbacks
            cursor = page.cursor
            if not cursor:
                break
    return found


async def _flows(service: Service) -> list[FlowFacts]:
    found: list[FlowFacts] = []
    cursor = ""
    while True:
        page = await service.flows(most=PAGE, cursor=cursor)
        found += [flow_facts(await service.flow(flow.id)) for flow in page.flows]
        cursor = page.cursor
        if not cursor:
            return found


async def _durable(service: Service, job: Job) -> FinalDurable:
    state = await service.durable_states([job.id]).one()
    items: list[StreamItem] = []
    while len(items) < state.stream_length:
        items += (await service.read_stream(job.id, after=len(items))).items
    return FinalDurable(
        steps=tuple(
            FinalStep(
                name=step.name, kind=step.kind.label, value=text_of(step.value), begun_at_ms=step.begun_at_ms,
                ended_at_ms=step.ended_at_ms, wake_at_ms=step.wake_at_ms,
            )
            for step in state.steps
        ),
        unread=tuple(text_of(signal.value) for signal in state.signals),
        stream=tuple(stream_texts(items)),
    )  # fmt: skip


def stream_texts(items: Iterable[StreamItem]) -> list[str | None]:
    return [None if item.is_new_attempt else text_of(item.value) for item in items]


def text_of(value: Blob | None) -> str:
    return "" if value is None else str(_DECODERS[value.codec](value.data))


def flow_facts(flow: Flow) -> FlowFacts:
    summary = flow.summary
    return FlowFacts(
        id=job_identity(summary.key), state=summary.state, steps=tuple(map(_step_facts, flow.steps)),
        counts={name: getattr(summary, name) for name in FLOW_COUNTS}, ended_at_ms=summary.ended_at_ms or 0,
    )  # fmt: skip


def _step_facts(step: FlowStep) -> StepFacts:
    return StepFacts(
        id=_identity(step.job_id), after=tuple(map(_identity, step.after)), joins=step.joins,
        state=step.state.label if step.state is not None else "", is_consequence=step.is_consequence,
        is_kept=step.is_kept, started_at_ms=step.started_at_ms or 0, ended_at_ms=step.ended_at_ms or 0,
    )  # fmt: skip


def _identity(job_id: bytes) -> str:
    return job_identity(format_id(job_id))


def final_job(job: Job) -> FinalJob:
    return FinalJob(
        id=job_identity(job.key), key=key_of(job.payload), queue=job.queue, state=job.state.label, attempt=job.attempt,
        token=job.lease_token, schedule=job.schedule, planned_at_ms=job.planned_at_ms or 0,
    )  # fmt: skip


def key_of(payload: Blob) -> str:
    """Return the key that a load client put into the payload. Every front end has a field for it."""
    try:
        value = _DECODERS[payload.codec](payload.data)
    except (KeyError, msgspec.DecodeError):
        return ""
    return str(next(_keys_in(value), ""))


def _keys_in(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        for name in ("key", "extra"):
            if value.get(name):
                yield value[name]
