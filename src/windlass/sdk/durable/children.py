"""Child jobs that a job waits for. They are created once; their outcomes are stored as one step of the parent."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.core.durable import CHILDREN_MAX, STEP_VALUE_MAX, StepKind, StepStatus, Wait
from windlass.core.errors import AlreadyEnded, BadInput, IdConflict, Refusal, UnknownJob
from windlass.core.ids import format_id, make_id
from windlass.core.job import Blob, Codec, Durability, Ending, Job, Member, NewJob
from windlass.core.states import ENDED, State
from windlass.sdk.flows.handle import error_details
from windlass.sdk.flows.plan import refuse_shared_jobs
from windlass.sdk.handle import JobHandle
from windlass.sdk.tasks.codec import decode, encode, pack
from windlass.service import Service

from .effects import Effects
from .failures import ChildFailed
from .run import DurableRun
from .storage import ask, get_service, store, wait
from .values import decode_value

if TYPE_CHECKING:
    from windlass.sdk.tasks.task import Call

PAGE = 200
LEVELS: tuple[Durability, ...] = ("replica", "fsync", "memory")


class ChildOutcome(msgspec.Struct, frozen=True, array_like=True):
    """Outcome of a child, as it is stored with its parent."""

    id: str
    name: str
    state: str  # finished, failed, cancelled, gone; open: it had not ended when another child failed
    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: dict[str, Any] = {}

    @property
    def failure(self) -> ChildFailed | None:
        is_ok = self.state in ("finished", "open")
        return None if is_ok else ChildFailed(self.id, self.name, self.state, self.error)


_stored_outcomes = msgspec.msgpack.Decoder(list[ChildOutcome])


def run_children(run: DurableRun, name: str, calls: Sequence[Call[Any]], needs_all: bool) -> Effects[list[Any]]:
    """Create children and wait for them. Returns their results; with `needs_all`, failures as exceptions among them."""
    stored = run.find(name, StepKind.CHILDREN)
    if stored is None:
        ids = yield from _create(run, name, calls)
        outcomes = None
    elif stored.status is StepStatus.WAITING or stored.value is None:
        ids = stored.children
        outcomes = yield from _read_outcomes(run, ids, needs_all)
    else:
        return _results(name, _stored_outcomes.decode(stored.value.data), calls, needs_all)
    if outcomes is None:
        yield from wait(run, Wait(name=name, kind="children", children=ids, needs_all=needs_all), None)
        return []  # not reached: such a wait always suspends
    has_failed = not needs_all and any(outcome.failure for outcome in outcomes)
    status = StepStatus.FAILED if has_failed else StepStatus.DONE  # a person's retry repeats failures
    yield from store(run, name, kind=StepKind.CHILDREN, status=status, value=_encode(name, outcomes))
    return _results(name, outcomes, calls, needs_all)


def check_calls(calls: Sequence[Any]) -> None:
    """Refuse children that cannot be created, before any of them is."""
    from windlass.sdk.tasks.task import Call

    if len(calls) > CHILDREN_MAX:
        raise BadInput(f"A job waits for at most {CHILDREN_MAX} children at a time, not {len(calls)}.")
    for call in calls:
        if not isinstance(call, Call):
            raise BadInput("Children are calls of tasks: ctx.run(task.call(…)), ctx.gather(task.call(…), …).")
        refuse_shared_jobs(call)


# Creation


def _create(run: DurableRun, name: str, calls: Sequence[Call[Any]]) -> Effects[tuple[bytes, ...]]:
    """Create all children, or none. Their ids are made of the parent and the call, so a repeated run creates none."""
    service = yield from get_service(run)
    jobs = [
        call.new_job(id=_make_child_id(service, run, call.queue, f"{name}\0{at}"), parent=run.job.id)
        for at, call in enumerate(calls)
    ]
    asked = {call.durability for call in calls}
    durability = next((level for level in LEVELS if level in asked), None)
    try:
        answers = yield from ask(service.enqueue(jobs, whole=True, durability=durability))
    except IdConflict:  # an earlier run created them with other arguments: they stay as they are
        answers = yield from ask(service.enqueue(jobs, durability=durability))
    _notify(run, calls, jobs, answers)
    return tuple(job.id for job in jobs)


def _make_child_id(service: Service, run: DurableRun, queue: str, place: str) -> bytes:
    parent: Job = run.job
    occurrence = f"{parent.planned_at_ms or 0}\0{run.round}\0{place}"
    digest = hashlib.blake2b(parent.id + occurrence.encode(), digest_size=8).digest()
    return make_id(parent.created_at_ms, service.store.partition_of_queue(queue), int.from_bytes(digest, "big"))


def _notify(run: DurableRun, calls: Sequence[Call[Any]], jobs: Sequence[NewJob], answers: Sequence[Any]) -> None:
    handles = []
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, Refusal) and not isinstance(answer, IdConflict):
            raise answer
        status = "existing" if isinstance(answer, Refusal) else answer.status
        handles.append(JobHandle[Any](run.app, job.id, status))
    run.app.notify_enqueued(calls, handles)


# Outcomes


def _read_outcomes(run: DurableRun, ids: tuple[bytes, ...], needs_all: bool) -> Effects[list[ChildOutcome] | None]:
    """Return the outcomes in the order of the calls. None: the wait is not over."""
    service = yield from get_service(run)
    ended = yield from _list_ended(service, run.job, set(ids))
    outcomes: list[ChildOutcome] = []
    for child in ids:
        outcome = _of_member(ended[child]) if child in ended else (yield from _read_outcome(service, child))
        outcomes.append(outcome)
    open_ids = [child for child, outcome in zip(ids, outcomes, strict=True) if outcome.state == "open"]
    if not open_ids:
        return outcomes
    if needs_all or not any(outcome.failure for outcome in outcomes):
        return None
    yield from ask(service.cancel(open_ids, reason="sibling_failed"))
    return outcomes


def _list_ended(service: Service, parent: Job, wanted: set[bytes]) -> Effects[dict[bytes, Member]]:
    found: dict[bytes, Member] = {}
    cursor, is_more = "", True
    while is_more and len(found) < len(wanted):
        page = yield from ask(service.list_members(parent.id, tuple(ENDED), most=PAGE, cursor=cursor))
        found |= {member.job.id: member for member in page.members if member.job.id in wanted}
        cursor = page.cursor
        is_more = bool(cursor)
    return found


def _of_member(member: Member) -> ChildOutcome:
    return _make_outcome(member.job.id, member.job.name, member.job.state, member)


def _read_outcome(service: Service, child: bytes) -> Effects[ChildOutcome]:
    """Read a child that is not among the ended members: it has not ended, or it was deleted."""
    try:
        ending: Ending | None = yield service.result(child)
    except (AlreadyEnded, UnknownJob):
        return ChildOutcome(format_id(child), "", "gone")
    if ending is None or not ending.state.is_ended:
        return ChildOutcome(format_id(child), "", "open")
    return _make_outcome(child, "", ending.state, ending)


def _make_outcome(child: bytes, name: str, state: State, found: Member | Ending) -> ChildOutcome:
    if state is not State.FINISHED:
        return ChildOutcome(format_id(child), name, state.label, error=error_details(found.last_attempt))
    return ChildOutcome(format_id(child), name, state.label, _raw(found.result))


def _raw(result: Blob | None) -> msgspec.Raw:
    if result is None:
        return msgspec.Raw(b"\xc0")
    return msgspec.Raw(result.data if result.codec is Codec.MSGPACK else pack(decode(result)))


def _encode(name: str, outcomes: list[ChildOutcome]) -> Blob:
    blob = encode(outcomes)
    if len(blob.data) > STEP_VALUE_MAX:
        shorter = [msgspec.structs.replace(outcome, error=_without_traceback(outcome.error)) for outcome in outcomes]
        blob = encode(shorter)
    if len(blob.data) > STEP_VALUE_MAX:
        raise BadInput(
            f"The results of the children of {name!r} have {len(blob.data)} bytes, and the limit is {STEP_VALUE_MAX}. "
            "Let the children store them elsewhere and return references."
        )
    return blob


def _without_traceback(error: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in error.items() if key != "traceback"}


def _results(name: str, outcomes: list[ChildOutcome], calls: Sequence[Call[Any]], needs_all: bool) -> list[Any]:
    failures = [failure for outcome in outcomes if (failure := outcome.failure) is not None]
    if failures and not needs_all:  # siblings are cancelled because of the one that failed
        raise next((failure for failure in failures if failure.state != "cancelled"), failures[0])
    kinds = [call.task.result_type for call in calls] + [Any] * max(0, len(outcomes) - len(calls))
    return [
        outcome.failure or decode_value(name, Blob(bytes(outcome.value), Codec.MSGPACK), kind)
        for outcome, kind in zip(outcomes, kinds, strict=False)
    ]
