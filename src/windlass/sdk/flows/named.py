"""Named flows: steps with names, and the results and the order that connect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeAlias, TypeVar, overload

from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import OnFailure
from windlass.core.validation.bounds import AFTER_MAX
from windlass.core.validation.values import check_new_name
from windlass.sdk.handle import JobHandle

from .flow import FlowPart, make_call_with_results
from .handle import NamedFlowHandle
from .labels import LABEL_MAX, shorten
from .plan import FlowPlan, Upstream, aenqueue, enqueue

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.tasks.task import Task

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class PlannedStep(NamedTuple):
    """Jobs of a step: those whose results it passes on, and the job that ends with it."""

    results: Upstream
    handle: JobHandle[Any]


class Step(Generic[R_co]):
    """Step of a named flow. Later steps can take its result, or wait for it with `after`."""

    def __init__(self, flow: NamedFlow, name: str, part: FlowPart[R_co], results: tuple[Results, ...]) -> None:
        self.flow = flow
        self.name = name
        self.part = part
        self.place = len(flow.steps)
        self._results = results
        self._after: tuple[Step[Any], ...] = ()
        self._check_policies()

    def after(self, *steps: Step[Any]) -> Step[R_co]:
        """Start this step when these steps have ended well, without their results. Returns this step."""
        for step in steps:
            self.flow.check_step(step, f"after of step {self.name!r} takes steps")
        before, self._after = self._after, (*self._after, *steps)
        try:
            self._check_policies()
            self.flow.check_order(is_backward=all(step.place < self.place for step in steps))
        except BadInput:
            self._after = before
            raise
        return self

    @property
    def awaited(self) -> tuple[Step[Any], ...]:
        """Steps that this step waits for, each once."""
        return tuple(dict.fromkeys((*self._passing, *self._after)))

    @property
    def _passing(self) -> list[Step[Any]]:
        """Steps whose results this step gets."""
        return [step for results in self._results for step in (results if isinstance(results, list) else [results])]

    @property
    def _on_failure(self) -> OnFailure:
        return next((step.part.on_failure for step in self._passing), "fail")

    def _check_policies(self) -> None:
        """Refuse a step that a failure of one step must stop, and a failure of another step must not."""
        lenient = [step for step in self._passing if step.part.on_failure != "fail"]
        strict = [*(step for step in self._passing if step.part.on_failure == "fail"), *self._after]
        if lenient and strict:
            group, other = lenient[0], strict[0]
            raise BadInput(
                f"Step {self.name!r} gets the results of {group.name!r} (on_failure={group.part.on_failure!r}), "
                f"which may fail, and also waits for {other.name!r}, which must not fail. Insert a step after "
                f"{group.name!r} that takes its results alone, and use the result of that step here."
            )

    # The jobs

    def plan(self, plan: FlowPlan, planned: Mapping[Step[Any], PlannedStep]) -> PlannedStep:
        start = len(plan.jobs)
        results = self.part.plan(plan, self._upstream(planned))
        is_single = len(plan.jobs) == start + 1 and not results.is_list
        handle = plan.handles[results.ids[0]] if is_single else plan.end_part(results, start)
        for job in plan.jobs[start:]:
            plan.step_names[job.id] = shorten(f"{self.name}: {plan.step_names.get(job.id) or job.name}")
        plan.step_names[handle.id_bytes] = self.name
        return PlannedStep(results, handle)

    def _upstream(self, planned: Mapping[Step[Any], PlannedStep]) -> Upstream | None:
        passing = [job_id for step in self._passing for job_id in planned[step].results.ids]
        ids = tuple(dict.fromkeys((*passing, *(planned[step].handle.id_bytes for step in self._after))))
        if len(ids) > AFTER_MAX:
            raise TooLarge(
                f"Step {self.name!r} waits for {len(ids)} jobs; at most {AFTER_MAX} are allowed. Combine some of them "
                "in a step of their own."
            )
        arguments = tuple(_argument(results, planned) for results in self._results)
        return Upstream(ids, on_failure=self._on_failure, passes=bool(arguments), arguments=arguments) if ids else None

    def __repr__(self) -> str:
        return f"<step {self.name} of {self.flow.name}>"


Results: TypeAlias = Step[Any] | list[Step[Any]]


def _argument(results: Results, planned: Mapping[Step[Any], PlannedStep]) -> dict[str, Any]:
    """Return the stored form of an argument: the result of a step, or the list of the results of several steps."""
    if isinstance(results, Step):
        return planned[results].results.form()
    upstreams = [planned[step].results for step in results]
    if any(upstream.is_list for upstream in upstreams):
        return {"parts": [upstream.form() for upstream in upstreams]}
    return Upstream(tuple(job_id for upstream in upstreams for job_id in upstream.ids), is_list=True).form()


class NamedFlow:
    """Flow of named steps, made by `flow`. Each `enqueue` enqueues all of its jobs, or none."""

    is_always_flow = True

    def __init__(self, name: str) -> None:
        check_new_name("The name of a flow", name, LABEL_MAX)
        self.name = name
        self.steps: dict[str, Step[Any]] = {}
        self._is_backward = True  # each step waits for earlier steps only

    @property
    def label(self) -> str:
        return self.name

    @property
    def app(self) -> Windlass:
        if not self.steps:
            raise BadInput(f"The flow {self.name!r} has no steps: add them with step(name, task.call(…)).")
        return next(iter(self.steps.values())).part.app

    @overload
    def step(self, name: str, part: FlowPart[R], /) -> Step[R]: ...
    @overload
    def step(
        self, name: str, task: Task[Concatenate[A, P], R], a: Step[A], /, *args: P.args, **kwargs: P.kwargs
    ) -> Step[R]: ...
    @overload
    def step(
        self, name: str, task: Task[Concatenate[list[A], P], R], a: list[Step[A]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Step[R]: ...
    @overload
    def step(
        self,
        name: str,
        task: Task[Concatenate[A, B, P], R],
        a: Step[A],
        b: Step[B],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Step[R]: ...
    @overload
    def step(
        self,
        name: str,
        task: Task[Concatenate[list[A], B, P], R],
        a: list[Step[A]],
        b: Step[B],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Step[R]: ...
    @overload
    def step(
        self,
        name: str,
        task: Task[Concatenate[A, list[B], P], R],
        a: Step[A],
        b: list[Step[B]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Step[R]: ...
    @overload
    def step(
        self,
        name: str,
        task: Task[Concatenate[list[A], list[B], P], R],
        a: list[Step[A]],
        b: list[Step[B]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Step[R]: ...
    @overload
    def step(
        self,
        name: str,
        task: Task[Concatenate[A, B, C, P], R],
        a: Step[A],
        b: Step[B],
        c: Step[C],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Step[R]: ...
    @overload
    def step(
        self,
        name: str,
        task: Task[Concatenate[A, B, C, D, P], R],
        a: Step[A],
        b: Step[B],
        c: Step[C],
        d: Step[D],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Step[R]: ...
    def step(self, name: str, work: Any, /, *args: Any, **kwargs: Any) -> Step[Any]:
        """Add a step: a call, a chain or a group, or a task that gets the results of earlier steps.

        Results are passed as the first arguments of the task: a step stands for its result, a list of steps for the
        list of their results. Other arguments follow.
        """
        check_new_name("The name of a step", name, LABEL_MAX)
        if name in self.steps:
            raise BadInput(f"The flow {self.name!r} has a step {name!r} already: use another name.")
        part, results = self._read_work(name, work, args, kwargs)
        if self.steps and part.app is not self.app:
            raise BadInput(f"Step {name!r} has a task of another app: all tasks of a flow belong to one app.")
        step = self.steps[name] = Step(self, name, part, results)
        return step

    def _read_work(
        self, name: str, work: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[FlowPart[Any], tuple[Results, ...]]:
        from windlass.sdk.tasks.task import Task

        if isinstance(work, FlowPart):
            if args or kwargs:
                raise BadInput(
                    f"Step {name!r}: a call has its arguments already. To pass results, give the task: "
                    "step(name, task, earlier_step, …)."
                )
            return work, ()
        if not isinstance(work, Task):
            raise BadInput(f"Step {name!r} takes a call, a chain, a group or a task, not {work!r}.")
        results = self._read_results(name, work, args, kwargs)
        return make_call_with_results(work, len(results), args[len(results) :], dict(kwargs)), results

    def _read_results(
        self, name: str, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Results, ...]:
        """Return the leading arguments that are steps or lists of steps."""
        count = next((at for at, value in enumerate(args) if not _is_results(value)), len(args))
        if not count:
            raise BadInput(
                f"Step {name!r}: give {task.name}.call(…), or give steps whose results are the first arguments of "
                f"{task.name}."
            )
        if any(map(_is_results, (*args[count:], *kwargs.values()))):
            raise BadInput(f"Step {name!r}: pass results by position, before the other arguments of {task.name}.")
        results = tuple(list(value) if isinstance(value, list | tuple) else value for value in args[:count])
        for step in (step for value in results for step in (value if isinstance(value, list) else [value])):
            self.check_step(step, f"step {name!r} gets results of steps")
        if len(task.signature.leading) < count:
            raise BadInput(
                f"Step {name!r}: {task.name} has {len(task.signature.leading)} parameters for {count} results. "
                f"For order alone, use step({name!r}, {task.name}.call(…)).after(…)."
            )
        return results

    def check_step(self, step: Any, sentence: str) -> None:
        if not isinstance(step, Step):
            raise BadInput(f"In the flow {self.name!r}, {sentence}, not {step!r}.")
        if step.flow is not self:
            raise BadInput(
                f"In the flow {self.name!r}, {sentence} of this flow; {step.name!r} is a step of another flow "
                f"({step.flow.name!r})."
            )

    def check_order(self, *, is_backward: bool) -> None:
        """Refuse steps that wait for each other. `is_backward`: the new dependencies are on earlier steps."""
        if not (is_backward and self._is_backward):  # no cycle without a dependency on a later step
            self._in_order()
            self._is_backward = False

    def _in_order(self) -> list[Step[Any]]:
        """Return the steps, each after the steps that it waits for."""
        try:
            return list(TopologicalSorter({step: step.awaited for step in self.steps.values()}).static_order())
        except CycleError as error:
            cycle = " → ".join(step.name for step in error.args[1])
            raise BadInput(f"Steps of the flow {self.name!r} wait for each other: {cycle}.") from None

    # The jobs

    def plan_whole(self, plan: FlowPlan) -> NamedFlowHandle:
        planned: dict[Step[Any], PlannedStep] = {}
        for step in self._in_order():
            planned[step] = step.plan(plan, planned)
        awaited = {before for step in planned for before in step.awaited}
        last = {step.name: planned[step].handle for step in self.steps.values() if step not in awaited}
        ends = tuple(handle.id_bytes for handle in last.values())
        whole = ends[0] if len(ends) == 1 else plan.join(Upstream(ends)).ids[0]
        handles = {step.name: planned[step].handle for step in self.steps.values()}
        ids = [job.id for job in plan.jobs]
        return plan.keep_status(NamedFlowHandle(plan.app, whole, ids, plan.flow_id, steps=handles, last=last))

    def enqueue(self) -> NamedFlowHandle:
        """Enqueue all jobs, or none. The handle waits for all steps."""
        return enqueue(self)

    async def aenqueue(self) -> NamedFlowHandle:
        return await aenqueue(self)

    def __repr__(self) -> str:
        return f"<flow {self.name} of {len(self.steps)} steps>"


def _is_results(value: Any) -> bool:
    """Report whether an argument stands for results: a step, or a list of steps."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(item, Step) for item in value)
    return isinstance(value, Step)


def flow(name: str) -> NamedFlow:
    """Begin a flow of named steps: a directed acyclic graph of calls, chains and groups."""
    return NamedFlow(name)
