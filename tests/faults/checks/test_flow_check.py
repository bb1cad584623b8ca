"""The rules for flows: a correct history has no finding, and each planted violation has its finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from faults.checks import FinalState, Finding, Guarantees, check_entries
from faults.checks.final_state import FinalJob
from faults.checks.job_identity import job_identity
from faults.history import CallName, Entry, FlowFacts, JobFacts, Phase, StepFacts

FLOW = job_identity(f"{100:032x}")
FIRST, LEFT, RIGHT, GROUP, LAST = (job_identity(f"{number:032x}") for number in range(1, 6))
GRAPH: dict[str, tuple[str, ...]] = {
    FIRST: (), LEFT: (FIRST,), RIGHT: (FIRST,), GROUP: (LEFT, RIGHT), LAST: (GROUP,)
}  # fmt: skip
RAN = (FIRST, LEFT, RIGHT, LAST)
TOKENS = {job_id: number + 1 for number, job_id in enumerate(RAN)}


class FlowHistory:
    """The history of one flow whose step LEFT failed once, was seen so, and was resumed."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._calls = 0
        enqueued = [
            JobFacts(id=job_id, key=f"key-{job_id}", flow=FLOW, after=after, joins=job_id == GROUP)
            for job_id, after in GRAPH.items()
        ]
        self.add("enqueue", enqueued, [JobFacts(outcome="queued") for _ in GRAPH])
        self.run(FIRST)
        self.take(LEFT, token=90)
        self.add("fail", [JobFacts(id=LEFT, token=90)], [JobFacts(outcome="failed")])
        self.run(RIGHT)
        self.observed = self.record(left="failed", group="failed", last="failed")
        requeued = [JobFacts(code="no_cause") if job_id != LEFT else JobFacts(outcome="queued") for job_id in GRAPH]
        self.add("requeue", [JobFacts(id=job_id) for job_id in GRAPH], requeued)
        self.run(LEFT)
        self.run(LAST)
        self.final = FinalState(flows={FLOW: self.record()})

    def add(self, call: CallName, requested: list[JobFacts], answered: list[JobFacts]) -> None:
        self._calls += 1
        phases: tuple[tuple[Phase, list[JobFacts]], ...] = (("begun", requested), ("ok", answered))
        for phase, jobs in phases:
            at_ns = len(self.entries) + 1
            entry = Entry(at_ns=at_ns, client="client", n=self._calls, call=call, phase=phase, jobs=tuple(jobs))
            self.entries.append(entry)

    def take(self, job_id: str, token: int) -> None:
        self.add("take", [], [JobFacts(id=job_id, token=token, attempt=1)])

    def run(self, job_id: str) -> None:
        self.take(job_id, 100 + TOKENS[job_id])
        self.add("finish", [JobFacts(id=job_id, token=100 + TOKENS[job_id])], [JobFacts(outcome="finished")])

    def record(self, *, left: str = "finished", group: str = "finished", last: str = "finished") -> FlowFacts:
        states = {FIRST: "finished", LEFT: left, RIGHT: "finished", GROUP: group, LAST: last}
        steps = tuple(
            StepFacts(
                id=job_id, after=GRAPH[job_id], joins=job_id == GROUP, state=state,
                is_consequence=state == "failed" and job_id != LEFT,
                started_at_ms=0 if job_id == GROUP else 10 * number, ended_at_ms=10 * number + 5,
            )
            for number, (job_id, state) in enumerate(states.items(), 1)
        )  # fmt: skip
        ends = ["consequences" if step.is_consequence else step.state for step in steps]
        counts = {"total": len(steps), "deleted": 0} | {end: ends.count(end) for end in ends}
        state = "failed" if "failed" in states.values() else "finished"
        return FlowFacts(id=FLOW, state=state, steps=steps, counts=counts, ended_at_ms=55)

    def see(self, flow: FlowFacts) -> None:
        entry = Entry(at_ns=len(self.entries) + 1, client="watcher", n=1, call="observe", phase="ok", flow=flow)
        self.entries.append(entry)

    def set_final(self, flow: FlowFacts | None) -> None:
        self.final.flows = {FLOW: flow} if flow is not None else {}

    def remove(self, call: CallName, job_id: str) -> None:
        """Remove the calls about a job, with their answers."""
        calls = {entry.n for entry in self.entries if entry.call == call and job_id in {job.id for job in entry.jobs}}
        self.entries = [entry for entry in self.entries if entry.n not in calls]

    def check(self, **guarantees: Any) -> list[Finding]:
        return check_entries(self.entries, self.final, Guarantees(**guarantees))


def change_step(flow: FlowFacts, job_id: str, **fields: Any) -> FlowFacts:
    steps = [msgspec.structs.replace(step, **fields) if step.id == job_id else step for step in flow.steps]
    return msgspec.structs.replace(flow, steps=tuple(steps))


def test_a_correct_flow_has_no_finding() -> None:
    history = FlowHistory()
    history.see(history.observed)
    history.see(history.record())
    assert history.check() == []


