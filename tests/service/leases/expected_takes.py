"""Expected result of a take, computed from the stored jobs alone, for the limit machines."""

from __future__ import annotations

from fnmatch import fnmatchcase

from tests.service.machines.durable_invariants import is_resumed
from tests.service.machines.invariants import Snapshot, Stored
from tests.service.machines.limit_invariants import is_rate, number_of, room
from windlass.core.job import Job
from windlass.core.limits.limit import Limit
from windlass.core.operations import Filter, Take
from windlass.core.states import State


def wants(filter_: Filter, job: Job) -> bool:
    if job.needs_steps and not filter_.steps:
        return False
    if filter_.priority is not None and job.priority != filter_.priority:
        return False
    if filter_.only:
        return job.name in filter_.only
    return job.name not in filter_.all_but and (not filter_.glob or fnmatchcase(job.name, filter_.glob))


def takeable(seen: Snapshot, queue: str) -> list[Stored]:
    """Return takeable jobs in the order of a queue without fair share: score, ready time, sequence."""
    aging = seen.number(queue, b"aging_ms")
    found = [
        one for one in seen.jobs.values()
        if one.job.queue == queue and (one.job.state is State.QUEUED or one.job.is_overdue)
    ]  # fmt: skip
    return sorted(
        found,
        key=lambda one: (one.job.priority * aging + one.job.run_at_ms if aging else one.job.priority, one.place),
    )


def may_run(seen: Snapshot, job: Job, rooms: dict[str, float]) -> bool:
    pauses = seen.values.get(f"pauses:{job.queue}", {})
    if b"paused" in seen.values.get(f"q:{job.queue}", {}):
        return False
    if f"l{job.lane}".encode() in pauses or f"n{job.name}".encode() in pauses:
        return False
    for limit in job.limits:
        rooms.setdefault(limit, room(seen, job.queue, limit))
    return all(rooms[limit] > 0 for limit in job.limits)


def expected(seen: Snapshot, request: Take) -> list[bytes]:
    """Return the expected jobs of a take from queues without fair share, if nothing becomes due."""
    rooms: dict[str, float] = {}
    found: list[bytes] = []
    for queue in request.queues:
        for one in takeable(seen, queue):
            if len(found) < request.most and wants(request.wants, one.job) and may_run(seen, one.job, rooms):
                found.append(one.job.id)
                for limit in one.job.limits:
                    rooms[limit] -= 1
        _return_tokens(seen, queue, found, rooms)
    return found


def _return_tokens(seen: Snapshot, queue: str, found: list[bytes], rooms: dict[str, float]) -> None:
    """Give back the places under rates of jobs that continue: the next queue finds their tokens unspent."""
    for job in [seen.jobs[job_id].job for job_id in found if is_resumed(seen, job_id)]:
        if job.queue == queue:
            for limit in job.limits:
                rooms[limit] += is_rate(seen, limit)


def is_settled(seen: Snapshot, queue: str) -> bool:
    """Tell whether nothing is due that the next take would process first."""
    scores = [seen.zset(f"{index}:{queue}") for index in ("scheduled", "suspended", "running", "rates")]
    return all(score > seen.now_ms for members in scores for score in members.values())


def note_starts(starts: dict[str, list[int]], limits: dict[int, Limit], taken: list[Job], now_ms: int) -> None:
    """Check that no period has more starts than the burst plus the rate allows."""
    for job in taken:
        for limit_key in job.limits:
            limit = limits[int(number_of(limit_key))]
            if limit.rate is None:
                continue
            instants = starts.setdefault(limit_key, [])
            instants.append(now_ms)
            for first in range(len(instants)):
                flowed = (instants[-1] - instants[first]) * limit.rate / limit.per_ms
                assert len(instants) - first <= (limit.burst or limit.rate) + flowed + 1e-6, f"{limit}: {instants}"
