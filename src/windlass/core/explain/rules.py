"""From what the engine knows of a job to the reasons that decide, most decisive first. Pure: the facts were read by the
store, in one step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal, cast

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import End, Job
from windlass.core.operations import Filter
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.core.text.humanize import quote_text

from .inputs import Facts, RegisteredWorker, RelatedJob
from .reasons import (
    Ahead,
    AwaitsMembers,
    DeletedMembers,
    Dispatched,
    Ended,
    Expired,
    Expires,
    Explanation,
    HeldByParent,
    InSteps,
    LimitFull,
    NameUnknown,
    Next,
    NothingLeft,
    NoWorker,
    Overdue,
    Paused,
    RateLimited,
    Reason,
    Running,
    Scheduled,
    StopRequested,
    Unwanted,
    WorkersBusy,
    WorkerSilent,
)
from .references import HIDDEN, Holder, Related, Step


def explain(facts: Facts) -> Explanation:
    found = [msgspec.structs.replace(reason, sentence=reason.describe(facts.now_ms)) for reason in _reasons(facts)]
    job = facts.job
    return Explanation(
        id=job.key,
        queue=job.queue,
        name=job.name,
        state=job.state.label,
        at_ms=facts.now_ms,
        summary=_summary(job.state, found),
        reasons=found,
    )


def _summary(state: State, reasons: list[Reason]) -> str:
    first, *others = reasons
    if state.is_ended:
        return first.sentence
    said = _continued(first)
    if isinstance(first, Next):
        return f"The job is {state.label} and nothing holds it back: {said}."
    hindering = [reason for reason in others if reason.is_blocking]
    # Where it stands, or who has it, is said together with what goes wrong there.
    if hindering and not first.is_blocking:
        said += f"; {_continued(hindering.pop(0))}"
    count = len(hindering)
    more = f"; {count} more {'reason' if count == 1 else 'reasons'}" if count else ""
    return f"The job is {state.label}: {said}{more}."


def _continued(reason: Reason) -> str:
    return reason.sentence[0].lower() + reason.sentence[1:-1]


def _reasons(facts: Facts) -> Iterator[Reason]:
    state = facts.job.state
    if state.is_ended:
        return chain(_ended(facts), _in_steps(facts))
    if state.is_leased:
        leased = chain(_dispatched(facts) if state is State.DISPATCHED else _running(facts), _slipping(facts))
        return chain(leased, _untaken(facts)) if facts.job.is_overdue else leased
    if state is State.SCHEDULED:
        pending: Iterator[Reason] = chain(_scheduled(facts), _paused(facts), _no_worker(facts))
    else:
        pending = _untaken(facts) if state is State.QUEUED else _waiting(facts)
    return chain(_expired(facts), pending, _expires(facts))


def _scheduled(facts: Facts) -> Iterator[Reason]:
    job, last = facts.job, facts.last_attempt
    if job.attempt and last:
        tries = job.retry.tries
        yield Scheduled(
            until_at_ms=job.run_at_ms, why="retry", attempt=last.attempt, max_attempts=tries, last_reason=last.reason
        )
    else:
        # What has not repeated yet was given its time by whoever enqueued it.
        why: Literal["repeat", "run_at"] = "repeat" if job.repeat and job.started_at_ms else "run_at"
        yield Scheduled(until_at_ms=job.run_at_ms, why=why, note=job.note)


def _expired(facts: Facts) -> Iterator[Reason]:
    at_ms = _expires_at_ms(facts.job)
    if at_ms is not None and at_ms <= facts.now_ms:
        yield Expired(at_ms=at_ms)


def _expires(facts: Facts) -> Iterator[Reason]:
    at_ms = _expires_at_ms(facts.job)
    if at_ms is not None and at_ms > facts.now_ms:
        yield Expires(at_ms=at_ms)


def _expires_at_ms(job: Job) -> int | None:
    """One that has started before, and waits for its next attempt, has kept its term."""
    return job.expires_at_ms if job.attempt == 0 else None


# A job that may be taken


def _untaken(facts: Facts) -> Iterator[Reason]:
    held_back = [*_paused(facts), *_limited(facts)]
    yield from held_back
    yield from _no_worker(facts)
    yield from (*_name_unknown(facts),) or _unwanted(facts)
    yield from _standing(facts, is_held_back=bool(held_back))


def _paused(facts: Facts) -> Iterator[Reason]:
    for pause in facts.pauses:
        yield Paused(
            scope="lane" if pause.lane else "name" if pause.name else "queue",
            queue=pause.queue,
            lane=pause.lane,
            name=pause.name,
            since_at_ms=pause.since_ms,
            reason=pause.reason,
        )


def _limited(facts: Facts) -> Iterator[Reason]:
    for full in facts.limits:
        limit = full.limit
        if limit.rate is not None and full.next_token_at_ms is not None:
            yield RateLimited(
                limit=limit.name,
                key=full.key,
                rate=limit.rate,
                per_ms=limit.per_ms,
                burst=limit.burst or limit.rate,
                until_at_ms=full.next_token_at_ms,
            )
        else:
            holders = [format_id(holder) for holder in full.holders]
            cap = full.own_cap or limit.running or 0
            yield LimitFull(limit=limit.name, key=full.key, cap=cap, running=full.running, holders=holders)


def _workers_of_queue(facts: Facts, *, alive: bool) -> list[RegisteredWorker]:
    return [
        worker
        for worker in facts.workers
        if facts.job.queue in worker.info.queues and (worker.silent_at_ms > facts.now_ms) == alive
    ]


def _no_worker(facts: Facts) -> Iterator[Reason]:
    # Of too many workers not all were looked at: the others may take from it.
    if facts.takers.waiting == 0 and not _workers_of_queue(facts, alive=True) and not facts.has_more_workers:
        silent = len(_workers_of_queue(facts, alive=False))
        yield NoWorker(queue=facts.job.queue, silent_workers=silent, served=facts.takers.served)


def _unwanted(facts: Facts) -> Iterator[Reason]:
    job, takers = facts.job, facts.takers
    if takers.waiting and not takers.wanting:
        wants = [describe_filter(one) for one in takers.other_filters]
        yield Unwanted(queue=job.queue, name=job.name, priority=job.priority, waiting=takers.waiting, wants=wants)


def _name_unknown(facts: Facts) -> Iterator[Reason]:
    """Others that wait for jobs of this name, or take from the queue themselves, would be its chance."""
    workers = _workers_of_queue(facts, alive=True)
    if not workers or facts.takers.wanting or facts.has_more_workers:
        return
    if all(worker.info.url and worker.id in facts.workers_without_name for worker in workers):
        yield NameUnknown(queue=facts.job.queue, name=facts.job.name, workers=len(workers))


def describe_filter(wants: Filter) -> str:
    """A taker's filter in words."""
    parts = []
    if wants.only:
        parts.append("only " + ", ".join(quote_text(name) for name in wants.only))
    if wants.all_but:
        parts.append("all but " + ", ".join(quote_text(name) for name in wants.all_but))
    if wants.glob:
        parts.append(f"names like {quote_text(wants.glob)}")
    if wants.priority is not None:
        parts.append(f"priority {wants.priority}")
    return " with ".join(parts)


