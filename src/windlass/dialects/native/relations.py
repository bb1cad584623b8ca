"""Access check for relations of new jobs: a token limited to some queues may only name jobs in these queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.core.access.tokens import Principal
from windlass.core.errors import Forbidden, Refusal, UnknownJob, UnknownMember, UnknownParent
from windlass.core.ids import format_id
from windlass.core.job import Durability, NewJob
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Enqueued
from windlass.service import Service
from windlass.web.app.request_context import RequestContext


def named_by(job: NewJob) -> tuple[bytes, ...]:
    """Return the ids of the parent and of the jobs that a new job waits for."""
    return (job.parent, *job.after) if job.parent else job.after


def _id_of(job: PreparedJob) -> bytes:
    return job.id or job.template.job.id


class Relations:
    """Queues of the jobs that the new jobs of one request name, read once before any new job is enqueued.

    Reading before the enqueue is safe: a stored job never changes its queue, and a removed id is not accepted for
    another job for at least ten minutes. An id without a job is not safe, as another client may use it for a job at any
    moment. It is refused here, unless a job of the same request was accepted under it."""

    def __init__(self, service: Service, who: Principal, queues: Mapping[bytes, str | Refusal]) -> None:
        self._service = service
        self._who = who
        self._queues = queues

    def check(self, jobs: Sequence[PreparedJob]) -> None:
        """Raise Forbidden if one of the jobs names a job in another queue."""
        for job in jobs:
            for related in named_by(job.template.job):
                queue = self._queues[related]
                if isinstance(queue, str):
                    self._who.check_found(queue, f"job {format_id(related)}")

    def check_whole(self, jobs: Sequence[PreparedJob]) -> None:
        """Raise the first refusal. Ids of earlier jobs count as accepted: if another client uses one of them first, the
        engine refuses the whole list with `id_conflict`."""
        self.check(jobs)
        accepted: set[bytes] = set()
        for job in jobs:
            refusal = self._refusal_of(job, accepted)
            if refusal is not None:
                raise refusal
            accepted.add(_id_of(job))

    def _refusal_of(self, job: PreparedJob, accepted: set[bytes]) -> Refusal | None:
        """Return the reason why a job cannot be enqueued. `accepted`: ids of jobs that this request has enqueued."""
        try:
            self.check([job])
        except Forbidden as refusal:
            return refusal
        if isinstance(self._queues.get(_id_of(job)), str):
            return None  # a repeated request: the job is stored, and its relations do not change
        new = job.template.job
        for related in named_by(new):
            if isinstance(self._queues[related], UnknownJob) and related not in accepted:
                return UnknownParent() if related == new.parent else UnknownMember()
        return None

    async def enqueue(self, jobs: Sequence[PreparedJob], durability: Durability | None) -> list[Enqueued | Refusal]:
        """Enqueue jobs, each accepted or refused separately. A job that names another job of the list is sent after the
        answer about that job: if a job in another queue has taken its id, the relation is refused."""
        answers: dict[int, Enqueued | Refusal] = {}
        accepted: set[bytes] = set()
        for places in self._rounds(jobs):
            refusals = {place: self._refusal_of(jobs[place], accepted) for place in places}
            sent = [place for place, refusal in refusals.items() if refusal is None]
            answers |= {place: refusal for place, refusal in refusals.items() if refusal is not None}
            given = await self._service.enqueue([jobs[place] for place in sent], durability=durability) if sent else []
            answers |= zip(sent, given, strict=True)
            accepted.update(answer.id for answer in given if isinstance(answer, Enqueued))
        return [answers[place] for place in range(len(jobs))]

    def _rounds(self, jobs: Sequence[PreparedJob]) -> Iterator[range]:
        """Split the list before each job that names a new job of the same round."""
        start = 0
        new: set[bytes] = set()
        for place, job in enumerate(jobs):
            if new and not new.isdisjoint(named_by(job.template.job)):
                yield range(start, place)
                start = place
                new.clear()
            if isinstance(self._queues.get(_id_of(job)), UnknownJob):
                new.add(_id_of(job))
        yield range(start, len(jobs))


async def read_relations(context: RequestContext[Any, Any], jobs: Sequence[PreparedJob]) -> Relations | None:
    """Read the queues of all jobs that the new jobs name, in one call. Returns None if there is nothing to check: the
    token is for all queues, or the jobs name no others."""
    if not context.principal.queues:
        return None
    related = [job for job in jobs if named_by(job.template.job)]
    if not related:
        return None
    named = [job_id for job in related for job_id in (*named_by(job.template.job), _id_of(job))]
    ids = [job_id for job_id in dict.fromkeys(named) if job_id]
    queues = await context.service.queue_of(ids)
    return Relations(context.service, context.principal, dict(zip(ids, queues, strict=True)))
