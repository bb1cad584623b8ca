"""Times of recovery: until jobs are acknowledged after a fault, and until the jobs of a killed process run again."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from ..checks import HistoryIndex
from ..checks.history_index import ENDING_CALLS, MS, JobCall, JobHistory

KILLS = ("worker-kill", "worker-process-kill")  # their target is a worker, whose jobs must run again


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that was injected. Instants are CLOCK_MONOTONIC, as in histories."""

    fault: str
    target: str
    begun_ns: int
    undone_ns: int
    length_s: float  # as planned


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Measured times by fault, in ms, sorted."""

    acknowledged: dict[str, list[int]] = {}  # from the end of the fault until the next job is acknowledged
    ran_again: dict[str, list[int]] = {}  # from the kill until a job of the killed worker runs again


def measure_recovery(history: HistoryIndex, injected: Sequence[Injected]) -> Recovery:
    acknowledged, ran_again = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    instants = sorted(enqueue.answered_ns for enqueue in history.enqueues if enqueue.is_ok)
    executions = _executions_by_client(history)
    killed_ns: dict[str, int] = {}  # the last kill of a worker: it had lost its earlier jobs then
    for fault in injected:
        at = bisect_right(instants, fault.undone_ns)
        if at < len(instants):
            acknowledged[fault.fault].append((instants[at] - fault.undone_ns) // MS)
        if fault.fault in KILLS:
            since_ns = killed_ns.get(fault.target, 0)
            held = [job for at_ns, job in executions[fault.target] if since_ns < at_ns < fault.begun_ns]
            again_ns = (_runs_again_ns(job, fault) for job in {job.job_id: job for job in held}.values())
            ran_again[fault.fault] += [(at_ns - fault.begun_ns) // MS for at_ns in again_ns if at_ns]
            killed_ns[fault.target] = fault.begun_ns
    return Recovery(acknowledged=_sorted(acknowledged), ran_again=_sorted(ran_again))


def _executions_by_client(history: HistoryIndex) -> dict[str, list[tuple[int, JobHistory]]]:
    found = defaultdict[str, list[tuple[int, JobHistory]]](list)
    for job in history.jobs.values():
        for at_ns, run in _executions(job):
            found[run.client].append((at_ns, job))
    return found


def _sorted(times: dict[str, list[int]]) -> dict[str, list[int]]:
    return {fault: sorted(found) for fault, found in sorted(times.items()) if found}


def _runs_again_ns(job: JobHistory, kill: Injected) -> int:
    """Return when a job that the killed worker had begun runs again; 0: it did not hold it any more, or it ended."""
    held = [at_ns for at_ns, run in _executions(job) if run.client == kill.target and at_ns < kill.begun_ns]
    later = [at_ns for at_ns, _ in _executions(job) if at_ns > max(held)]
    if any(at_ns < kill.begun_ns for at_ns in later) or _may_have_ended(job, max(held), kill.begun_ns):
        return 0
    return min(later, default=0)


def _may_have_ended(job: JobHistory, from_ns: int, until_ns: int) -> bool:
    """Return whether a report of the execution had begun, or its code had ended."""
    reported = any(from_ns < call.begun_ns < until_ns for call in job.calls_named(*ENDING_CALLS))
    return reported or any(run.begun_ns >= from_ns and run.answered_ns < until_ns for run in job.calls_named("run"))


def _executions(job: JobHistory) -> list[tuple[int, JobCall]]:
    """Return when a worker began to have the job: a lease that it received, or a run of the code."""
    leases = [(lease.grant.answered_ns, lease.grant) for lease in job.leases]
    return leases + [(run.begun_ns, run) for run in job.calls_named("run")]


def count_repeated_runs(history: HistoryIndex) -> int:
    """Count the runs that followed a run without any report: its worker had died, or its lease had expired.

    Durable jobs are left out: they run again after each suspension."""
    durable = {call.begun.durable.job for call in history.calls if call.begun.durable is not None}
    return sum(_repeated(job) for job in history.jobs.values() if not durable & _names(job))


def _names(job: JobHistory) -> set[str]:
    return {call.facts.id for call in (*job.enqueues, *job.calls)}


def _repeated(job: JobHistory) -> int:
    runs = sorted(_executions(job), key=lambda found: found[0])
    reports = [call for call in job.calls_named(*ENDING_CALLS) if call.may_have_effect]
    reports += [run for run in job.calls_named("run") if run.phase == "refused"]  # the code raised
    count = 0
    for (first_ns, _), (next_ns, _) in pairwise(runs):
        count += not any(first_ns <= call.begun_ns < next_ns for call in reports)
    return count


def percentile(times: Sequence[int], share: float) -> int:
    """Return the smallest time that at least this share of the sorted times does not exceed."""
    return times[max(0, -(-int(share * 100) * len(times) // 100) - 1)]


def merge_times(parts: Iterable[dict[str, list[int]]]) -> dict[str, list[int]]:
    merged = defaultdict[str, list[int]](list)
    for part in parts:
        for fault, times in part.items():
            merged[fault] += times
    return _sorted(merged)
