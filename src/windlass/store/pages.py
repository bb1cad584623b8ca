"""Pages of jobs: which index a listing reads, and how its cursor goes on from one index to the next."""

from __future__ import annotations

import msgspec

from ..core.errors import BadInput
from ..core.requests import Listing, Page
from .calls import reading
from .calls.call import Flow

QUEUED_INDEXES = ("ready", "laned")  # the default lane, then all others


def page(listing: Listing, partition: int) -> Flow[Page]:
    if listing.state != "queued":
        return (yield reading.jobs(listing.state, listing.queue, listing, partition))  # type: ignore[no-any-return]
    return (yield from _page_of_queued(listing, partition))


def page_by_tag(listing: Listing, partitions: int) -> Flow[Page]:
    """Partition after partition, the empty ones passed over; with several of them the cursor says in which it is."""
    home, rest = _home_in(listing.cursor, partitions)
    while True:
        found: Page = yield reading.jobs("t", listing.tag, msgspec.structs.replace(listing, cursor=rest), home)
        if partitions == 1:
            return found
        if found.cursor:
            return Page(found.jobs, f"{home}:{found.cursor}")
        home, rest = home + 1, ""
        if found.jobs or home == partitions:
            return Page(found.jobs, f"{home}:" if home < partitions else "")


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
    found: Page = yield reading.jobs(index, listing.queue, narrowed, partition)
    if found.cursor:
        return Page(found.jobs, f"{index}:{found.cursor}")
    return Page(found.jobs, "laned:" if index == "ready" else "")
