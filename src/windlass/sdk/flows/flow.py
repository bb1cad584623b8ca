"""Chains and groups.

A flow is a description until it is enqueued. Then all of its jobs are accepted, or none (`plan.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

import msgspec

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import OnFailure
from windlass.core.validation.bounds import AFTER_MAX
from windlass.sdk.tasks.arguments import Signature

from .handle import FlowHandle, GroupHandle, Outcome
from .labels import chain_label, group_label
from .plan import FlowPlan, Upstream, aenqueue, enqueue

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.tasks.task import Call, Task

P = ParamSpec("P")
R = TypeVar("R")
R2 = TypeVar("R2")
R_co = TypeVar("R_co", covariant=True)


class FlowPart(Generic[R_co]):
    """Part of a flow that another part can follow: a call, a chain or a group."""

    __slots__ = ()

    is_always_flow = False

    @property
    def app(self) -> Windlass:
        raise NotImplementedError

    @property
    def label(self) -> str:
        """Readable name, made of the names of tasks."""
        raise NotImplementedError

    @property
    def ends_in_group(self) -> bool:
        return False

    @property
    def on_failure(self) -> OnFailure:
        """Effect of a failure at the end of this part on the next part."""
        return "fail"

    def plan(self, plan: FlowPlan, upstream: Upstream | None) -> Upstream:
        """Add the part's jobs to the plan and return the upstream of the next step."""
        raise NotImplementedError

    def plan_whole(self, plan: FlowPlan) -> FlowHandle[R_co]:
        """Add the jobs of a flow that consists of this part alone."""
        return plan.end_part(self.plan(plan, None))

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

    __slots__ = ("_first", "_label", "_passes", "_second")

    def __init__(self, first: FlowPart[Any], second: FlowPart[R_co], *, passes: bool) -> None:
        self._first = first
        self._second = second
        self._passes = passes
        self._label = chain_label(first.label, second.label)

    @property
    def app(self) -> Windlass:
        return self._first.app

    @property
    def label(self) -> str:
        return self._label

    @property
    def ends_in_group(self) -> bool:
        return self._second.ends_in_group

    @property
    def on_failure(self) -> OnFailure:
        return self._second.on_failure

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

    __slots__ = ("_on_failure", "_parts")

    def __init__(self, parts: list[FlowPart[Any]], on_failure: OnFailure) -> None:
        self._parts = parts
        self._on_failure = on_failure

    @property
    def app(self) -> Windlass:
        return self._parts[0].app

    @property
    def label(self) -> str:
        return group_label([part.label for part in self._parts])

    @property
    def ends_in_group(self) -> bool:
        return True

    @property
    def on_failure(self) -> OnFailure:
        return self._on_failure

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
    from windlass.sdk.tasks.task import Task

    if not isinstance(task, Task):
        raise BadInput("then takes a task and its further arguments: then(task, …). For a call, use and_then.")
    if not task.signature.leading:
        raise BadInput(f"{task.name} has no parameter for the result: use and_then({task.name}.call(…)).")
    return make_call_with_results(task, 1, args, kwargs)


def make_call_with_results(
    task: Task[..., R2], results: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Call[R2]:
    """Make a call whose first arguments are results that are known only when it starts."""
    from windlass.sdk.tasks.task import Call

    filled = frozenset(task.signature.leading[:results])
    signature = _without(task.function, task.signature.injected | filled, task.name)
    return Call(task, signature.bind(args, kwargs), task.options, signature)


@lru_cache(4096)
def _without(function: Any, skip: frozenset[str], name: str) -> Signature:
    return Signature.of(function, skip, name=name)
