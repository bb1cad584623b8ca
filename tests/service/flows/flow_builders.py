"""Builders of flows for tests."""

from __future__ import annotations

from typing import Any

from tests.service.helpers import take
from windlass.core.flow import Flow, FlowStep
from windlass.core.job import FlowRef, Job, NewJob
from windlass.core.operations import Enqueued
from windlass.service import Service

DAY_MS = 86_400_000


def put_flow(
    service: Service, graph: dict[str, tuple[str, ...]], *, flow: str = "shop", queue: str = "q", **kw: Any
) -> tuple[bytes, dict[str, bytes]]:
    """Enqueue a flow: per step, the steps that it waits for. Returns its id and the jobs by step."""
    flow_id, *ids = service.store.new_ids([queue] * (len(graph) + 1))
    jobs = dict(zip(graph, ids, strict=True))
    answers = service.enqueue(
        [
            NewJob(
                queue=queue,
                name=f"do_{step}",
                id=jobs[step],
                after=tuple(jobs[other] for other in after),
                flow=FlowRef(flow_id, flow, step),
                **kw,
            )
            for step, after in graph.items()
        ],
        whole=True,
    ).wait()
    assert all(isinstance(answer, Enqueued) for answer in answers), answers
    return flow_id, jobs


def read_flow(service: Service, flow_id: bytes) -> Flow:
    return service.flow(flow_id).wait()


def steps_of(service: Service, flow_id: bytes) -> dict[str, FlowStep]:
    return {step.step: step for step in read_flow(service, flow_id).steps}


def states_of(service: Service, flow_id: bytes) -> dict[str, str]:
    return {name: step.state.label if step.state else "deleted" for name, step in steps_of(service, flow_id).items()}


def take_step(service: Service, job_id: bytes, queue: str = "q") -> Job:
    """Take the next job, which must be this one."""
    (job,) = take(service, queue)
    assert job.id == job_id
    return job
