"""Inputs of a job at its start: results of the jobs it waited for, and outcomes of its children."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.ids import parse_id
from windlass.core.job import Attempt, Blob, Codec, Ending, Job, Member
from windlass.core.states import ENDED, State
from windlass.sdk.driver import OperationFlow
from windlass.sdk.tasks.arguments import META, BadArguments
from windlass.sdk.tasks.codec import Unreadable, decode, decoder, pack
from windlass.service import Service

from .handle import error_details

if TYPE_CHECKING:
    from windlass.sdk.tasks.task import Task

MEMBERS_AT_ONCE = 200
_META, _RESULTS = META.encode(), b"results"
_NIL = msgspec.Raw(b"\xc0")
# Stored form of an argument: {ids, form} for the results of jobs, {parts} for a list of such arguments. A payload has
# one form, or {arguments} with several.
Form: TypeAlias = dict[str, Any]


class Child:
    """Job that this job spawned, with its outcome."""

    def __init__(self, member: Member, result_type: Any = Any) -> None:
        self.job = member.job
        self._member = member
        self._result_type = result_type

    @property
    def id(self) -> str:
        return self.job.key

    @property
    def name(self) -> str:
        """Name of its task."""
        return self.job.name

    @property
    def state(self) -> str:
        """`finished`, `failed` or `cancelled`."""
        return self.job.state.label

    @property
    def is_ok(self) -> bool:
        return self.job.state is State.FINISHED

    @property
    def result(self) -> Any:
        return decode(self._member.result, self._result_type) if self._member.result else None

    @property
    def error(self) -> dict[str, Any]:
        """`type`, `message`, `traceback` and `reason` of a child that failed or was cancelled."""
        return error_details(self._member.last_attempt)

    def __repr__(self) -> str:
        return f"<child {self.id} {self.name} {self.state}>"


class JobInputs(NamedTuple):
    """Job with its complete payload, and its children."""

    job: Job
    children: list[Child]


class MemberResult(NamedTuple):
    """State and result of a job that was waited for."""

    state: str
    result: Blob | None = None
    last_attempt: Attempt | None = None


def needs_inputs(job: Job, has_meta: bool) -> bool:
    """Report whether the job needs inputs. `has_meta`: its payload may have metadata of the SDK."""
    return job.has_members or (has_meta and _META in job.payload.data and _RESULTS in job.payload.data)


def collect_inputs(
    service: Service, tasks: Mapping[str, Task[..., Any]], job: Job, *, has_children: bool = True
) -> OperationFlow[JobInputs]:
    """Collect the inputs of a job. Without `has_children`, its children are those of durable calls, which read them."""
    if not has_children and not needs_inputs(msgspec.structs.replace(job, has_members=False), True):
        return JobInputs(job, [])
    members = (yield from _list_members(service, job)) if job.has_members else []
    children = [
        Child(member, tasks[member.job.name].result_type if member.job.name in tasks else Any)
        for member in members
        if has_children and member.job.parent == job.id
    ]
    arguments = _decode_arguments(job.payload)
    meta = decode(Blob(bytes(arguments[META]), Codec.MSGPACK), dict[str, Any]) if META in arguments else {}
    wanted = meta.pop("results", None)
    if not wanted:
        return JobInputs(job, children)
    forms = wanted.get("arguments", [wanted])
    by_id = {
        member.job.key: MemberResult(member.job.state.label, member.result, member.last_attempt) for member in members
    }
    for job_id in (job_id for form in forms for job_id in _ids_of(form)):
        if job_id not in by_id:
            by_id[job_id] = yield from _fetch_result(service, job_id)
    values = {name: _make_argument(name, form, by_id) for name, form in _parameters(tasks[job.name], forms)}
    rest = {name: raw for name, raw in arguments.items() if name != META} | ({META: meta} if meta else {})
    payload = Blob(pack({**values, **rest}), Codec.MSGPACK)
    return JobInputs(msgspec.structs.replace(job, payload=payload), children)


def _parameters(task: Task[..., Any], forms: Sequence[Form]) -> Iterable[tuple[str, Form]]:
    names = task.signature.leading
    if len(names) < len(forms):
        raise BadArguments(
            f"{task.name}: the job passes {len(forms)} results, and the task has {len(names)} parameters for them."
        )
    return zip(names, forms, strict=False)


def _list_members(service: Service, job: Job) -> OperationFlow[list[Member]]:
    found: list[Member] = []
    cursor, is_more = "", True
    while is_more:
        page = yield service.list_members(job.id, tuple(ENDED), most=MEMBERS_AT_ONCE, cursor=cursor)
        found += page.members
        cursor = page.cursor
        is_more = bool(cursor)
    return found


def _fetch_result(service: Service, job_id: str) -> OperationFlow[MemberResult]:
    """Fetch the result of a job that is not a member of this one, or no longer.

    This happens if the waiting job was woken or requeued by hand.
    """
    try:
        ending: Ending | None = yield service.result(parse_id(job_id))
    except (AlreadyEnded, UnknownJob):
        return MemberResult("gone")
    return MemberResult(ending.state.label, ending.result, ending.last_attempt) if ending else MemberResult("not ended")


def _decode_arguments(payload: Blob) -> dict[str, msgspec.Raw]:
    """Return the arguments as MessagePack, whatever codec the producer used."""
    try:
        if payload.codec is not Codec.MSGPACK:
            payload = Blob(pack(decode(payload)), Codec.MSGPACK)
        found: dict[str, msgspec.Raw] = decoder(dict[str, msgspec.Raw], Codec.MSGPACK)(payload.data)
    except (msgspec.DecodeError, Unreadable):  # a single argument, or not a call of this task
        return {}
    return found


def _ids_of(form: Form) -> list[str]:
    """Return the ids of the jobs whose results make an argument."""
    if "parts" in form:
        return [job_id for part in form["parts"] for job_id in _ids_of(part)]
    ids: list[str] = form["ids"]
    return ids


def _make_argument(parameter: str, form: Form, by_id: Mapping[str, MemberResult]) -> Any:
    """Make the argument that a stored form describes: of results, or a list of such arguments."""
    if "parts" in form:
        return [_make_argument(parameter, part, by_id) for part in form["parts"]]
    return _combine_results(parameter, form["form"], form["ids"], [by_id[job_id] for job_id in form["ids"]])


def _combine_results(parameter: str, form: str, ids: Sequence[str], found: Sequence[MemberResult]) -> Any:
    if form == "outcomes":
        return [_make_outcome(*pair) for pair in zip(ids, found, strict=True)]
    if form != "nulls":
        for job_id, result in zip(ids, found, strict=True):
            if result.state != "finished":
                raise BadArguments(
                    f"The argument {parameter}, the result of job {job_id}, is missing: that job is {result.state}. "
                    "Enqueue the flow again."
                )
    values = [_encode_result(result) for result in found]
    return values[0] if form == "one" else values


def _make_outcome(job_id: str, found: MemberResult) -> dict[str, Any]:
    return {
        "id": job_id,
        "state": found.state,
        "value": _encode_result(found),
        "error": error_details(found.last_attempt),
    }


def _encode_result(found: MemberResult) -> msgspec.Raw:
    if found.state != "finished" or found.result is None:
        return _NIL
    if found.result.codec is Codec.MSGPACK:
        return msgspec.Raw(found.result.data)
    return msgspec.Raw(pack(decode(found.result)))