def test_an_unacknowledged_flow_may_be_gone() -> None:
    history = FlowHistory()
    history.entries = [msgspec.structs.replace(history.entries[0])]
    history.set_final(None)
    assert history.check() == []


def test_a_failover_may_lose_a_flow_but_no_part_of_it() -> None:
    history = FlowHistory()
    history.set_final(None)
    relaxed = {"lost_allowed": "any", "may_lose_reports": True}
    assert history.check(**relaxed) == []
    a_part_is_gone(history)
    assert {finding.rule for finding in history.check(**relaxed)} == {"lost flow"}


# Violations


def the_record_is_gone(history: FlowHistory) -> None:
    history.set_final(None)


def a_part_is_gone(history: FlowHistory) -> None:
    flow = history.record()
    counts = flow.counts | {"total": 4, "finished": 4}
    history.set_final(msgspec.structs.replace(flow, steps=flow.steps[:-1], counts=counts, ended_at_ms=45))


def a_dependency_is_gone(history: FlowHistory) -> None:
    history.set_final(change_step(history.record(), LAST, after=()))


def a_step_was_finished_by_no_worker(history: FlowHistory) -> None:
    history.remove("finish", LAST)


def it_stays_failed(history: FlowHistory) -> None:
    history.set_final(history.observed)


def a_step_is_taken_early(history: FlowHistory) -> None:
    history.remove("finish", RIGHT)
    history.add("finish", [JobFacts(id=RIGHT, token=100 + TOKENS[RIGHT])], [JobFacts(outcome="finished")])


def a_step_is_run_early(history: FlowHistory) -> None:
    job = JobFacts(id=RIGHT, token=500)
    history.entries.insert(2, Entry(at_ns=2, client="app", n=1, call="run", phase="begun", jobs=(job,)))


def a_step_is_queued_early(history: FlowHistory) -> None:
    flow = change_step(history.observed, LAST, state="queued", is_consequence=False, ended_at_ms=0)
    counts = flow.counts | {"consequences": 1}
    history.see(msgspec.structs.replace(flow, state="running", ended_at_ms=0, counts=counts))


def a_step_is_finished_early(history: FlowHistory) -> None:
    history.see(change_step(history.record(), LAST, started_at_ms=1))


def a_group_is_finished_early(history: FlowHistory) -> None:
    history.see(change_step(history.record(), GROUP, ended_at_ms=1))


def a_group_finishes_with_a_failed_member(history: FlowHistory) -> None:
    flow = history.record(left="failed")
    history.see(flow)


def a_consequence_outlives_its_cause(history: FlowHistory) -> None:
    history.see(history.record(group="failed", last="failed"))


def ends_are_miscounted(history: FlowHistory) -> None:
    flow = history.record()
    history.see(msgspec.structs.replace(flow, counts=flow.counts | {"finished": 4}))


def the_end_is_wrong(history: FlowHistory) -> None:
    history.see(msgspec.structs.replace(history.record(), ended_at_ms=54))


def an_ended_flow_is_running(history: FlowHistory) -> None:
    history.see(msgspec.structs.replace(history.record(), state="running"))


def a_record_of_a_job_is_not_known(history: FlowHistory) -> None:
    history.final.jobs = {LAST: FinalJob(id=LAST, state="finished")}


def a_job_has_another_state(history: FlowHistory) -> None:
    history.set_final(change_step(history.record(), LAST, is_kept=True))
    history.final.jobs = {LAST: FinalJob(id=LAST, state="cancelled")}


VIOLATIONS: tuple[tuple[Callable[[FlowHistory], None], str], ...] = (
    (the_record_is_gone, "lost flow"),
    (a_part_is_gone, "lost flow"),
    (a_dependency_is_gone, "lost flow"),
    (a_step_was_finished_by_no_worker, "lost flow"),
    (it_stays_failed, "flow unfinished"),
    (a_step_is_taken_early, "flow out of turn"),
    (a_step_is_run_early, "flow out of turn"),
    (a_step_is_queued_early, "flow out of turn"),
    (a_step_is_finished_early, "flow out of turn"),
    (a_group_is_finished_early, "flow out of turn"),
    (a_group_finishes_with_a_failed_member, "flow out of turn"),
    (a_consequence_outlives_its_cause, "flow without cause"),
    (ends_are_miscounted, "flow disagrees"),
    (the_end_is_wrong, "flow disagrees"),
    (an_ended_flow_is_running, "flow disagrees"),
    (a_record_of_a_job_is_not_known, "flow disagrees"),
    (a_job_has_another_state, "flow disagrees"),
)


@pytest.mark.parametrize(("violate", "rule"), VIOLATIONS, ids=lambda value: getattr(value, "__name__", value))
def test_a_violation_is_found(violate: Callable[[FlowHistory], None], rule: str) -> None:
    history = FlowHistory()
    violate(history)
    found = {finding.rule for finding in history.check() if "flow" in finding.rule}
    assert found == {rule}
