"""Chains and groups, and the jobs that the engine gets for them.

A flow is a description until it is enqueued. Then all of its jobs are accepted, or none. `inputs.py` passes results to
the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

import msgspec

from windlass.core.errors import BadInput, Refusal, TooLarge
from windlass.core.ids import format_id
from windlass.core.job import Durability, NewJob, OnFailure
from windlass.core.operations import Enqueued
from windlass.core.validation.bounds import AFTER_MAX, WHOLE_MAX
from windlass.sdk.handle import JobHandle
from windlass.sdk.tasks.arguments import Signature

from .handle import FlowHandle, GroupHandle, Outcome

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.tasks.task import Call, Task

P = ParamSpec("P")
R = TypeVar("R")
R2 = TypeVar("R2")
R_co = TypeVar("R_co", covariant=True)
JOIN = "windlass.group"  # name of jobs that only wait for others


class Upstream(msgspec.Struct, frozen=True):
    """Jobs that a step waits for, and the form in which it gets their results."""

    ids: tuple[bytes, ...]
    is_list: bool = False
    on_failure: OnFailure = "fail"
    passes: bool = True  # the results are the first argument

    def meta(self) -> dict[str, Any]:
        form = (
            "one" if not self.is_list else {"fail": "list", "ignore": "nulls", "collect": "outcomes"}[self.on_failure]
        )
        return {"results": {"ids": [format_id(job_id) for job_id in self.ids], "form": form}}


class FlowPlan:
    """Jobs of a flow, each listed after the jobs it waits for. With a parent, they are its children."""

    def __init__(self, app: Windlass, new_id: Callable[[str], bytes], parent: bytes = b"") -> None:
        self.app = app
        self.jobs: list[NewJob] = []
        self.handles: dict[bytes, JobHandle[Any]] = {}
        self._calls: list[Call[Any]] = []  # one per handle, in the same order
        self.flow_handle: FlowHandle[Any] | None = None
        self._durability: set[Durability | None] = set()
        self._new_id = new_id
        self._parent: dict[str, Any] = {"parent": parent, "held": True} if parent else {}

    def add(self, call: Call[Any], upstream: Upstream | None) -> Upstream:
        _refuse_shared_jobs(call)
        fields = self._fields(call.queue, upstream)
        if upstream is not None and upstream.passes:
            fields["meta"] = upstream.meta()
        self._append(_make_job(call, fields))
        self._durability.add(call.durability)
        self._calls.append(call)
        job_id: bytes = fields["id"]
        self.handles[job_id] = JobHandle(
            self.app,
            job_id,
            result_type=call.task.result_type,
            is_kept=call.options.keeps_result,
        )
        return Upstream((job_id,))

    def join(self, upstream: Upstream) -> Upstream:
        """Add one job that waits for all upstream jobs and stands for them."""
        queue = next(job.queue for job in reversed(self.jobs) if job.id == upstream.ids[-1])
        self._append(NewJob(queue=queue, name=JOIN, joins=True, **self._fields(queue, upstream)))
        return Upstream((self.jobs[-1].id,))

    def _fields(self, queue: str, upstream: Upstream | None) -> dict[str, Any]:
        awaited = {"after": upstream.ids, "on_failure": upstream.on_failure} if upstream else {}
        return {"id": self._new_id(queue), **awaited, **self._parent}

    def _append(self, job: NewJob) -> None:
        if len(self.jobs) == WHOLE_MAX:
            raise TooLarge(f"A flow has at most {WHOLE_MAX} jobs; let a job of it spawn the others (ctx.spawn_many).")
        self.jobs.append(job)

    @property
    def durability(self) -> Durability | None:
        """The strongest level that any of the calls asks for."""
        levels: tuple[Durability, ...] = ("replica", "fsync", "memory")
        return next((level for level in levels if level in self._durability), None)

    def apply_answers(self, answers: Iterable[Enqueued | Refusal]) -> None:
        for job, answer in zip(self.jobs, answers, strict=True):
            if isinstance(answer, Refusal):
                raise answer
            for handle in (self.handles.get(job.id), self.flow_handle):
                if handle is not None and handle.id_bytes == job.id:
                    handle.status = answer.status
        self.app.notify_enqueued(self._calls, list(self.handles.values()))


def _make_job(call: Call[Any], fields: dict[str, Any]) -> NewJob:
    try:
        return call.new_job(**fields)
    except TypeError as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{call.task.name}: its computed key or tenant needs an argument that is known only after the previous "
            f"step has ended ({error}). Use a fixed key or tenant, or pass that argument explicitly."
        ) from error


class FlowPart(Generic[R_co]):
    """Part of a flow that another part can follow: a call, a chain or a group."""

    __slots__ = ()

    @property
    def app(self) -> Windlass:
        raise NotImplementedError

    @property
    def ends_in_group(self) -> bool:
        return False

    def plan(self, plan: FlowPlan, upstream: Upstream | None) -> Upstream:
        """Add the part's jobs to the plan and return the upstream of the next step."""
        raise NotImplementedError

    def then(self: FlowPart[R], task: Task[Concatenate[R, P], R2], *args: P.args, **kwargs: P.kwargs) -> Chain[R2]:
        """Run the task when this part has ended well, with its result as the first argument."""
        return Chain(self, _make_next_call(cast("Task[..., R2]", task), args, kwargs), passes=True)

    def and_then(self, part: FlowPart[R2]) -> Chain[R2]:
        """Run the call, chain or group when this part has ended well, without its result."""
        if not isinstance(part, FlowPart):
            raise BadInput("and_then takes a call, a chain or a group: and_then(task.call(…)).")
        return Chain(self, part, passes=False)


