"""Random flows under random failures, cancels, retries and resumes: each ends as a run without failures would."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.machines.dependency_builders import assert_consistent, run_all_steps
from windlass.core.errors import AlreadyEnded, Refusal
from windlass.core.job import Blob, FlowRef, Job, NewJob
from windlass.core.operations import Fail, Finish, Listing, Take
from windlass.core.states import State
from windlass.service import Service

EXAMPLES = 1_000 if os.environ.get("WINDLASS_DEEP") else 60
ACTIONS = ("work", "work", "work", "fail", "fail", "retry", "retry all", "resume", "cancel step", "cancel flow")
ROUNDS_MAX = 100


class FlowRun:
    """One flow, worked on by hand. The result of a step shows the results that it was given."""

    def __init__(self, service: Service, queue: str, edges: list[list[int]], joins: set[int]) -> None:
        self.service, self.queue = service, queue
        self.flow_id, *self.ids = service.store.new_ids([queue] * (len(edges) + 1))
        self.edges, self.joins = edges, joins
        self.results: dict[int, list[Any]] = {at: [] for at in range(len(edges))}
        jobs = [
            NewJob(
                queue=queue,
                name=f"step {at}",
                id=self.ids[at],
                after=tuple(self.ids[before] for before in edges[at]),
                joins=at in joins,
                flow=FlowRef(self.flow_id, "any", f"step {at}"),
            )
            for at in range(len(edges))
        ]
        answers = service.enqueue(jobs, whole=True).wait()
        assert not [answer for answer in answers if isinstance(answer, Refusal)]

    def expected(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for at, before in enumerate(self.edges):
            found[at] = None if at in self.joins else [at, sorted(([b, found[b]] for b in before), key=str)]
        return found

    def take(self) -> Job | None:
        run_all_steps(self.service)
        jobs = self.service.take(Take(queues=(self.queue,))).wait().jobs
        return jobs[0] if jobs else None

    def work(self) -> bool:
        job = self.take()
        if job is None:
            return False
        members = self.service.list_members(job.id, most=100).wait().members if job.has_members else []
        given = [
            [self.ids.index(member.job.id), json.loads(member.result.data) if member.result else None]
            for member in members
        ]
        at = self.ids.index(job.id)
        result = [at, sorted(given, key=str)]
        answer = self.service.finish([Finish(job.id, job.lease_token, Blob(json.dumps(result).encode()))]).one().wait()
        if answer is None:
            self.results[at].append(result)
        return True

    def fail(self, then: Any) -> None:
        job = self.take()
        if job is not None:
            self.service.fail([Fail(id=job.id, token=job.lease_token, then=then)]).wait()

    def act(self, action: str, chance: random.Random) -> None:
        if action == "work":
            self.work()
        elif action == "fail":
            self.fail(chance.choice(("final", "cancelled")))
        elif action == "retry":
            self.service.retry([chance.choice(self.ids)]).wait()
        elif action == "retry all":
            ids = [job.id for job in self.service.jobs(Listing(queue=self.queue, state="failed")).wait().jobs]
            chance.shuffle(ids)
            self.service.retry(ids).wait()
        elif action == "resume":
            assert self.service.resume_flow(self.flow_id).wait().refused == {}
        elif action == "cancel step":
            steps = [job_id for at, job_id in enumerate(self.ids) if at not in self.joins]
            self.service.cancel([chance.choice(steps)]).wait()
        else:
            with contextlib.suppress(AlreadyEnded):
                self.service.cancel_flow(self.flow_id).wait()

    def complete(self) -> None:
        for _ in range(ROUNDS_MAX):
            while self.work():
                pass
            run_all_steps(self.service)
            if self.service.flow(self.flow_id).wait().summary.state == "finished":
                return
            assert self.service.resume_flow(self.flow_id).wait().refused == {}
        steps = [(step.label, step.state, step.is_consequence) for step in self.service.flow(self.flow_id).wait().steps]
        raise AssertionError(f"the flow does not end: {steps}")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], set[int]]:
    size = draw(st.integers(2, 8))
    edges = [sorted(draw(st.sets(st.integers(0, at - 1), max_size=3))) if at else [] for at in range(size)]
    joins = {at for at in range(1, size) if edges[at] and draw(st.integers(0, 4)) == 0}
    return edges, joins


def test_a_flow_ends_as_without_failures(service: Service) -> None:
    service.store.open_sync()
    runs = itertools.count()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
    @given(graphs(), st.lists(st.sampled_from(ACTIONS), max_size=30), st.integers(0, 2**32))
    def check(graph: tuple[list[list[int]], set[int]], actions: list[str], seed: int) -> None:
        run, chance = FlowRun(service, f"q{next(runs)}", *graph), random.Random(seed)
        for action in actions:
            run.act(action, chance)
        assert_consistent(service)
        run.complete()
        assert_consistent(service)
        expected = run.expected()
        for at, results in run.results.items():
            assert results == ([] if at in run.joins else [expected[at]]), f"step {at} has ended as {results}"
        found = service.flow(run.flow_id).wait()
        assert {step.state for step in found.steps} == {State.FINISHED}
        assert service.jobs(Listing(queue=run.queue, state="waiting")).wait().jobs == []

    check()
    assert next(runs) >= EXAMPLES
