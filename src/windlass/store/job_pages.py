"""Pages of jobs: which indexes a listing reads, and how its cursor continues from one index to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Job
from windlass.core.limits.payload_index import parse_condition
from windlass.core.operations import Listing, Page
from windlass.core.queue import QueueStats

from .commands import jobs as jobs_commands
from .commands.command import Flow
from .commands.jobs import IndexPage, IndexPosition
from .records.job_tags import entry_tag

QUEUED_INDEXES = ("ready", "laned")  # the default lane, then all others
LOOKED_AT_TOGETHER = 2_000  # jobs read for a page over several queues, divided among them
ROUNDS_MAX = 10  # to fill such a page


def read_page(listing: Listing, partition: int) -> Flow[Page]:
    if listing.state == "queued":
        return (yield from _read_page_of_queued(listing, partition))
    found: IndexPage = yield jobs_commands.jobs(listing.state, listing.queue, listing, partition)
    return found.page


def read_page_by_label(listing: Listing, partitions: int) -> Flow[Page]:
    """Read a page of a tag's jobs, or of an indexed field's, partition after partition. With several partitions the
    cursor names the current."""
    label = label_of(listing)
    partition, rest = split_cursor(listing.cursor, partitions)
    while True:
        narrowed = msgspec.structs.replace(listing, cursor=rest)
        found: Page = (yield jobs_commands.jobs("t", label, narrowed, partition)).page
        if listing.where:
            found = _restrict(found, listing)
        if partitions == 1:
            return found
        if found.cursor:
            return msgspec.structs.replace(found, cursor=f"{partition}:{found.cursor}")
        partition, rest = partition + 1, ""
        if found.jobs or partition == partitions:
            return msgspec.structs.replace(found, cursor=f"{partition}:" if partition < partitions else "")


def is_by_label(listing: Listing) -> bool:
    """Return whether a listing is that of a tag or of an indexed field, whose index covers all queues and states."""
    return bool(listing.tag or listing.where)


def label_of(listing: Listing) -> str:
    """Return the tag or the entry of an indexed field whose index a listing reads."""
    return entry_tag(parse_condition(listing.where[0])) if listing.where else listing.tag


def has_labels(job: Job, listing: Listing) -> bool:
    """Return whether a job has the tag and the indexed fields of a listing."""
    entries = {parse_condition(condition) for condition in listing.where}
    return (not listing.tag or listing.tag in job.tags) and entries <= set(job.indexed)


def _restrict(found: Page, listing: Listing) -> Page:
    """Remove the jobs that do not meet the conditions beside the one whose index was read."""
    jobs = [job for job in found.jobs if has_labels(job, listing)]
    last_attempts = {job.id: found.last_attempts[job.id] for job in jobs if job.id in found.last_attempts}
    return msgspec.structs.replace(found, jobs=jobs, last_attempts=last_attempts)


def split_cursor(cursor: str, partitions: int) -> tuple[int, str]:
    if partitions == 1 or not cursor:
        return 0, cursor
    partition, colon, rest = cursor.partition(":")
    if not (colon and partition.isascii() and partition.isdigit() and int(partition) < partitions):
        raise BadInput("The cursor does not come from a page; start again without it.")
    return int(partition), rest


def _read_page_of_queued(listing: Listing, partition: int) -> Flow[Page]:
    """Read a page of queued jobs. The cursor names the current one of the two indexes."""
    index, _, rest = listing.cursor.partition(":") if listing.cursor else ("ready", "", "")
    if index not in QUEUED_INDEXES:
        raise BadInput("The cursor does not come from a page; start again without it.")
    narrowed = msgspec.structs.replace(listing, cursor=rest)
    found: Page = (yield jobs_commands.jobs(index, listing.queue, narrowed, partition)).page
    if found.cursor:
        return msgspec.structs.replace(found, cursor=f"{index}:{found.cursor}")
    return msgspec.structs.replace(found, cursor="laned:" if index == "ready" else "")


def read_page_of_queues(
    listing: Listing, queues: Sequence[QueueStats], partition_of: Callable[[str], int]
) -> Flow[Page]:
    """Read a merged page of several queues."""
    return (yield from read_index_page_of_queues(listing, queues, partition_of)).page


def read_index_page_of_queues(
    listing: Listing,
    queues: Sequence[QueueStats],
    partition_of: Callable[[str], int],
    looked_at_most: int = 0,
) -> Flow[IndexPage]:
    """Read a merged page of several queues, with the position of each job.

    The cursor is a position in the order that the indexes share: every index continues from there. The page ends at the
    position of the index that was read least far. While that makes the page short, only that index is read further.
    """
    sources = [
        (index, stats.queue, partition_of(stats.queue)) for stats in queues for index in _indexes(listing.state, stats)
    ]
    if not sources:
        return IndexPage([], [], None, 0, {})
    looked_at_most = looked_at_most or LOOKED_AT_TOGETHER
    share = max(2, min(listing.most, 4 * listing.most // len(sources)))
    looked_at = max(share, looked_at_most // len(sources))
    narrowed = msgspec.structs.replace(listing, most=share)
    replies: list[IndexPage] = yield [
        jobs_commands.jobs(index, queue, narrowed, partition, min(looked_at, jobs_commands.LOOKED_AT))
        for index, queue, partition in sources
    ]
    for _ in range(ROUNDS_MAX):
        behind = _least_advanced(listing, replies, looked_at_most)
        if behind is None:
            break
        index, queue, partition = sources[behind]
        further = msgspec.structs.replace(listing, cursor=_cursor_of(replies[behind]))
        more: IndexPage = yield jobs_commands.jobs(index, queue, further, partition)
        replies[behind] = _extend_page(replies[behind], more)
    return _merge_pages(listing, replies)


def _least_advanced(listing: Listing, replies: Sequence[IndexPage], looked_at_most: int) -> int | None:
    """Return the source that ends the page too early; None: the page is full, all is read, or enough was read."""
    ends = [(found.until, at) for at, found in enumerate(replies) if found.until]
    if not ends or sum(found.looked_at for found in replies) >= looked_at_most:
        return None
    bound, at = max(ends) if listing.newest_first else min(ends)
    seen = sum(_is_within(listing, position, bound) for found in replies for position in found.positions)
    return at if seen < listing.most else None


def _is_within(listing: Listing, position: IndexPosition, bound: IndexPosition) -> bool:
    return position >= bound if listing.newest_first else position <= bound


def _cursor_of(found: IndexPage) -> str:
    return found.until.cursor if found.until else ""


def _extend_page(found: IndexPage, more: IndexPage) -> IndexPage:
    return IndexPage(
        found.jobs + more.jobs,
        found.positions + more.positions,
        more.until,
        found.looked_at + more.looked_at,
        found.last_attempts | more.last_attempts,
    )


def _indexes(state: str, stats: QueueStats) -> Sequence[str]:
    if state != "queued":
        return (state,)
    return QUEUED_INDEXES if stats.lanes or stats.blocked_lanes else QUEUED_INDEXES[:1]


def _merge_pages(listing: Listing, replies: Sequence[IndexPage]) -> IndexPage:
    ends = [found.until for found in replies if found.until]
    bound = (max(ends) if listing.newest_first else min(ends)) if ends else None
    entries = sorted(
        (entry for found in replies for entry in zip(found.positions, found.jobs, strict=True)),
        key=lambda entry: entry[0],
        reverse=listing.newest_first,
    )
    number_read = len(entries)
    if bound is not None:
        entries = [entry for entry in entries if _is_within(listing, entry[0], bound)]
    entries_shown = entries[: listing.most]
    last = entries_shown[-1][0] if len(entries) > len(entries_shown) else bound
    attempts = {job_id: attempt for found in replies for job_id, attempt in found.last_attempts.items()}
    jobs = [job for _, job in entries_shown]
    return IndexPage(
        jobs,
        [position for position, _ in entries_shown],
        last,
        sum(found.looked_at for found in replies),
        {job.id: attempts[job.id] for job in jobs if job.id in attempts},
        number_read - len(jobs),
    )