class Chain(FlowPart[R_co]):
    """Sequence of two parts."""

    __slots__ = ("_first", "_passes", "_second")

    def __init__(self, first: FlowPart[Any], second: FlowPart[R_co], *, passes: bool) -> None:
        self._first = first
        self._second = second
        self._passes = passes

    @property
    def app(self) -> Windlass:
        return self._first.app

    @property
    def ends_in_group(self) -> bool:
        return self._second.ends_in_group

    def plan(self, plan: FlowPlan, upstream: Upstream | None) -> Upstream:
        before = self._first.plan(plan, upstream)
        return self._second.plan(plan, msgspec.structs.replace(before, passes=self._passes))

    def enqueue(self) -> FlowHandle[R_co]:
        """Enqueue all jobs, or none. The handle belongs to the last step."""
        return enqueue(self)

    async def aenqueue(self) -> FlowHandle[R_co]:
        return await aenqueue(self)


class Group(FlowPart[R_co]):
    """Parts that run in parallel. The group's result is the list of their results, in the given order."""

    __slots__ = ("_parts", "on_failure")

    def __init__(self, parts: list[FlowPart[Any]], on_failure: OnFailure) -> None:
        self._parts = parts
        self.on_failure = on_failure

    @property
    def app(self) -> Windlass:
        return self._parts[0].app

    @property
    def ends_in_group(self) -> bool:
        return True

    def plan(self, plan: FlowPlan, upstream: Upstream | None) -> Upstream:
        # Without a join, each part would wait for each upstream job: their product, not their sum.
        if upstream is not None and len(upstream.ids) > 1 and len(self._parts) > 1:
            upstream = msgspec.structs.replace(plan.join(upstream), passes=False)
        ids = [job_id for part in self._parts for job_id in part.plan(plan, upstream).ids]
        return Upstream(tuple(ids), is_list=True, on_failure=self.on_failure)

    def enqueue(self) -> GroupHandle[R_co]:
        """Enqueue all jobs, or none. The handle waits for all results."""
        return cast("GroupHandle[R_co]", enqueue(self))

    async def aenqueue(self) -> GroupHandle[R_co]:
        return cast("GroupHandle[R_co]", await aenqueue(self))


