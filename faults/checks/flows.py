"""Flows: each acknowledged flow is complete and ends finished, its steps run in their order, and its record is correct.

A record is read at one instant, so it must be correct in every reading, under load too. Starts of jobs are judged by
the calls of the workers: a step was started too early if no call that may have finished a step before it had begun."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from ..history import Entry, FlowFacts, StepFacts
from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import NEVER, HistoryIndex, JobCall, JobHistory
from .job_identity import job_identity

LOST, UNFINISHED, OUT_OF_TURN = "lost flow", "flow unfinished", "flow out of turn"
NO_CAUSE, DISAGREES = "flow without cause", "flow disagrees"
STOPPED = ("failed", "cancelled")
ENDED = ("finished", *STOPPED)
# States of a step whose wait is over. A cancelled step may have waited until its end.
STARTED = ("scheduled", "queued", "dispatched", "running", "finished", "failed")


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    enqueued: dict[str, dict[str, list[JobCall]]] = {}
    for enqueue in history.enqueues:
        if enqueue.facts.flow:
            steps = enqueued.setdefault(job_identity(enqueue.facts.flow), {})
            steps.setdefault(enqueue.job_id, []).append(enqueue)
    for flow_id, steps in enqueued.items():
        yield from _check_complete(flow_id, steps, final, guarantees)
        yield from _check_starts(history, steps)
    for call in history.calls:
        if call.begun.flow is not None:
            yield from check_record(call.begun.flow, (call.begun,))
    for flow in final.flows.values():
        yield from check_record(flow, ())
        yield from _check_end(flow, history, final, guarantees)


def _check_complete(
    flow_id: str, steps: Mapping[str, list[JobCall]], final: FinalState, guarantees: Guarantees
) -> Iterator[Finding]:
    """A flow is accepted whole or not at all, and stays."""
    enqueues = [enqueue for calls in steps.values() for enqueue in calls]
    first = enqueues[0]
    flow = final.flows.get(flow_id)
    if flow is None:
        is_durable = all(enqueue.facts.is_durable for enqueue in enqueues)
        is_allowed = guarantees.lost_allowed == "any" or (guarantees.lost_allowed and not is_durable)
        if any(enqueue.is_ok for enqueue in enqueues) and not is_allowed:
            yield Finding(LOST, flow_id, f"{first.client} received an acknowledgement, but it is gone.", first.entries)
        return
    expected = {job_id: _awaited(calls[0]) for job_id, calls in steps.items()}
    found = {step.id: frozenset(step.after) for step in flow.steps}
    if found != expected:
        sentence = f"{first.client} enqueued {len(expected)} jobs; the record has {len(found)}, or other dependencies."
        yield Finding(LOST, flow_id, sentence, first.entries)


def _awaited(enqueue: JobCall) -> frozenset[str]:
    return frozenset(map(job_identity, enqueue.facts.after))


# Order of runs, by the history


def _check_starts(history: HistoryIndex, steps: Mapping[str, list[JobCall]]) -> Iterator[Finding]:
    facts = {job_id: calls[0] for job_id, calls in steps.items()}
    for job_id, enqueue in facts.items():
        starts = _starts(history.jobs[job_id])
        if not starts:
            continue
        first = min(starts, key=_started_ns)
        for awaited in _workers_steps(_awaited(enqueue), facts):
            if _first_finish_ns(history.jobs.get(awaited)) > _started_ns(first):
                sentence = f"{first.client} received it before {awaited} was finished, for which it waits."
                yield Finding(OUT_OF_TURN, job_id, sentence, enqueue.entries + first.entries)


def _starts(job: JobHistory) -> list[JobCall]:
    return [*(lease.grant for lease in job.leases), *job.calls_named("run")]


def _started_ns(start: JobCall) -> int:
    """Return an instant at which the job had certainly started."""
    return start.begun_ns if start.name == "run" else start.answered_ns


def _first_finish_ns(job: JobHistory | None) -> int:
    """Return the begin of the first call that may have finished the job. An SDK worker reports after its run."""
    calls = job.calls_named("finish", "run") if job is not None else []
    return min((call.begun_ns for call in calls if call.name == "run" or call.may_have_effect), default=NEVER)


def _workers_steps(awaited: Iterable[str], facts: Mapping[str, JobCall]) -> Iterator[str]:
    """Return the steps that workers run. A group stands for the steps that it waits for."""
    for job_id in awaited:
        enqueue = facts.get(job_id)
        if enqueue is not None and enqueue.facts.joins:
            yield from _workers_steps(_awaited(enqueue), facts)
        elif enqueue is not None:
            yield job_id


# The record, at any instant


def check_record(flow: FlowFacts, entries: tuple[Entry, ...]) -> Iterator[Finding]:
    steps = {step.id: step for step in flow.steps}
    for step in flow.steps:
        before = [steps[job_id] for job_id in step.after if job_id in steps]
        yield from _check_step(step, before, entries)
    counts = _count_steps(flow.steps)
    if counts != Counter(flow.counts):
        yield Finding(DISAGREES, flow.id, f"It counts {dict(flow.counts)}, but has {dict(counts)} steps.", entries)
    is_ended = all(step.state in ("", *ENDED) for step in flow.steps)
    last_ms = max((step.ended_at_ms for step in flow.steps), default=0) if is_ended else 0
    if flow.ended_at_ms != last_ms or (flow.state == "running") == is_ended:
        sentence = f"It is {flow.state} with the end {flow.ended_at_ms}, but its last step ended at {last_ms}."
        yield Finding(DISAGREES, flow.id, sentence, entries)


def _check_step(step: StepFacts, before: list[StepFacts], entries: tuple[Entry, ...]) -> Iterator[Finding]:
    if step.is_consequence:
        if not any(other.state in STOPPED for other in before):
            sentence = f"It is {step.state} because of a step before it, but none of them has failed or is cancelled."
            yield Finding(NO_CAUSE, step.id, sentence, entries)
        return
    if step.state not in STARTED:
        return
    for other in before:
        if other.state != "finished":
            sentence = f"It is {step.state}, but {other.id}, for which it waits, is {other.state or 'deleted'}."
            yield Finding(OUT_OF_TURN, step.id, sentence, entries)
        elif 0 < (step.started_at_ms or step.ended_at_ms) < other.ended_at_ms:
            sentence = f"By the engine's clock it started or ended before the end of {other.id}, for which it waits."
            yield Finding(OUT_OF_TURN, step.id, sentence, entries)


def _count_steps(steps: Iterable[StepFacts]) -> Counter[str]:
    ends = (
        "consequences" if step.is_consequence else step.state or "deleted"
        for step in steps
        if step.state in ("", *ENDED)
    )
    return Counter(chain(("total" for _ in steps), ends))


# The record, after the drain


def _check_end(flow: FlowFacts, history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if guarantees.is_drained and flow.state != "finished":
        yield Finding(UNFINISHED, flow.id, f"It is {flow.state} after the drain, though it was resumed.")
    for step in flow.steps:
        if step.state == "finished" and not step.joins and _first_finish_ns(history.jobs.get(step.id)) == NEVER:
            yield Finding(LOST, step.id, f"The flow {flow.id} counts it as finished, but no worker has finished it.")
        known = final.jobs.get(step.id)
        if step.is_kept != (known is not None) or (known is not None and known.state != step.state):
            there = f"{known.state}, with a record" if known is not None else "gone"
            shown = f"{step.state}, {'with' if step.is_kept else 'without'} a record"
            yield Finding(DISAGREES, step.id, f"The flow {flow.id} shows it as {shown}, but the job is {there}.")
