"""Children of a running job.

Children wait until the run that spawned them has returned. Then the job waits for its children and runs again, with all
their results at hand. A crash before the return leaves nothing half done.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from windlass.core.errors import BadInput, IdConflict
from windlass.core.ids import make_id
from windlass.core.job import Job
from windlass.core.operations import Update
from windlass.sdk.driver import OperationFlow
from windlass.sdk.durations import Duration
from windlass.sdk.handle import JobHandle
from windlass.service import Service

from .flow import FlowPart
from .handle import WholeFlowHandle
from .named import NamedFlow
from .plan import FlowPlan, plan_flow

if TYPE_CHECKING:
    from windlass.sdk.context import Context

Spawned: TypeAlias = FlowPart[Any] | NamedFlow
Planned: TypeAlias = tuple[FlowPlan, WholeFlowHandle[Any]]
FlowParts: TypeAlias = Iterable[Spawned] | Mapping[str, Spawned]


class ChildHandle(JobHandle[Any]):
    """Handle of a child. Its parent cannot await it: the child starts when the parent's run has ended."""

    def result(self, timeout: Duration | None = None) -> NoReturn:
        raise BadInput(
            "A child starts after the code that spawned it has returned. Return, and read ctx.children when the job "
            "runs again."
        )

    async def aresult(self, timeout: Duration | None = None) -> NoReturn:
        self.result(timeout)


def spawn(service: Service, context: Context, parts: FlowParts) -> OperationFlow[list[ChildHandle]]:
    """Create all children, or none. A part with a key is spawned once, however often the code runs."""
    keyed = list(parts.items()) if isinstance(parts, Mapping) else [("", part) for part in parts]
    planned = [_make_plan(service, context.job, key, part) for key, part in keyed]
    plans = [plan for plan, _ in planned]
    yield from _store_received_results(service, context)
    jobs = [job for plan in plans for job in plan.jobs]
    try:
        answers = yield service.enqueue(jobs, whole=True, durability=_strongest_durability(plans))
        at = iter(answers)
        for plan in plans:
            plan.apply_answers([next(at) for _ in plan.jobs])
    except IdConflict:
        yield from _enqueue_separately(service, planned)
    return [ChildHandle(context.app, handle.id_bytes, status=handle.status) for _, handle in planned]


def _make_plan(service: Service, parent: Job, key: str, part: Spawned) -> Planned:
    if not isinstance(part, FlowPart | NamedFlow):
        raise BadInput("ctx.spawn takes a call, a chain, a group or a named flow: ctx.spawn(task.call(…)).")
    numbers = count()

    def new_id(queue: str) -> bytes:
        return _make_keyed_id(service, parent, queue, f"{key}\0{next(numbers)}") if key else service.store.new_id(queue)

    def new_flow_id(queue: str) -> bytes:
        return _make_keyed_id(service, parent, queue, f"{key}\0flow") if key else service.store.new_id(queue)

    return plan_flow(part, new_id, parent.id, new_flow_id)


def _make_keyed_id(service: Service, parent: Job, queue: str, key: str) -> bytes:
    """Make the same id for the same key of the same parent, so that the engine recognises a repeated spawn."""
    digest = hashlib.blake2b(parent.id + key.encode(), digest_size=8).digest()
    return make_id(parent.created_at_ms, service.store.partition_of_queue(queue), int.from_bytes(digest, "big"))


def _store_received_results(service: Service, context: Context) -> OperationFlow[None]:
    """Write the results of upstream jobs into the stored job.

    The job loses its links to them when it hands over to its children.
    """
    if context.has_upstream_results:
        job = context.job
        yield service.update([Update(id=job.id, token=job.lease_token, payload=job.payload)]).one()
        context.has_upstream_results = False


def _enqueue_separately(service: Service, planned: list[Planned]) -> OperationFlow[None]:
    """Enqueue each plan separately. A key that was spawned before with other arguments keeps its existing job."""
    for plan, handle in planned:
        try:
            plan.apply_answers((yield service.enqueue(plan.jobs, whole=True, durability=plan.durability)))
        except IdConflict:
            handle.status = "existing"


def _strongest_durability(plans: list[FlowPlan]) -> Any:
    asked = {plan.durability for plan in plans}
    return next((level for level in ("replica", "fsync", "memory") if level in asked), None)