@overload
def group(*parts: FlowPart[R] | Iterable[FlowPart[R]], on_failure: Literal["fail"] = "fail") -> Group[list[R]]: ...
@overload
def group(*parts: FlowPart[R] | Iterable[FlowPart[R]], on_failure: Literal["collect"]) -> Group[list[Outcome[R]]]: ...
@overload
def group(*parts: FlowPart[R] | Iterable[FlowPart[R]], on_failure: Literal["ignore"]) -> Group[list[R | None]]: ...
def group(*parts: FlowPart[Any] | Iterable[FlowPart[Any]], on_failure: OnFailure = "fail") -> Group[Any]:
    """Make a group of calls and chains that run in parallel.

    `on_failure` decides what happens when a member fails or is cancelled. `fail`: the group fails at once. `collect`:
    the group continues when all members have ended, with an Outcome of each. `ignore`: the same, with None for each
    missing result.
    """
    if on_failure not in ("fail", "collect", "ignore"):
        raise BadInput(f"on_failure must be fail, collect or ignore, not {on_failure!r}.")
    members = [member for part in parts for member in (part if isinstance(part, Iterable) else [part])]
    if not members:
        raise BadInput("A group needs at least one call.")
    if len(members) > AFTER_MAX:
        raise TooLarge(f"A group has at most {AFTER_MAX} members, not {len(members)}; make a task that spawns them.")
    for member in members:
        if not isinstance(member, FlowPart):
            raise BadInput(f"A group is made of calls and chains, as in group(task.call(1), …), not {member!r}.")
        if member.ends_in_group:
            raise BadInput(
                "A group cannot be a member of a group: use one group, or let a task follow the inner group."
            )
    return Group(members, on_failure)


# Calls in a flow


def _make_next_call(task: Task[..., R2], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[R2]:
    from windlass.sdk.tasks.task import Call, Task

    if not isinstance(task, Task):
        raise BadInput("then takes a task and its further arguments: then(task, …). For a call, use and_then.")
    signature = _without_first(task.function, task.signature.injected, task.signature.first, task.name)
    return Call(task, signature.bind(args, kwargs), task.options, signature)


@lru_cache(4096)
def _without_first(function: Any, injected: frozenset[str], first: str, name: str) -> Signature:
    if not first:
        raise BadInput(f"{name} has no parameter for the result: use and_then({name}.call(…)).")
    return Signature.of(function, injected | {first}, name=name)


def _refuse_shared_jobs(call: Call[Any]) -> None:
    """Refuse options that let several calls share a job, or that keep a job from ending."""
    options = call.options
    for option, is_set, off in (
        ("debounce", options.fields.get("debounce_ms"), "0"),
        ("throttle", options.fields.get("throttle_ms"), "0"),
        ("unique", options.unique, "False"),
        ("repeat", options.fields.get("repeat"), "''"),
    ):
        if is_set:
            raise BadInput(
                f"{call.task.name} has the option {option}, which a job of a flow cannot have: "
                f"use {call.task.name}.using({option}={off}) there."
            )


# Enqueuing


def plan_flow(
    part: FlowPart[Any], new_id: Callable[[str], bytes], parent: bytes = b""
) -> tuple[FlowPlan, FlowHandle[Any]]:
    """Plan the jobs of a flow. Returns the plan and the handle of the whole flow."""
    plan = FlowPlan(part.app, new_id, parent)
    last = part.plan(plan, None)
    (whole,) = plan.join(last).ids if last.is_list else last.ids
    ids, steps = [job.id for job in plan.jobs], list(plan.handles.values())
    if last.is_list:
        members = [plan.handles[job_id] for job_id in last.ids]
        plan.flow_handle = GroupHandle(plan.app, whole, steps, ids, members=members, on_failure=last.on_failure)
    else:
        plan.flow_handle = FlowHandle(plan.app, whole, steps, ids, like=plan.handles[whole])
    return plan, plan.flow_handle


def enqueue(part: FlowPart[Any]) -> FlowHandle[Any]:
    app = part.app
    plan, handle = plan_flow(part, app.new_id)
    plan.apply_answers(app.service.enqueue(plan.jobs, durability=plan.durability, whole=True).wait())
    return handle


async def aenqueue(part: FlowPart[Any]) -> FlowHandle[Any]:
    service = await part.app.aservice()
    plan, handle = plan_flow(part, service.store.new_id)
    plan.apply_answers(await service.enqueue(plan.jobs, durability=plan.durability, whole=True))
    return handle
