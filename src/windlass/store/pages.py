"""Pages of jobs: which index a listing reads, and how its cursor goes on from one index to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..core.errors import BadInput
from ..core.queue import QueueStats
from ..core.requests import Listing, Page
from .calls import reading
from .calls.call import Flow
from .calls.reading import Found

QUEUED_INDEXES = ("ready", "laned")  # the default lane, then all others
LOOKED_AT_TOGETHER = 2_000  # jobs, for a page over several queues; each has its share


def page(listing: Listing, partition: int) -> Flow[Page]:
    if listing.state == "queued":
        return (yield from _page_of_queued(listing, partition))
    found: Found = yield reading.jobs(listing.state, listing.queue, listing, partition)
    return found.page


def page_by_tag(listing: Listing, partitions: int) -> Flow[Page]:
    """Partition after partition, the empty ones passed over; with several of them the cursor says in which it is."""
    home, rest = _home_in(listing.cursor, partitions)
    while True:
        narrowed = msgspec.structs.replace(listing, cursor=rest)
        found: Page = (yield reading.jobs("t", listing.tag, narrowed, home)).page
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
    found: Page = (yield reading.jobs(index, listing.queue, narrowed, partition)).page
    if found.cursor:
        return msgspec.structs.replace(found, cursor=f"{index}:{found.cursor}")
    return msgspec.structs.replace(found, cursor="laned:" if index == "ready" else "")


def page_of_all(listing: Listing, queues: Sequence[QueueStats], home_of: Callable[[str], int]) -> Flow[Page]:
    """Of several queues, merged. The cursor is a position in the order that they share: every
    index goes on from there. Nothing is shown from beyond the place that the least advanced of them has seen."""
    sources = [(index, one.queue, home_of(one.queue)) for one in queues for index in _indexes(listing.state, one)]
    if not sources:
        return Page([], "")
    share = max(2, min(listing.most, 4 * listing.most // len(sources)))
    looked_at = max(share, LOOKED_AT_TOGETHER // len(sources))
    narrowed = msgspec.structs.replace(listing, most=share)
    replies: list[Found] = yield [
        reading.jobs(index, queue, narrowed, home, min(looked_at, reading.LOOKED_AT)) for index, queue, home in sources
    ]
    return _merged(listing, replies)


def _indexes(state: str, stats: QueueStats) -> Sequence[str]:
    if state != "queued":
        return (state,)
    return QUEUED_INDEXES if stats.lanes or stats.blocked_lanes else QUEUED_INDEXES[:1]


def _merged(listing: Listing, replies: Sequence[Found]) -> Page:
    sign = -1 if listing.newest_first else 1
    ends = [found.until for found in replies if found.until]
    bound = (max(ends) if listing.newest_first else min(ends)) if ends else None
    entries = sorted(
        (entry for found in replies for entry in zip(found.positions, found.jobs, strict=True)),
        key=lambda entry: entry[0],
        reverse=listing.newest_first,
    )
    if bound is not None:
        entries = [entry for entry in entries if entry[0] == bound or (entry[0] < bound) == (sign > 0)]
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
