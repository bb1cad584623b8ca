"""Random flows: chains, groups with a job after them, and diamonds."""

from __future__ import annotations

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import Blob, FlowRef, NewJob
from windlass.core.retry import Backoff
from windlass.store.store import Store

from ..history import JobFacts
from .context import ClientContext
from .job_generator import JobGenerator, JobMix, JobRequest

NAME = "faults"
TRIES = (1, 1, 3)  # few, so that lost leases and failed attempts end steps


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    request: JobRequest
    job_id: bytes
    after: tuple[bytes, ...] = ()
    joins: bool = False


class FlowRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A flow to enqueue. Its ids are chosen, so that a repeated request makes no second flow."""

    flow_id: bytes
    steps: tuple[StepRequest, ...]

    def jobs(self) -> list[NewJob]:
        return [
            NewJob(
                id=step.job_id, queue=step.request.queue, name=step.request.name, after=step.after, joins=step.joins,
                payload=Blob(msgspec.json.encode(step.request.payload)),
                retry=Backoff(tries=step.request.tries, base_ms=10), flow=FlowRef(self.flow_id, NAME, f"step {at}"),
            )
            for at, step in enumerate(self.steps)
        ]  # fmt: skip

    def facts(self) -> list[JobFacts]:
        flow = format_id(self.flow_id)
        return [
            msgspec.structs.replace(
                step.request.facts(), id=format_id(step.job_id), flow=flow, joins=step.joins,
                after=tuple(map(format_id, step.after)), is_delayed=bool(step.after),
            )
            for step in self.steps
        ]  # fmt: skip


class FlowGenerator:
    def __init__(self, context: ClientContext, mix: JobMix, store: Store) -> None:
        self._random = context.random
        self._queue = mix.queues[0]  # the jobs of a flow are in one partition
        self._jobs = JobGenerator(context, mix)
        self._store = store

    def next_flow(self) -> FlowRequest:
        graph, joins = self._random.choice((self._chain, self._group, self._diamond))()
        flow_id, *ids = self._store.new_ids([self._queue] * (len(graph) + 1))
        steps = tuple(
            StepRequest(
                request=self._next_request(), job_id=ids[at], after=tuple(ids[before] for before in after),
                joins=at in joins,
            )
            for at, after in enumerate(graph)
        )  # fmt: skip
        return FlowRequest(flow_id=flow_id, steps=steps)

    def _next_request(self) -> JobRequest:
        """Return a plain request: the place in the flow decides when its job runs."""
        tries = self._random.choice(TRIES)
        return msgspec.structs.replace(self._jobs.next_job(self._queue), delay_ms=0, callback="", tries=tries)

    # A graph lists for each step the steps that it waits for. With it come the steps that only join others.

    def _chain(self) -> tuple[list[list[int]], set[int]]:
        return [[at - 1] if at else [] for at in range(self._random.randint(2, 4))], set()

    def _group(self) -> tuple[list[list[int]], set[int]]:
        size = self._random.randint(2, 4)
        return [*([] for _ in range(size)), list(range(size)), [size]], {size}

    def _diamond(self) -> tuple[list[list[int]], set[int]]:
        width = self._random.randint(2, 3)
        return [[], *([0] for _ in range(width)), list(range(1, width + 1))], set()
