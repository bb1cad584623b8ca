"""Rules that derive the reasons from the facts about a job, most decisive first.

The store reads the facts in one step; this module is pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal, cast

import msgspec

from windlass.core.ids import format_id
from windlass.core.job import End, Job
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.core.text.error_text import error_line
from windlass.core.text.similar_names import suggest_name

from .filter_text import describe_filter
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
    LeaseOverdue,
    LimitFull,
    NameUnknown,
    Next,
    NothingLeft,
    NoWorker,
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
from .references import HIDDEN, Cause, Holder, Related, Step
from .suspension_reasons import suspension_reason
from .unknown_names import known_names, knows_name, live_workers


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
    text = _as_clause(first)
    if isinstance(first, Next):
        return f"The job is {state.label} and nothing blocks it: {text}."
    blocking = [reason for reason in others if reason.is_blocking]
    # The position or the holder of a job is followed by the first problem.
    if blocking and not first.is_blocking:
        text += f"; {_as_clause(blocking.pop(0))}"
    count = len(blocking)
    more = f"{count} more {'reason' if count == 1 else 'reasons'}" if count else ""
    if text.endswith("?"):
        return f"The job is {state.label}: {text}" + (f" There {'is' if count == 1 else 'are'} {more}." if more else "")
    return f"The job is {state.label}: {text}{f'; {more}' if more else ''}."


def _as_clause(reason: Reason) -> str:
    return reason.sentence[0].lower() + reason.sentence[1:].removesuffix(".")


def _reasons(facts: Facts) -> Iterator[Reason]:
    state = facts.job.state
    if state.is_ended:
        return chain(_ended(facts), _in_steps(facts))
    if state.is_leased:
        leased = chain(_dispatched(facts) if state is State.DISPATCHED else _running(facts), _lease_problems(facts))
        return chain(leased, _untaken(facts)) if facts.job.is_overdue else leased
    if state is State.SUSPENDED:
        return _suspended(facts)
    if state is State.SCHEDULED:
        pending: Iterator[Reason] = chain(_scheduled(facts), _paused(facts), _no_worker(facts), _name_unknown(facts))
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
        # Before its first run a repeating job has the start time that its producer gave it.
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
    """Return the expiry of a job that has not started. A job that waits for its next attempt does not expire."""
    return job.expires_at_ms if job.attempt == 0 else None


def _suspended(facts: Facts) -> Iterator[Reason]:
    found = [suspension_reason(wait, facts.suspended_at_ms) for wait in facts.waits]
    yield from sorted(found, key=lambda reason: not reason.is_blocking)


# Jobs that may be taken


def _untaken(facts: Facts) -> Iterator[Reason]:
    blocked = [*_paused(facts), *_limited(facts)]
    yield from blocked
    yield from _no_worker(facts)
    unwanted = (*_name_unknown(facts),) or (*_unwanted(facts),)
    yield from unwanted
    yield from _position(facts, is_blocked=bool(blocked), is_unwanted=bool(unwanted))


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


def _no_worker(facts: Facts) -> Iterator[Reason]:
    # With too many workers not all were read: the others may serve the queue.
    if facts.takers.waiting == 0 and not _live_workers(facts) and not facts.has_more_workers:
        silent = sum(facts.job.queue in worker.info.queues for worker in facts.workers)
        yield NoWorker(queue=facts.job.queue, silent_workers=silent, served=facts.takers.served)


def _unwanted(facts: Facts) -> Iterator[Reason]:
    job, takers = facts.job, facts.takers
    if takers.waiting and not takers.wanting:
        wants = [describe_filter(wanted) for wanted in takers.other_filters]
        yield Unwanted(queue=job.queue, name=job.name, priority=job.priority, waiting=takers.waiting, wants=wants)


def _name_unknown(facts: Facts) -> Iterator[Reason]:
    """Report an unknown name only if no other taker or worker could take the job."""
    workers, name = _live_workers(facts), facts.job.name
    if not workers or facts.takers.wanting or facts.has_more_workers:
        return
    if not _workers_with_name(facts):
        suggestion = suggest_name(name, known_names(workers, facts.takers.other_filters))
        yield NameUnknown(queue=facts.job.queue, name=name, workers=len(workers), suggestion=suggestion)


def _live_workers(facts: Facts) -> list[RegisteredWorker]:
    return live_workers(facts.workers, facts.job.queue, facts.now_ms)


def _workers_with_name(facts: Facts) -> list[RegisteredWorker]:
    return [
        worker
        for worker in _live_workers(facts)
        if knows_name(worker.info, facts.job.name) and worker.id not in facts.workers_without_name
    ]


def _position(facts: Facts, *, is_blocked: bool, is_unwanted: bool) -> Iterator[Reason]:
    job, position = facts.job, facts.position
    if position is None:
        return
    if position.ahead or (position.is_fair and position.lanes > 1):
        yield Ahead(
            queue=job.queue,
            ahead=position.ahead,
            blocked_lanes=position.blocked_lanes,
            is_fair=position.is_fair,
            lane=job.lane,
            lanes=position.lanes,
            weight=position.weight,
        )
    if not is_blocked:
        yield from _busy(facts)
    is_first = not position.ahead and not (position.is_fair and position.lanes > 1)
    if is_first and not is_blocked and not is_unwanted:
        yield Next(queue=job.queue)


def _busy(facts: Facts) -> Iterator[Reason]:
    workers = _workers_with_name(facts)
    if workers and not facts.takers.wanting:
        slots, running = sum(worker.info.slots for worker in workers), sum(worker.running for worker in workers)
        yield WorkersBusy(queue=facts.job.queue, workers=len(workers), slots=slots, running=running)


# Jobs that wait for other jobs


def _waiting(facts: Facts) -> Iterator[Reason]:
    job, awaited = facts.job, facts.awaited
    if facts.parent and job.is_held:
        yield HeldByParent(parent=_related(facts.parent))
    if awaited.pending:
        members = [_related(member) for member in awaited.first]
        yield AwaitsMembers(count=awaited.pending, members=members, is_group=job.joins)
    if awaited.deleted:
        deleted = [format_id(member) for member in awaited.first_deleted]
        yield DeletedMembers(count=awaited.deleted, members=deleted)
    yield from _in_steps(facts)
    if not (awaited.pending or awaited.deleted or job.is_held or facts.steps):
        yield NothingLeft()


def _related(relative: RelatedJob) -> Related:
    if relative.is_hidden:
        return Related(format_id(relative.id), HIDDEN)
    return Related(format_id(relative.id), relative.state.label if relative.state else "gone")


def _in_steps(facts: Facts) -> Iterator[Reason]:
    # A member that has ended or no longer exists, and still counts, is one whose end is being passed on.
    visible = [member for member in facts.awaited.first if not member.is_hidden]
    is_pending = any(member.state is None or member.state.is_ended for member in visible)
    pending: list[Step] = ["telling"] if is_pending else []
    if facts.steps or pending:
        yield InSteps(steps=[*facts.steps, *pending])


# Leased jobs


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
        is_lease_fixed=facts.is_lease_fixed,
        timeout_at_ms=_timeout_at_ms(job),
    )


def _renewed_at_ms(facts: Facts) -> int | None:
    """Return the time of the last renewal, if the lease has the length that the job or the queue sets.

    The length of a lease is not stored, and a taker may have asked for another length.
    """
    job, length_ms = facts.job, facts.job.lease_ms or facts.queue_lease_ms
    if job.lease_deadline_at_ms is None or length_ms >= FOREVER_MS:
        return None
    renewed_at_ms = job.lease_deadline_at_ms - length_ms
    return renewed_at_ms if (job.started_at_ms or 0) <= renewed_at_ms <= facts.now_ms else None


def _timeout_at_ms(job: Job) -> int | None:
    return job.started_at_ms + job.timeout_ms if job.timeout_ms and job.started_at_ms else None


def _lease_problems(facts: Facts) -> Iterator[Reason]:
    job, now_ms = facts.job, facts.now_ms
    timeout_at_ms, deadline_at_ms = _timeout_at_ms(job), job.lease_deadline_at_ms
    is_dispatch = job.state is State.DISPATCHED
    if timeout_at_ms is not None and timeout_at_ms <= now_ms and not is_dispatch:
        yield LeaseOverdue(since_at_ms=timeout_at_ms, why="timeout")
    if deadline_at_ms is not None and deadline_at_ms <= now_ms:
        why: Literal["accept", "lease"] = "accept" if is_dispatch else "lease"
        yield LeaseOverdue(since_at_ms=deadline_at_ms, why=why, may_be_retaken=job.is_overdue)
    if facts.holder and facts.holder.silent_at_ms <= now_ms:
        yield WorkerSilent(since_at_ms=facts.holder.silent_at_ms)
    if job.is_cancel_requested:
        yield StopRequested()


# Jobs that have ended


def _ended(facts: Facts) -> Iterator[Reason]:
    job, last = facts.job, facts.last_attempt
    # The reason of an earlier attempt is not the reason of the end.
    is_final = last is not None and last.ended_at_ms == job.ended_at_ms and job.state is not State.FINISHED
    yield Ended(
        how=cast(End, job.state.label),
        at_ms=job.ended_at_ms or 0,
        reason=last.reason if last and is_final else "",
        attempt=job.attempt,
        max_attempts=job.retry.tries,
        kept=_retention(facts),
        kept_until_at_ms=facts.removed_at_ms,
        cause=_cause(facts),
    )


def _cause(facts: Facts) -> Cause | None:
    if facts.is_cause_hidden:
        return Cause(state=HIDDEN)
    if facts.cause is None:
        return None
    job, last = facts.cause.job, facts.cause.attempts[-1] if facts.cause.attempts else None
    error = error_line(last.reason, last.error).strip().partition("\n")[0] if last and job.state.is_ended else ""
    return Cause(id=job.key, queue=job.queue, name=job.name, state=job.state.label, error=error)


def _retention(facts: Facts) -> Literal["until", "always", "history", "needed"]:
    if facts.is_needed:
        return "needed"
    if facts.job.is_history:
        return "history"
    return "always" if facts.removed_at_ms is None else "until"
