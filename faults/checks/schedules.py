"""A schedule makes one job per occurrence. No occurrence is left out if missed ones are made up for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..history import Entry
from .final_state import FinalState
from .finding import Finding, Guarantees
from .history_index import HistoryIndex

TWICE, MISSED = "fired twice", "not fired"


def check(history: HistoryIndex, final: FinalState, guarantees: Guarantees) -> Iterator[Finding]:
    jobs: dict[tuple[str, int], dict[str, tuple[Entry, ...]]] = defaultdict(dict)
    for job in history.jobs.values():
        for call in (*(lease.grant for lease in job.leases), *job.calls_named("fire", "run")):
            if call.facts.schedule:
                jobs[call.facts.schedule, call.facts.planned_at_ms].setdefault(job.job_id, call.entries)
    for known in final.jobs.values():
        if known.schedule:
            jobs[known.schedule, known.planned_at_ms].setdefault(known.id, ())
    for (schedule, planned_at_ms), entries_of_job in sorted(jobs.items()):
        if len(entries_of_job) > 1 and not guarantees.may_lose_reports:
            entries = tuple(entry for of_job in entries_of_job.values() for entry in of_job)
            names = ", ".join(sorted(entries_of_job))
            sentence = f"Its occurrence at {planned_at_ms} made {len(entries_of_job)} jobs: {names}."
            yield Finding(TWICE, schedule, sentence, entries)
    for schedule, every_ms in guarantees.intervals_ms.items():
        yield from _find_missed(schedule, every_ms, sorted(at for name, at in jobs if name == schedule), guarantees)


def _find_missed(schedule: str, every_ms: int, fired_at_ms: list[int], guarantees: Guarantees) -> Iterator[Finding]:
    if not fired_at_ms or guarantees.lost_allowed or guarantees.may_lose_reports:
        return
    for planned_at_ms in range(fired_at_ms[0], fired_at_ms[-1], every_ms):
        if planned_at_ms not in fired_at_ms:
            sentence = f"Its occurrence at {planned_at_ms} made no job, but earlier and later occurrences did."
            yield Finding(MISSED, schedule, sentence)
