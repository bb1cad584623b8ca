"""A schedule makes one job for each of its occurrences; where missed ones are made up for, none is left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..history import Entry
from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed

TWICE, MISSED = "fired twice", "not fired"


def check(history: Indexed, final: Final, promises: Promises) -> Iterator[Finding]:
    jobs: dict[tuple[str, int], dict[str, tuple[Entry, ...]]] = defaultdict(dict)
    for job in history.jobs.values():
        for deed in (*(lease.given for lease in job.leases), *job.of("fire", "run")):
            if deed.seen.schedule:
                jobs[deed.seen.schedule, deed.seen.planned_at_ms].setdefault(job.job, deed.call.entries)
    for known in final.jobs.values():
        if known.schedule:
            jobs[known.schedule, known.planned_at_ms].setdefault(known.id, ())
    for (schedule, planned_at_ms), made in sorted(jobs.items()):
        if len(made) > 1 and not promises.may_forget:
            entries = tuple(entry for some in made.values() for entry in some)
            sentence = f"Its occurrence at {planned_at_ms} has made {len(made)} jobs: {', '.join(sorted(made))}."
            yield Finding(TWICE, schedule, sentence, entries)
    for schedule, every_ms in promises.rhythms.items():
        yield from _missed(schedule, every_ms, sorted(at for name, at in jobs if name == schedule), promises)


def _missed(schedule: str, every_ms: int, seen_at_ms: list[int], promises: Promises) -> Iterator[Finding]:
    if not seen_at_ms or promises.lost_allowed or promises.may_forget:
        return
    for planned_at_ms in range(seen_at_ms[0], seen_at_ms[-1], every_ms):
        if planned_at_ms not in seen_at_ms:
            words = f"Its occurrence at {planned_at_ms} has made no job, though others before and after it have."
            yield Finding(MISSED, schedule, words)
