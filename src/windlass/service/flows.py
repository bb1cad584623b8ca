"""Operations on flows: read, list, resume, cancel, run again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.errors import AlreadyEnded, FlowIncomplete, Refusal
from windlass.core.flow import Flow, FlowPage, FlowState, FlowStep, FlowSummary, ResumedFlow
from windlass.core.flow.copy import copy_steps
from windlass.core.ids import id_part
from windlass.core.job import FlowRef, Job
from windlass.core.text.glob import compile_glob
from windlass.core.validation.flows import check_flow_listing
from windlass.core.validation.values import check_id
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import command, job_admin
from windlass.store.commands import flows as flows_commands
from windlass.store.flow_pages import read_flow_page
from windlass.store.limit_matcher import requeue_jobs
from windlass.store.operation import Operation

from .enqueue import EnqueueOperations
from .facet import send_or_raise
from .jobs import JobOperations

STEPS_NAMED = 10  # in a message
_GONE = "Its record is gone, so it cannot run again."


class FlowOperations(JobOperations, EnqueueOperations):
    def flow(self, flow_id: bytes) -> Operation[Flow]:
        """Return a flow with its steps. Steps whose records are gone are shown as they ended."""
        check_id("id", flow_id)
        return Operation(self.store, lambda: self._read_flow(flow_id))

    def _read_flow(self, flow_id: bytes) -> command.Flow[Flow]:
        return (yield from send_or_raise(flows_commands.flow(flow_id, self.store.partition_of_job(flow_id))))

    def flows(
        self,
        *,
        state: FlowState | Literal[""] = "",
        name: str = "",
        alias: str = "",
        most: int = 50,
        cursor: str = "",
        queues: tuple[str, ...] = (),
    ) -> Operation[FlowPage]:
        """Return one page of flows, newest first. `name` is a GLOB, `alias` the beginning or end of an id, at least 4
        hex digits. `queues` are patterns of the queues that the caller
        may see; a flow with a job in another queue is left out. A page reads a bounded number of flows, so it may be
        empty although more pages follow."""
        check_flow_listing(state, name, alias, most, cursor, queues)
        is_named = compile_glob(name) if name else None
        part = id_part(alias) if alias else None

        def matches(flow: FlowSummary) -> bool:
            return (
                (not state or flow.state == state)
                and (is_named is None or is_named(flow.name))
                and (part is None or part.is_in(flow.id))
                and all(is_queue_allowed(queue, queues) for queue in flow.queues)
            )

        return Operation(self.store, lambda: read_flow_page(matches, most, cursor, self.store.partitions))

    def resume_flow(self, flow_id: bytes) -> Operation[ResumedFlow]:
        """Queue the steps again that failed or were cancelled by themselves. Steps that ended because of them wait
        again."""
        check_id("id", flow_id)
        return Operation(self.store, lambda: self._resume_steps(flow_id))

    def _resume_steps(self, flow_id: bytes) -> command.Flow[ResumedFlow]:
        found = yield from self._read_flow(flow_id)
        causes = [step for step in found.steps if step.is_cause]
        refused = {step.job_id: _GONE for step in causes if not step.is_kept}
        ids = _steps_to_retry(found.steps)
        store = self.store
        # In one call: a step may wait again if the call retries all steps that it waits for.
        retry = partial(job_admin.retry, is_whole=True)
        answers = yield from requeue_jobs(store.limit_cache, ids, store.partition_of_job, retry)
        given = dict(zip(ids, answers, strict=True))
        kept = [step.job_id for step in causes if step.is_kept]
        refused |= {job_id: str(answer) for job_id in kept if isinstance(answer := given[job_id], Refusal)}
        return ResumedFlow(retried=[job_id for job_id in kept if job_id not in refused], refused=refused)

    def cancel_flow(self, flow_id: bytes) -> Operation[str]:
        """Cancel all jobs of a flow that have not ended. The answer is `requested` if one of them is running, else
        `cancelled`."""
        check_id("id", flow_id)
        return Operation(self.store, lambda: self._cancel_steps(flow_id))

    def _cancel_steps(self, flow_id: bytes) -> command.Flow[str]:
        found = yield from self._read_flow(flow_id)
        # The last steps first: none of them starts because a step before it has ended. A group that fails with its
        # members is cancelled with them, and keeps its links for a resume.
        ids = [step.job_id for step in reversed(found.steps) if not step.is_ended and not _follows_members(step)]
        if not ids:
            raise AlreadyEnded("All steps of the flow have ended; nothing was changed.")
        answers: Sequence[str | Refusal] = yield from split_by_partition(
            ids,
            self.store.partition_of_job,
            lambda part, partition: job_admin.cancel(part, "cancelled", True, False, False, partition),
        )
        return "requested" if "requested" in answers else "cancelled"

    def rerun_flow(self, flow_id: bytes) -> Operation[bytes]:
        """Enqueue a copy of a flow, with new ids, and return its id. It needs the records of all steps."""
        check_id("id", flow_id)
        return Operation(self.store, lambda: self._rerun_steps(flow_id))

    def _rerun_steps(self, flow_id: bytes) -> command.Flow[bytes]:
        found = yield from self._read_flow(flow_id)
        timelines = yield from self._job_flow([step.job_id for step in found.steps])
        jobs = [timeline.job for timeline in timelines if not isinstance(timeline, Refusal)]
        if len(jobs) < len(found.steps):
            gone = [
                step for step, timeline in zip(found.steps, timelines, strict=True) if isinstance(timeline, Refusal)
            ]
            raise FlowIncomplete(_incomplete(gone))
        return (yield from self._enqueue_copy(found, jobs))

    def _enqueue_copy(self, found: Flow, jobs: Sequence[Job]) -> command.Flow[bytes]:
        new_id, *ids = self.store.new_ids([jobs[0].queue, *(job.queue for job in jobs)])
        copies = copy_steps(found.steps, jobs, ids, FlowRef(new_id, found.summary.name))
        prepared = self._check_enqueue(copies, whole=True)
        answers = yield from self._enqueue_flow(prepared, [], self.store.durability, True)
        for answer in answers:
            if isinstance(answer, Refusal):
                raise answer
        return new_id


def _steps_to_retry(steps: Sequence[FlowStep]) -> list[bytes]:
    """Return the causes, and the consequences that a cause waits for, each after the steps that it waits for. A cause
    that was cancelled while it waited waits again only if the steps before it do."""
    ids, awaited = list[bytes](), set[bytes]()
    for step in reversed(steps):
        if step.is_kept and (step.is_cause or (step.is_consequence and step.job_id in awaited)):
            ids.append(step.job_id)
            awaited.update(step.after)
    return ids[::-1]


def _follows_members(step: FlowStep) -> bool:
    return step.joins and step.on_failure == "fail"


def _incomplete(gone: Sequence[FlowStep]) -> str:
    names = ", ".join(step.label for step in gone[:STEPS_NAMED])
    more = f" and {len(gone) - STEPS_NAMED} more" if len(gone) > STEPS_NAMED else ""
    return f"{FlowIncomplete.sentence} Gone: {names}{more}."
