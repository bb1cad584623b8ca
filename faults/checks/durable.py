"""Durable jobs: an acknowledged step does not run again, no value is stored by an old token, each acknowledged signal
is assigned to one wait, a sleep has its length, and a stream read in pieces is the stream.

The value of each run of a step's function, and of each signal, is unique in a run of the faults."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from ..history import CallName, DurableFacts
from .final_state import FinalDurable, FinalState
from .finding import Finding, Guarantees
from .history_index import MS, Call, HistoryIndex, JobHistory
from .job_identity import job_identity

RAN_AGAIN, CHANGED, OLD_TOKEN = "step ran again", "step changed", "stored by an old token"
SIGNAL_LOST, SIGNAL_TWICE = "signal lost", "signal received twice"
TOO_SHORT, STARTED_OVER, STREAM = "slept too short", "sleep started over", "stream differs"


class DurableCall:
    """A call with the facts of its begin and of its answer."""

    def __init__(self, call: Call, facts: DurableFacts) -> None:
        self.call = call
        self.facts = facts
        answer = call.answer.durable if call.answer is not None else None
        self.answer = answer or facts
        self.is_ok = call.phase == "ok"


class JobCalls:
    """All durable calls about one job."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self._calls: dict[CallName, list[DurableCall]] = defaultdict(list)

    def add(self, call: Call, facts: DurableFacts) -> None:
        self._calls[call.begun.call].append(DurableCall(call, facts))

    def named(self, *names: CallName) -> list[DurableCall]:
        return [call for name in names for call in self._calls[name]]

    def answered(self, *names: CallName) -> list[DurableCall]:
        return [call for call in self.named(*names) if call.is_ok]


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    if guarantees.may_lose_reports:
        for job_id, found in final.durable.items():
            yield from _check_stored(job_id, found)
        return
    jobs: dict[str, JobCalls] = {}
    for call in history.calls:
        if (facts := call.begun.durable) is not None:
            job_id = job_identity(facts.job)
            jobs.setdefault(job_id, JobCalls(job_id)).add(call, facts)
    for job_id, calls in jobs.items():
        stored = final.durable.get(job_id)
        yield from _check_values(calls, stored)
        yield from _check_tokens(calls, stored, history.jobs.get(job_id))
        yield from _check_signals(calls, stored)
        yield from _check_sleeps(calls, stored, guarantees.slack_ms)
        yield from _check_stream(calls, stored)


def _check_stored(job_id: str, stored: FinalDurable) -> Iterator[Finding]:
    """Check what also holds where a failover has forgotten acknowledged calls: the stored state agrees with itself."""
    received = [step.value for step in stored.steps if step.kind == "signal" and step.value]
    for value, count in Counter([*received, *stored.unread]).items():
        if count > 1:
            yield Finding(SIGNAL_TWICE, job_id, f"{value!r} is stored {count} times.")
    for step in stored.steps:
        is_over = step.kind == "sleep" and step.ended_at_ms is not None
        if is_over and (step.ended_at_ms or 0) < (step.wake_at_ms or 0):
            sentence = f"{step.name} ended at {step.ended_at_ms}, before {step.wake_at_ms}."
            yield Finding(TOO_SHORT, job_id, sentence)


def _finding(rule: str, calls: JobCalls, sentence: str, *proof: DurableCall) -> Finding:
    return Finding(rule, calls.job_id, sentence, tuple(entry for call in proof for entry in call.call.entries))


def _check_values(calls: JobCalls, stored: FinalDurable | None) -> Iterator[Finding]:
    """The first acknowledged value of a step or a wait stays, and the function of the step is not called again."""
    first: dict[str, DurableCall] = {}
    for call in sorted(calls.answered("step", "wait"), key=lambda call: call.call.answered_ns):
        known = first.setdefault(call.facts.name, call)
        if known.answer.value != call.answer.value:
            sentence = f"{call.facts.name} returned {known.answer.value!r}, and later {call.answer.value!r}."
            yield _finding(CHANGED, calls, sentence, known, call)
    for work in calls.named("work"):
        known_step = first.get(work.facts.name)
        if known_step is not None and known_step.call.answered_ns < work.call.begun_ns:
            sentence = f"{work.call.begun.client} ran {work.facts.name} again after it had been stored."
            yield _finding(RAN_AGAIN, calls, sentence, known_step, work)
    values = {step.name: step.value for step in stored.steps if step.kind == "step"} if stored else {}
    for name, call in first.items():
        if stored is not None and call.call.begun.call == "step" and values.get(name) not in (None, call.answer.value):
            yield _finding(CHANGED, calls, f"{name} returned {call.answer.value!r}; {values[name]!r} is stored.", call)
        if stored is not None and not any(step.name == name for step in stored.steps):
            yield _finding(CHANGED, calls, f"{name} was acknowledged and is not stored.", call)


