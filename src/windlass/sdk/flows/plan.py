"""Plan of a flow: the jobs that the engine gets for it, all or none.

A flow has an id and a name, and each of its jobs names the flow and its own step. `inputs.py` passes results to the
next step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from windlass.core.errors import BadInput, Refusal, TooLarge
from windlass.core.ids import format_id
from windlass.core.job import Durability, FlowRef, NewJob, OnFailure
from windlass.core.operations import Enqueued
from windlass.core.validation.bounds import AFTER_MAX, WHOLE_MAX
from windlass.sdk.handle import JobHandle

from .handle import FlowHandle, GroupHandle, WholeFlowHandle
from .labels import join_label

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.tasks.task import Call

H_co = TypeVar("H_co", bound=WholeFlowHandle[Any], covariant=True)
H = TypeVar("H", bound=WholeFlowHandle[Any])
JOIN = "windlass.group"  # name of jobs that only wait for others
_LIST_FORMS = {"fail": "list", "ignore": "nulls", "collect": "outcomes"}


class Upstream(msgspec.Struct, frozen=True):
    """Jobs that a step waits for, and the form in which it gets their results."""

    ids: tuple[bytes, ...]
    is_list: bool = False
    on_failure: OnFailure = "fail"
    passes: bool = True  # the results are the first arguments
    arguments: tuple[dict[str, Any], ...] = ()  # stored forms of the arguments, if they are not one made of `ids`

    def form(self) -> dict[str, Any]:
        """Return the stored form of the argument that is made of these results."""
        form = _LIST_FORMS[self.on_failure] if self.is_list else "one"
        return {"ids": [format_id(job_id) for job_id in self.ids], "form": form}

    def meta(self) -> dict[str, Any]:
        arguments = self.arguments or (self.form(),)
        if len(arguments) == 1 and "ids" in arguments[0]:
            return {"results": arguments[0]}  # the form that workers of every version read
        return {"results": {"arguments": list(arguments)}}


class FlowSource(Protocol[H_co]):
    """Description of a flow."""

    @property
    def app(self) -> Windlass: ...

    @property
    def label(self) -> str:
        """Name of the flow."""

    @property
    def is_always_flow(self) -> bool:
        """True if even a single job of it is a flow."""

    def plan_whole(self, plan: FlowPlan) -> H_co:
        """Add all jobs to the plan and return the handle of the whole flow."""


class FlowPlan:
    """Jobs of a flow, each listed after the jobs it waits for. With a parent, they are its children."""

    def __init__(
        self,
        app: Windlass,
        new_id: Callable[[str], bytes],
        parent: bytes = b"",
        new_flow_id: Callable[[str], bytes] | None = None,
    ) -> None:
        self.app = app
        self.jobs: list[NewJob] = []
        self.handles: dict[bytes, JobHandle[Any]] = {}
        self.step_names: dict[bytes, str] = {}  # by job; empty: none
        self._calls: list[Call[Any]] = []  # one per handle, in the same order
        self._part_handles: list[JobHandle[Any]] = []  # of chains, groups and the whole flow
        self._durability: set[Durability | None] = set()
        self._new_id = new_id
        self._new_flow_id = new_flow_id or new_id
        self._parent: dict[str, Any] = {"parent": parent, "held": True} if parent else {}

    @cached_property
    def flow_id(self) -> bytes:
        """Id of the flow, in the partition of its first job."""
        return self._new_flow_id(self.jobs[0].queue)

    def add(self, call: Call[Any], upstream: Upstream | None) -> Upstream:
        refuse_shared_jobs(call)
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
        if len(upstream.ids) > AFTER_MAX:
            upstream = self._join_in_parts(upstream)
        queue = next(job.queue for job in reversed(self.jobs) if job.id == upstream.ids[-1])
        self._append(NewJob(queue=queue, name=JOIN, joins=True, **self._fields(queue, upstream)))
        self.step_names[self.jobs[-1].id] = join_label(len(upstream.ids))
        return Upstream((self.jobs[-1].id,))

    def _join_in_parts(self, upstream: Upstream) -> Upstream:
        parts = [upstream.ids[start : start + AFTER_MAX] for start in range(0, len(upstream.ids), AFTER_MAX)]
        joins = [self.join(msgspec.structs.replace(upstream, ids=ids)) for ids in parts]
        return Upstream(tuple(job_id for join in joins for job_id in join.ids))

    def end_part(self, last: Upstream, start: int = 0) -> FlowHandle[Any]:
        """Return the handle of a part whose jobs begin at `start`. A group gets a job that ends with it."""
        (end,) = self.join(last).ids if last.is_list else last.ids
        ids = [job.id for job in self.jobs[start:]]
        steps = [self.handles[job_id] for job_id in ids if job_id in self.handles]
        if not last.is_list:
            return self.keep_status(FlowHandle(self.app, end, steps, ids, self.flow_id, like=self.handles[end]))
        members = [self.handles[job_id] for job_id in last.ids]
        return self.keep_status(
            GroupHandle(self.app, end, steps, ids, self.flow_id, members=members, on_failure=last.on_failure)
        )

    def keep_status(self, handle: H) -> H:
        """Set the status of this handle, too, when the engine has answered."""
        self._part_handles.append(handle)
        return handle

    def assign_flow(self, name: str) -> None:
        """Give each job its place in the flow."""
        self.jobs = [
            msgspec.structs.replace(job, flow=FlowRef(self.flow_id, name, self.step_names.get(job.id, "")))
            for job in self.jobs
        ]

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
        statuses: dict[bytes, str] = {}
        for job, answer in zip(self.jobs, answers, strict=True):
            if isinstance(answer, Refusal):
                raise answer
            statuses[job.id] = answer.status
        for handle in (*self.handles.values(), *self._part_handles):
            handle.status = statuses[handle.id_bytes]
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


def refuse_shared_jobs(call: Call[Any]) -> None:
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
    source: FlowSource[H],
    new_id: Callable[[str], bytes],
    parent: bytes = b"",
    new_flow_id: Callable[[str], bytes] | None = None,
) -> tuple[FlowPlan, H]:
    """Plan the jobs of a flow. Returns the plan and the handle of the whole flow."""
    plan = FlowPlan(source.app, new_id, parent, new_flow_id)
    handle = source.plan_whole(plan)
    if len(plan.jobs) > 1 or source.is_always_flow:
        plan.assign_flow(source.label)
    return plan, handle


def enqueue(source: FlowSource[H]) -> H:
    app = source.app
    plan, handle = plan_flow(source, app.new_id)
    plan.apply_answers(app.service.enqueue(plan.jobs, durability=plan.durability, whole=True).wait())
    return handle


async def aenqueue(source: FlowSource[H]) -> H:
    service = await source.app.aservice()
    plan, handle = plan_flow(source, service.store.new_id)
    plan.apply_answers(await service.enqueue(plan.jobs, durability=plan.durability, whole=True))
    return handle
