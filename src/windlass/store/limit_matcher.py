"""Matcher of jobs against limits and indexed payload fields, which matches again when these have changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from windlass.core.errors import LimitsChanged, Refusal, RevisionConflict
from windlass.core.job import Job, Timeline
from windlass.core.limits.limit import LimitTable
from windlass.core.operations import CompleteWithChildren, CompletionOutcome, Edit, Edited, Listing, Update, Updated

from .batching.partition_split import split_by_partition
from .cache.limits import LimitCache
from .commands import job_admin, limits, queues, reports
from .commands import jobs as jobs_commands
from .commands.command import BatchCommand, Flow
from .commands.limits import ContentMatch
from .job_pages import read_page
from .records.job_tags import join_tags

R = TypeVar("R")
T = TypeVar("T")
C = TypeVar("C", Edit, Update, CompleteWithChildren)
LIVE_STATES = ("queued", "scheduled", "waiting", "suspended", "running")
_LINKED_STATES = ("failed", "cancelled", "history")  # of ended jobs; those with links may wait again
PAGE_SIZE = 200


def refresh_limits(cache: LimitCache, partition: int) -> Flow[LimitTable]:
    found: limits.StoredLimits = yield limits.limits(partition)
    return cache.update(partition, found.table)


def run_matched(
    cache: LimitCache,
    requests: Sequence[R],
    partition_of: Callable[[R], int],
    attempt: Callable[[Sequence[R]], Flow[list[T | Refusal]]],
) -> Flow[list[T | Refusal]]:
    """Run an attempt, and repeat it for the requests that were matched against outdated limits."""
    answers = yield from attempt(requests)
    while LimitsChanged in map(type, answers):  # fast: there may be thousands of answers, rarely with this one
        stale = [index for index, answer in enumerate(answers) if type(answer) is LimitsChanged]
        for partition in sorted({partition_of(requests[index]) for index in stale}):
            yield from refresh_limits(cache, partition)
        again = yield from attempt([requests[index] for index in stale])
        for index, answer in zip(stale, again, strict=True):
            answers[index] = answer
    return answers


def edit_jobs(
    cache: LimitCache, requests: Sequence[Edit], partition_of: Callable[[Edit], int]
) -> Flow[list[Edited | Refusal]]:
    """Edit jobs. If there are limits or indexed fields, match a new name or payload against them, guarded by the job's
    revision."""
    return _run_guarded(cache, requests, partition_of, job_admin.edit)


def update_jobs(
    cache: LimitCache, requests: Sequence[Update], partition_of: Callable[[Update], int]
) -> Flow[list[Updated | Refusal]]:
    """Update jobs for their holders. A running job keeps its limits; its indexed fields follow its payload."""
    return _run_guarded(cache, requests, partition_of, reports.update)


def complete_jobs(
    cache: LimitCache, requests: Sequence[CompleteWithChildren], partition_of: Callable[[CompleteWithChildren], int]
) -> Flow[list[CompletionOutcome | Refusal]]:
    """Complete jobs with their children. A job that continues is matched like an edit, whatever its content."""
    return _run_guarded(cache, requests, partition_of, reports.complete_with_children)


def _run_guarded(
    cache: LimitCache,
    requests: Sequence[C],
    partition_of: Callable[[C], int],
    build: Callable[[Sequence[tuple[C, ContentMatch | None]], int, int], BatchCommand[Any]],
) -> Flow[list[Any]]:
    is_repeated = False

    def attempt(part: Sequence[C]) -> Flow[list[Any]]:
        nonlocal is_repeated
        prepared = yield from _match_contents(cache, part, partition_of, is_repeated)
        is_repeated = True
        answers: list[Any] = yield from split_by_partition(
            prepared,
            lambda pair: partition_of(pair[0]),
            lambda pairs, partition: build(pairs, cache.table(partition).version, partition),
        )
        return [
            # The guard was ours, not the caller's: repeat with the present state of the job.
            LimitsChanged() if isinstance(answer, RevisionConflict) and not _guard_of(request) else answer
            for request, answer in zip(part, answers, strict=True)
        ]

    return run_matched(cache, requests, partition_of, attempt)


def _guard_of(request: Edit | Update | CompleteWithChildren) -> int:
    return 0 if isinstance(request, Update) else request.if_revision


def _may_match_other_limits(request: Edit | Update | CompleteWithChildren) -> bool:
    if isinstance(request, Edit):
        return bool(request.name) or request.payload is not None
    return isinstance(request, CompleteWithChildren)


def _must_match(request: Edit | Update | CompleteWithChildren, table: LimitTable, is_repeated: bool) -> bool:
    """Tell whether the job must be read. A job may have indexed fields of its own: the engine refuses a new payload of
    such a job without its tags, and the repeated call reads the job."""
    if table.limits and _may_match_other_limits(request):
        return True
    return request.payload is not None and (is_repeated or bool(table.indexes))


def _match_contents(
    cache: LimitCache, requests: Sequence[C], partition_of: Callable[[C], int], is_repeated: bool
) -> Flow[list[tuple[C, ContentMatch | None]]]:
    changing = [
        request for request in requests if _must_match(request, cache.table(partition_of(request)), is_repeated)
    ]
    replies = yield from split_by_partition(
        changing, partition_of, lambda part, partition: jobs_commands.job([request.id for request in part], partition)
    )
    found = {
        request.id: jobs_commands.timeline(request.id, reply) for request, reply in zip(changing, replies, strict=True)
    }
    matches: list[tuple[C, ContentMatch | None]] = []
    for request in requests:
        timeline, match = found.get(request.id), None
        if isinstance(timeline, Timeline):
            match = _match_content(request, timeline.job, cache.table(partition_of(request)))
        matches.append((request, match))
    return matches


def _match_content(request: Edit | Update | CompleteWithChildren, job: Job, table: LimitTable) -> ContentMatch:
    wanted = tags = None
    if _may_match_other_limits(request):
        name = "" if isinstance(request, Update) else request.name
        wanted = limits.join_keys(table.match(job.queue, name or job.name, job.lane, request.payload or job.payload))
    if request.payload is not None:
        tags = join_tags(job.tags, job.index, table.index_entries(job.queue, job.index, request.payload))
    return ContentMatch(job.revision, wanted, tags)


def requeue_jobs(
    cache: LimitCache,
    ids: Sequence[bytes],
    partition_of: Callable[[bytes], int],
    build: Callable[[Sequence[limits.LimitMatch], int, int], BatchCommand[str | Refusal]],
) -> Flow[list[str | Refusal]]:
    """Requeue jobs that may have ended, matched against the present limits instead of those at their end."""

    def attempt(part: Sequence[bytes]) -> Flow[list[str | Refusal]]:
        matches = yield from _match_jobs(cache, part, partition_of)
        return (
            yield from split_by_partition(
                matches,
                lambda match: partition_of(match.id),
                lambda part, partition: build(part, cache.table(partition).version, partition),
            )
        )

    return run_matched(cache, ids, partition_of, attempt)


def _match_jobs(
    cache: LimitCache, ids: Sequence[bytes], partition_of: Callable[[bytes], int]
) -> Flow[list[limits.LimitMatch]]:
    limited = [job_id for job_id in ids if cache.table(partition_of(job_id)).version]
    replies = yield from split_by_partition(limited, partition_of, jobs_commands.job)
    found = {}
    for job_id, reply in zip(limited, replies, strict=True):
        timeline = jobs_commands.timeline(job_id, reply)
        if not isinstance(timeline, Refusal):
            job, table = timeline.job, cache.table(partition_of(job_id))
            wanted = table.match(job.queue, job.name, job.lane, job.payload)
            found[job_id] = limits.LimitMatch(job_id, job.revision, wanted)
    return [found.get(job_id, limits.LimitMatch(job_id, 0, ())) for job_id in ids]


def rematch_jobs(cache: LimitCache, partition: int, only: Collection[str] = ()) -> Flow[int]:
    """Match every live job (of some queues) against the present limits, in bounded steps. Return how many changed."""
    table = yield from refresh_limits(cache, partition)
    changed = 0
    if only:
        for queue in sorted(only):
            changed += yield from _rematch_queue(queue, table, partition)
    else:
        changed += yield from _rematch_all_queues(table, partition)
    yield limits.rematched(table.version, partition)
    return changed


def _rematch_all_queues(table: LimitTable, partition: int) -> Flow[int]:
    changed, cursor = 0, "0"
    while True:
        cursor, names = yield queues.queues(cursor, PAGE_SIZE, partition)
        for queue in names:
            changed += yield from _rematch_queue(queue, table, partition)
        if cursor == "0":
            return changed


def _rematch_queue(queue: str, table: LimitTable, partition: int) -> Flow[int]:
    changed = 0
    for state in (*LIVE_STATES, *_LINKED_STATES):
        cursor = ""
        while True:
            found = yield from read_page(Listing(queue=queue, state=state, most=PAGE_SIZE, cursor=cursor), partition)
            jobs = found.jobs if state in LIVE_STATES else [job for job in found.jobs if job.has_members]
            changed += yield from _rematch_jobs(jobs, table, partition)
            cursor = found.cursor
            if not cursor:
                break
    return changed


def _rematch_jobs(jobs: Sequence[Job], table: LimitTable, partition: int) -> Flow[int]:
    cut = [job.id for job in jobs if not job.payload_is_whole]
    whole = {job.id: job for job in jobs if job.payload_is_whole}
    replies = yield from split_by_partition(cut, lambda _: partition, jobs_commands.job)
    for job_id, reply in zip(cut, replies, strict=True):
        timeline = jobs_commands.timeline(job_id, reply)
        if not isinstance(timeline, Refusal):
            whole[job_id] = timeline.job
    matches = [
        limits.LimitMatch(job.id, job.revision, wanted)
        for job in whole.values()
        if (wanted := table.match(job.queue, job.name, job.lane, job.payload)) != job.limits
    ]
    yield from split_by_partition(
        matches, lambda _: partition, lambda part, partition: limits.rematch(part, table.version, partition)
    )
    return len(matches)