def _standing(facts: Facts, *, is_held_back: bool) -> Iterator[Reason]:
    job, place = facts.job, facts.position
    if place is None:
        return
    if place.ahead or (place.is_fair and place.lanes > 1):
        yield Ahead(
            queue=job.queue,
            ahead=place.ahead,
            blocked_lanes=place.blocked_lanes,
            is_fair=place.is_fair,
            lane=job.lane,
            lanes=place.lanes,
            weight=place.weight,
        )
    if not is_held_back:
        yield from _busy(facts)
    if not place.ahead and not is_held_back and not (place.is_fair and place.lanes > 1):
        yield Next(queue=job.queue)


def _busy(facts: Facts) -> Iterator[Reason]:
    workers = [worker for worker in _workers_of_queue(facts, alive=True) if worker.id not in facts.workers_without_name]
    if workers and not facts.takers.wanting:
        slots, running = sum(one.info.slots for one in workers), sum(one.running for one in workers)
        yield WorkersBusy(queue=facts.job.queue, workers=len(workers), slots=slots, running=running)


# A job that waits for others


def _waiting(facts: Facts) -> Iterator[Reason]:
    job, awaited = facts.job, facts.awaited
    if facts.parent and job.is_held:
        yield HeldByParent(parent=_related(facts.parent))
    if awaited.pending:
        members = [_related(one) for one in awaited.first]
        yield AwaitsMembers(count=awaited.pending, members=members, is_group=job.joins)
    if awaited.deleted:
        gone = [format_id(one) for one in awaited.first_deleted]
        yield DeletedMembers(count=awaited.deleted, members=gone)
    yield from _in_steps(facts)
    if not (awaited.pending or awaited.deleted or job.is_held or facts.steps):
        yield NothingLeft()


