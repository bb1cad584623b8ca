"""Model of durable jobs in plain Python: steps, waits, signals and a stream beside each job of the model of the queue.
Answers are the service's, refusals are their codes. The states of child jobs are given by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.service.machines.durable_stream_model import StreamModel
from tests.service.machines.ledger import ModelJob
from tests.service.machines.model import Model
from windlass.core.durable import (
    STREAM_KEPT_MS,
    DurableState,
    ReceiveSignal,
    Rewind,
    Signal,
    Step,
    StepKind,
    StepStatus,
    StoreStep,
    StreamWrite,
    Suspend,
    UnreadSignal,
    Wait,
)
from windlass.core.job import Blob
from windlass.core.operations import Filter
from windlass.core.states import ENDED, LEASED, State

# Bounds of the tested library; the real ones are too far away for a random walk.
STEPS_MAX, SIGNALS_MAX, SUSPENSIONS_MAX = 8, 3, 9
KINDS = {
    "sleep": StepKind.SLEEP,
    "signal": StepKind.SIGNAL,
    "children": StepKind.CHILDREN,
    "retry": StepKind.STEP,
}


@dataclass
class ModelStep:
    kind: StepKind
    status: StepStatus
    number: int
    tries: int
    begun_at: int
    ended_at: int = 0
    wake_at: int = 0
    signal: str = ""
    children: tuple[bytes, ...] = ()
    needs_all: bool = False
    value: Blob | None = None

    def as_step(self, name: str) -> Step:
        return Step(
            name=name,
            kind=self.kind,
            status=self.status,
            number=self.number,
            tries=self.tries,
            begun_at_ms=self.begun_at,
            ended_at_ms=self.ended_at or None,
            wake_at_ms=self.wake_at or None,
            signal=self.signal,
            children=self.children,
            value=self.value,
        )

    @property
    def is_waiting(self) -> bool:
        return self.status is StepStatus.WAITING


@dataclass
class Durable:
    """Durable state of one job."""

    steps: dict[str, ModelStep] = field(default_factory=dict)
    last_number: int = 0
    signals: list[UnreadSignal] = field(default_factory=list)
    request_ids: list[bytes] = field(default_factory=list)
    suspensions: int = 0
    suspended_at: int = 0
    suspended_by: int = 0  # token of the last suspension
    waits: tuple[str, ...] = ()
    round: int = 0
    needs_steps: bool = False
    stream: StreamModel = field(default_factory=StreamModel)


class DurableModel(Model):
    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self.durable: dict[bytes, Durable] = {}
        self.children: Mapping[bytes, Mapping[bytes, State]] = {}  # of each parent, as they are now

    # Looking

    def state_of(self, job_id: bytes) -> DurableState:
        own = self.durable.get(job_id, Durable())
        steps = [step.as_step(name) for name, step in own.steps.items()]
        return DurableState(
            now_ms=self.now_ms,
            steps=tuple(sorted(steps, key=lambda step: step.number)),
            signals=tuple(own.signals),
            suspensions=own.suspensions,
            suspended_at_ms=own.suspended_at or None,
            waits=own.waits,
            round=own.round,
            stream_writes=own.stream.outside,
            stream_length=len(own.stream.items),
        )

    def needs_steps(self, job_id: bytes) -> bool:
        return job_id in self.durable and self.durable[job_id].needs_steps

    def takeable(self, queue: str, wanted: Filter = Filter()) -> list[ModelJob]:  # noqa: B008
        found = super().takeable(queue, wanted)
        return [job for job in found if wanted.steps or not self.needs_steps(job.id)]

    # Steps

    def open(self, job: ModelJob) -> Durable:
        return self.durable.setdefault(job.id, Durable())

    def write(self, job: ModelJob, name: str, step: ModelStep) -> str | None:
        """Store a step, which has the number of the stored step of this name, or gets the next one."""
        own = self.durable.get(job.id)
        known = own.steps.get(name) if own else None
        if known is None and own is not None and len(own.steps) >= STEPS_MAX:
            return "steps_full"
        own = self.open(job)
        if not own.needs_steps:
            own.needs_steps = True
            job.expires_at, job.had_expiry = 0, job.had_expiry or job.expires_at > 0
        if known is None:
            own.last_number += 1
        step.number = known.number if known else own.last_number
        own.steps[name] = step
        return None

    def store(self, job: ModelJob, request: StoreStep) -> str | None:
        self._renew_in_passing(job, request.lease_ms)
        own = self.durable.get(job.id)
        known = own.steps.get(request.name) if own else None
        if known and not known.is_waiting:
            return None
        is_same_kind = known is not None and known.kind is request.kind
        step = ModelStep(
            kind=request.kind,
            status=request.status,
            number=0,
            tries=request.tries,
            begun_at=known.begun_at if known else self.now_ms - request.ran_ms,
            ended_at=0 if request.status is StepStatus.WAITING else self.now_ms,
            children=known.children if known and is_same_kind else (),
            value=request.value,
        )
        return self.write(job, request.name, step)

    def _renew_in_passing(self, job: ModelJob, lease_ms: int) -> None:
        """Extend the lease, unless that would move its deadline only a little."""
        deadline = self.deadline(job, lease_ms)
        least_ms = min(1_000, (deadline - self.now_ms) / 10)
        if job.is_retakeable or deadline - job.deadline >= least_ms:
            self.extend(job, lease_ms)

    # Waits

    def suspend(self, request: Suspend) -> str:
        job = self.held(request.id, request.token)
        if isinstance(job, str):
            return "suspended" if self._is_repeated(request) else job
        if job.is_cancel_requested:
            self.end(job, "suspend", State.CANCELLED)
            return "cancelled"
        if job.id in self.durable and self.durable[job.id].suspensions >= SUSPENSIONS_MAX:
            return "too_many_suspensions"
        is_met = False
        for wait in request.waits:
            answer = self._store_wait(job, wait)
            if isinstance(answer, str):
                return answer
            is_met |= answer
        return self._end_run(job, request, is_met)

    def _is_repeated(self, request: Suspend) -> bool:
        job = self.jobs.get(request.id)
        is_suspended = job is not None and job.state is State.SUSPENDED
        return is_suspended and self.durable[request.id].suspended_by == request.token

    def _end_run(self, job: ModelJob, request: Suspend, is_met: bool) -> str:
        own = self.durable[job.id]
        own.suspensions += 1
        own.suspended_by = request.token
        job.attempt = max(0, job.attempt - 1)
        if is_met:
            job.ready_at = self.now_ms
            self.put_back(job, "suspend")
            return "queued"
        ends = [own.steps[wait.name].wake_at for wait in request.waits if own.steps[wait.name].wake_at]
        own.waits, own.suspended_at = tuple(wait.name for wait in request.waits), self.now_ms
        job.ready_at = min(ends, default=0)
        job.token, job.deadline, job.worker = 0, 0, b""
        self.move(job, "suspend", State.SUSPENDED)
        return "suspended"

    def _store_wait(self, job: ModelJob, wait: Wait) -> bool | str:
        """Store a wait, once. Returns whether it is met, or a refusal."""
        own = self.durable.get(job.id)
        known = own.steps.get(wait.name) if own else None
        kind = KINDS[wait.kind]
        if known is None or (kind is StepKind.STEP and known.is_waiting):
            step = ModelStep(
                kind=kind,
                status=StepStatus.WAITING,
                number=0,
                tries=wait.tries,
                begun_at=known.begun_at if known else self.now_ms,
                wake_at=0 if wait.for_ms is None else self.now_ms + wait.for_ms,
                signal=wait.signal,
                children=wait.children,
                needs_all=wait.needs_all,
                value=wait.value,
            )
            if refused := self.write(job, wait.name, step):
                return refused
        step = self.durable[job.id].steps[wait.name]
        if step.kind is StepKind.SIGNAL and step.is_waiting and self._receive(job, wait.name, wait.signal):
            return True
        is_met = self._is_met(job, step)
        if is_met:
            self._settle(step)
        return is_met

    def _is_met(self, job: ModelJob, step: ModelStep) -> bool:
        if not step.is_waiting or 0 < step.wake_at <= self.now_ms:
            return True
        if step.kind is not StepKind.CHILDREN:
            return False
        # A child that is not linked any more was deleted.
        states = [self.children.get(job.id, {}).get(child, State.CANCELLED) for child in step.children]
        if not step.needs_all and any(state in (State.FAILED, State.CANCELLED) for state in states):
            return True
        return all(state in ENDED for state in states)

    def _settle(self, step: ModelStep) -> None:
        outcome = {StepKind.SLEEP: StepStatus.DONE, StepKind.SIGNAL: StepStatus.TIMED_OUT}.get(step.kind)
        if outcome and step.is_waiting and 0 < step.wake_at <= self.now_ms:
            step.status, step.ended_at, step.value = outcome, self.now_ms, None

    def _wake(self, job: ModelJob, verb: str) -> None:
        own = self.durable[job.id]
        for name in own.waits:
            if name in own.steps:
                self._settle(own.steps[name])
        job.ready_at = min(job.ready_at or self.now_ms, self.now_ms)
        self.move(job, verb, State.QUEUED)
        self._forget_waits(job)

    def _forget_waits(self, job: ModelJob) -> None:
        if own := self.durable.get(job.id):
            own.waits, own.suspended_at = (), 0

    def notice_children(self, children: Mapping[bytes, Mapping[bytes, State]]) -> None:
        """Wake jobs whose children have ended. Their other waits are looked at only then."""
        before, self.children = self.children, children
        for job in [job for job in self.jobs.values() if job.state is State.SUSPENDED]:
            if _open_children(before, job.id) == _open_children(children, job.id):
                continue
            own = self.durable[job.id]
            waits = [own.steps[name] for name in own.waits if name in own.steps]
            if any(step.kind is StepKind.CHILDREN and self._is_met(job, step) for step in waits):
                self._wake(job, "settle")

    # Signals

    def _receive(self, job: ModelJob, name: str, signal: str) -> Step | str | None:
        own = self.durable.get(job.id)
        oldest = next((unread for unread in own.signals if unread.name == signal), None) if own else None
        if own is None or oldest is None:
            return None
        if refused := self._answer(job, name, signal, oldest.value):
            return refused
        own.signals.remove(oldest)
        return own.steps[name].as_step(name)

    def _answer(self, job: ModelJob, name: str, signal: str, value: Blob) -> str | None:
        known = self.durable[job.id].steps.get(name)
        begun_at = known.begun_at if known else self.now_ms
        step = ModelStep(StepKind.SIGNAL, StepStatus.DONE, 0, 1, begun_at, self.now_ms, signal=signal, value=value)
        return self.write(job, name, step)

    def receive(self, job: ModelJob, request: ReceiveSignal) -> Step | str | None:
        own = self.durable.get(job.id)
        known = own.steps.get(request.name) if own else None
        if known and not known.is_waiting:
            return known.as_step(request.name)
        return self._receive(job, request.name, request.signal)

    def signal(self, request: Signal) -> str:
        job = self.jobs.get(request.id)
        if job is None:
            return self.missing(request.id)
        if job.state in ENDED:
            return "already_ended"
        own = self.durable.get(job.id, Durable())
        if request.request_id and request.request_id in own.request_ids:
            return "repeated"
        name = self._open_wait(job, request.name)
        if name is None and len(own.signals) >= SIGNALS_MAX:
            return "mailbox_full"
        own = self.open(job)
        if request.request_id:
            own.request_ids = [*own.request_ids, request.request_id][-SIGNALS_MAX:]
        if name is None:
            own.signals.append(UnreadSignal(request.name, self.now_ms, request.value))
            return "kept"
        self._answer(job, name, request.name, request.value)
        self._wake(job, "signal")
        return "received"

    def _open_wait(self, job: ModelJob, signal: str) -> str | None:
        own = self.durable.get(job.id)
        if job.state is not State.SUSPENDED or own is None:
            return None
        for name in own.waits:
            step = own.steps.get(name)
            if step and step.kind is StepKind.SIGNAL and step.is_waiting and step.signal == signal:
                return name
        return None

    # Streams

    def write_stream(self, job: ModelJob, request: StreamWrite) -> int:
        own = self.durable.get(job.id)
        stream = own.stream if own else StreamModel()
        attempt = (job.attempt, own.round if own else 0)
        stream.write(request, attempt, self.now_ms)
        if stream.items:
            self.open(job).stream = stream
        return len(stream.items)

    # Operations of the queue that concern durable state

    def promote(self, queue: str) -> int:
        due = [job for job in self.of(queue, State.SUSPENDED) if 0 < job.ready_at <= self.now_ms]
        for job in due:
            self._wake(job, "promote")
        return len(due) + super().promote(queue)

    def rewind(self, request: Rewind) -> int | str:
        job = self.jobs.get(request.id)
        if job is None:
            return self.missing(request.id)
        if job.state in LEASED:
            return "wrong_state"
        own = self.durable.get(job.id)
        if request.step and (own is None or request.step not in own.steps):
            return "unknown_step"
        if own is None:
            return 0
        first = own.steps[request.step].number if request.step else 0
        own.round += 1
        own.stream.outside = own.stream.outside if request.step else 0
        return self._drop(own, [name for name, step in own.steps.items() if step.number >= first])

    def _drop(self, own: Durable, names: list[str]) -> int:
        for name in names:
            del own.steps[name]
        return len(names)

    def _revive(self, job: ModelJob, verb: str) -> str:
        if own := self.durable.get(job.id):
            own.round += 1
            self._drop(own, [name for name, step in own.steps.items() if self._is_dropped_by_retry(step)])
        return super()._revive(job, verb)

    def _is_dropped_by_retry(self, step: ModelStep) -> bool:
        """Failures are tried again. The children of an open wait were cancelled with the job."""
        is_open_gather = step.kind is StepKind.CHILDREN and step.is_waiting
        return is_open_gather or step.status in (StepStatus.FAILED, StepStatus.TIMED_OUT)

    def requeue(self, job_id: bytes, gives_attempt_back: bool) -> str:
        answer = super().requeue(job_id, gives_attempt_back)
        if job_id in self.jobs:
            self._forget_waits(self.jobs[job_id])
        return answer

    def end(self, job: ModelJob, verb: str, state: State) -> None:
        self._forget_waits(job)
        super().end(job, verb, state)

    def kept_ms(self, job: ModelJob) -> int:
        """The stream of a job without a result stays until its readers have the end."""
        own = self.durable.get(job.id)
        return super().kept_ms(job) or (STREAM_KEPT_MS if own and own.stream.items else 0)

    def _run_again(self, job: ModelJob) -> None:
        self.durable.pop(job.id, None)
        super()._run_again(job)

    def remove(self, job: ModelJob, ended_as: State | None = None) -> None:
        self.durable.pop(job.id, None)
        super().remove(job, ended_as)


def _open_children(children: Mapping[bytes, Mapping[bytes, State]], parent: bytes) -> set[bytes]:
    return {child for child, state in children.get(parent, {}).items() if state not in ENDED}


def comparable(state: DurableState) -> dict[str, Any]:
    """Return the fields of a durable state that the model knows."""
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return {name: value for name, value in fields.items() if name not in ("bytes", "has_yielded")}
