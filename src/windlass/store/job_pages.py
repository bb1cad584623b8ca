"""Pages of jobs: which index a listing reads, and how its cursor goes on from one index to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from windlass.core.errors import BadInput
from windlass.core.operations import Listing, Page
from windlass.core.queue import QueueStats

from .commands import jobs as jobs_commands
from .commands.command import Flow
from .commands.jobs import IndexPage, IndexPosition

QUEUED_INDEXES = ("ready", "laned")  # the default lane, then all others
LOOKED_AT_TOGETHER = 2_000  # jobs, for a page over several queues; each has its share
ROUNDS_MAX = 10  # until such a page is full


def read_page(listing: Listing, partition: int) -> Flow[Page]:
    if listing.state == "queued":
        return (yield from _page_of_queued(listing, partition))
    found: IndexPage = yield jobs_commands.jobs(listing.state, listing.queue, listing, partition)
    return found.page


def read_page_by_tag(listing: Listing, partitions: int) -> Flow[Page]:
    """Partition after partition, the empty ones passed over; with several of them the cursor says in which it is."""
    home, rest = _home_in(listing.cursor, partitions)
    while True:
        narrowed = msgspec.structs.replace(listing, cursor=rest)
        found: Page = (yield jobs_commands.jobs("t", listing.tag, narrowed, home)).page
        if partitions == 1:
            return found
        if found.cursor:
            return msgspec.structs.replace(found, cursor=f"{home}:{found.cursor}")
        home, rest = home + 1, ""
        if found.jobs or home == partitions:
            return msgspec.structs.replace(found, cursor=f"{home}:" if home < partitions else "")


def _home_in(cursor: str, partitions: int) -> tuple[int, str]:
    if partitions == 1 or not cursor:
        return 0, cursor
    home, colon, rest = cursor.partition(":")
    if not (colon and home.isascii() and home.isdigit() and int(home) < partitions):
        raise BadInput("The cursor is not one that a page gave out; start again without it.")
    return int(home), rest


def _page_of_queued(listing: Listing, partition: int) -> Flow[Page]:
    """The cursor says in which of the two indexes it is."""
    index, _, rest = listing.cursor.partition(":") if listing.cursor else ("ready", "", "")
    if index not in QUEUED_INDEXES:
        raise BadInput("The cursor is not one that a page gave out; start again without it.")
    narrowed = msgspec.structs.replace(listing, cursor=rest)
    found: Page = (yield jobs_commands.jobs(index, listing.queue, narrowed, partition)).page
    if found.cursor:
        return msgspec.structs.replace(found, cursor=f"{index}:{found.cursor}")
    return msgspec.structs.replace(found, cursor="laned:" if index == "ready" else "")


def read_page_of_queues(listing: Listing, queues: Sequence[QueueStats], home_of: Callable[[str], int]) -> Flow[Page]:
    """Of several queues, merged. The cursor is a position in the order that they share: every index goes on from there.
    Nothing is shown from beyond the place that the least advanced of them has seen; while that makes the page short, it
    alone is asked to go on."""
    sources = [(index, one.queue, home_of(one.queue)) for one in queues for index in _indexes(listing.state, one)]
    if not sources:
        return Page([], "")
    share = max(2, min(listing.most, 4 * listing.most // len(sources)))
    looked_at = max(share, LOOKED_AT_TOGETHER // len(sources))
    narrowed = msgspec.structs.replace(listing, most=share)
    replies: list[IndexPage] = yield [
        jobs_commands.jobs(index, queue, narrowed, home, min(looked_at, jobs_commands.LOOKED_AT))
        for index, queue, home in sources
    ]
    for _ in range(ROUNDS_MAX):
        behind = _behind(listing, replies)
        if behind is None:
            break
        index, queue, home = sources[behind]
        further = msgspec.structs.replace(listing, cursor=_cursor_of(replies[behind]))
        more: IndexPage = yield jobs_commands.jobs(index, queue, further, home)
        replies[behind] = _continued(replies[behind], more)
    return _merged(listing, replies)


def _behind(listing: Listing, replies: Sequence[IndexPage]) -> int | None:
    """The one that ends a page too early; None: the page is full, all is seen, or enough was looked at."""
    ends = [(found.until, at) for at, found in enumerate(replies) if found.until]
    if not ends or sum(found.looked_at for found in replies) >= LOOKED_AT_TOGETHER:
        return None
    bound, at = max(ends) if listing.newest_first else min(ends)
    seen = sum(_is_within(listing, place, bound) for found in replies for place in found.positions)
    return at if seen < listing.most else None


def _is_within(listing: Listing, place: IndexPosition, bound: IndexPosition) -> bool:
    return place >= bound if listing.newest_first else place <= bound


def _cursor_of(found: IndexPage) -> str:
    return found.until.cursor if found.until else ""


def _continued(found: IndexPage, more: IndexPage) -> IndexPage:
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


def _merged(listing: Listing, replies: Sequence[IndexPage]) -> Page:
    ends = [found.until for found in replies if found.until]
    bound = (max(ends) if listing.newest_first else min(ends)) if ends else None
    entries = sorted(
        (entry for found in replies for entry in zip(found.positions, found.jobs, strict=True)),
        key=lambda entry: entry[0],
        reverse=listing.newest_first,
    )
    if bound is not None:
        entries = [entry for entry in entries if _is_within(listing, entry[0], bound)]
    shown = entries[: listing.most]
    last = shown[-1][0] if len(entries) > len(shown) else bound
    said = {job_id: one for found in replies for job_id, one in found.last_attempts.items()}
    jobs = [job for _, job in shown]
    return Page(
        jobs,
        last.cursor if last else "",
        sum(found.looked_at for found in replies),
        {job.id: said[job.id] for job in jobs if job.id in said},
    )