def _related(relative: RelatedJob) -> Related:
    if relative.is_hidden:
        return Related(format_id(relative.id), HIDDEN)
    return Related(format_id(relative.id), relative.state.label if relative.state else "gone")


def _in_steps(facts: Facts) -> Iterator[Reason]:
    # A member that has ended or is gone, and still counts, is one whose end is on its way.
    seen = [one for one in facts.awaited.first if not one.is_hidden]
    is_told = any(one.state is None or one.state.is_ended for one in seen)
    telling: list[Step] = ["telling"] if is_told else []
    if facts.steps or telling:
        yield InSteps(steps=[*facts.steps, *telling])


# A job that somebody has


def _holder(facts: Facts) -> Holder | None:
    if facts.job.worker is None:
        return None
    known = facts.holder
    if known is None:
        return Holder(id=format_id(facts.job.worker))
    return Holder(
        id=format_id(known.id),
        is_registered=True,
        name=known.info.name,
        host=known.info.host,
        pid=known.info.pid,
        beat_at_ms=known.silent_at_ms - known.beat_ms,
        silent_at_ms=known.silent_at_ms,
    )


def _dispatched(facts: Facts) -> Iterator[Reason]:
    job = facts.job
    yield Dispatched(
        worker=_holder(facts),
        since_at_ms=job.started_at_ms or 0,
        accept_until_at_ms=job.lease_deadline_at_ms or 0,
        attempt=job.attempt,
        max_attempts=job.retry.tries,
    )


def _running(facts: Facts) -> Iterator[Reason]:
    job = facts.job
    yield Running(
        worker=_holder(facts),
        since_at_ms=job.started_at_ms or 0,
        attempt=job.attempt,
        max_attempts=job.retry.tries,
        deadline_at_ms=job.lease_deadline_at_ms,
        lease_renewed_at_ms=_renewed_at_ms(facts),
        timeout_at_ms=_timeout_at_ms(job),
    )


def _renewed_at_ms(facts: Facts) -> int | None:
    """The lease's length is not kept: a taker may have asked for another than the job's or the queue's."""
    job, length_ms = facts.job, facts.job.lease_ms or facts.queue_lease_ms
    if job.lease_deadline_at_ms is None or length_ms >= FOREVER_MS:
        return None
    renewed_at_ms = job.lease_deadline_at_ms - length_ms
    return renewed_at_ms if (job.started_at_ms or 0) <= renewed_at_ms <= facts.now_ms else None


def _timeout_at_ms(job: Job) -> int | None:
    return job.started_at_ms + job.timeout_ms if job.timeout_ms and job.started_at_ms else None


def _slipping(facts: Facts) -> Iterator[Reason]:
    job, now_ms = facts.job, facts.now_ms
    timeout_at_ms, deadline_at_ms = _timeout_at_ms(job), job.lease_deadline_at_ms
    is_dispatch = job.state is State.DISPATCHED
    if timeout_at_ms is not None and timeout_at_ms <= now_ms and not is_dispatch:
        yield Overdue(since_at_ms=timeout_at_ms, why="timeout")
    if deadline_at_ms is not None and deadline_at_ms <= now_ms:
        why: Literal["accept", "lease"] = "accept" if is_dispatch else "lease"
        yield Overdue(since_at_ms=deadline_at_ms, why=why, may_be_retaken=job.is_overdue)
    if facts.holder and facts.holder.silent_at_ms <= now_ms:
        yield WorkerSilent(since_at_ms=facts.holder.silent_at_ms)
    if job.is_cancel_requested:
        yield StopRequested()


# A job that has ended


def _ended(facts: Facts) -> Iterator[Reason]:
    job, last = facts.job, facts.last_attempt
    # An earlier attempt's reason is not the end's.
    is_of_end = last is not None and last.ended_at_ms == job.ended_at_ms and job.state is not State.FINISHED
    yield Ended(
        how=cast(End, job.state.label),
        at_ms=job.ended_at_ms or 0,
        reason=last.reason if last and is_of_end else "",
        attempt=job.attempt,
        max_attempts=job.retry.tries,
        kept=_kept(facts),
        kept_until_at_ms=facts.removed_at_ms,
    )


def _kept(facts: Facts) -> Literal["until", "always", "history", "needed"]:
    if facts.is_needed:
        return "needed"
    if facts.job.is_history:
        return "history"
    return "always" if facts.removed_at_ms is None else "until"