def _check_tokens(calls: JobCalls, stored: FinalDurable | None, job: JobHistory | None) -> Iterator[Finding]:
    """A function or a report that began when a newer token was known must not have its value stored."""
    if job is None:
        return
    known = [(lease.token, lease.grant.answered_ns) for lease in job.leases]
    known += [(run.facts.token, run.begun_ns) for run in job.calls_named("run")]
    values = {call.answer.value for call in calls.answered("step")}
    values |= {step.value for step in stored.steps} if stored else set()
    for work in calls.named("work", "store"):
        newer = [token for token, at_ns in known if token > work.facts.token and at_ns < work.call.begun_ns]
        if newer and work.facts.value in values:
            sentence = f"{work.facts.name} of token {work.facts.token} was stored, when {min(newer)} had been given."
            yield _finding(OLD_TOKEN, calls, sentence, work)


def _check_signals(calls: JobCalls, stored: FinalDurable | None) -> Iterator[Finding]:
    """An acknowledged signal is the result of one wait, or unread. A signal without an answer may be lost."""
    names: dict[str, DurableCall] = {}
    for call in calls.answered("wait"):
        known = names.setdefault(call.answer.value, call) if call.answer.value else call
        if known.facts.name != call.facts.name:
            sentence = f"{known.facts.name} and {call.facts.name} both received {call.answer.value!r}."
            yield _finding(SIGNAL_TWICE, calls, sentence, known, call)
    if stored is None:
        return
    received = [step.value for step in stored.steps if step.kind == "signal" and step.value]
    for signal in calls.named("signal"):
        count = [*received, *stored.unread].count(signal.facts.value)
        if count > 1:
            yield _finding(SIGNAL_TWICE, calls, f"{signal.facts.value!r} is stored {count} times.", signal)
        elif count == 0 and signal.is_ok:
            sentence = f"{signal.facts.value!r} was answered {signal.answer.outcome!r}, and is not stored."
            yield _finding(SIGNAL_LOST, calls, sentence, signal)


def _check_sleeps(calls: JobCalls, stored: FinalDurable | None, slack_ms: int) -> Iterator[Finding]:
    first: dict[str, DurableCall] = {}
    for call in sorted(calls.named("sleep"), key=lambda call: call.call.begun_ns):
        begun = first.setdefault(call.facts.name, call)
        slept_ms = (call.call.answered_ns - begun.call.begun_ns) / MS
        if call.is_ok and slept_ms < call.facts.length_ms - slack_ms:
            sentence = f"{call.facts.name} of {call.facts.length_ms} ms was over after {slept_ms:.0f} ms."
            yield _finding(TOO_SHORT, calls, sentence, begun, call)
    steps = {step.name: step for step in stored.steps if step.wake_at_ms} if stored else {}
    for name, call in first.items():
        step = steps.get(name)
        if step is None or step.wake_at_ms is None:
            continue
        if step.ended_at_ms is not None and step.ended_at_ms < step.wake_at_ms:
            yield _finding(TOO_SHORT, calls, f"{name} ended at {step.ended_at_ms}, before {step.wake_at_ms}.", call)
        if step.wake_at_ms - step.begun_at_ms > call.facts.length_ms:
            length_ms = step.wake_at_ms - step.begun_at_ms
            yield _finding(STARTED_OVER, calls, f"{name} of {call.facts.length_ms} ms took {length_ms} ms.", call)


def _check_stream(calls: JobCalls, stored: FinalDurable | None) -> Iterator[Finding]:
    """The code writes 0, 1, 2, …, each value once. Each piece that was read lies in the stream at its position."""
    if stored is None:
        return
    values = [value for value in stored.stream if value is not None]
    if values != [str(number) for number in range(len(values))]:
        yield Finding(STREAM, calls.job_id, f"Its values are {', '.join(values)}.")
    for write in calls.answered("write"):
        missing = [value for value in write.facts.values if value not in values]
        if missing:
            yield _finding(STREAM, calls, f"{', '.join(map(str, missing))} was written and is not there.", write)
    for read in calls.answered("read"):
        first, count = read.facts.after, len(read.answer.values)
        if read.answer.values != stored.stream[first : first + count]:
            yield _finding(STREAM, calls, f"The piece after {first} was read as {read.answer.values}.", read)
