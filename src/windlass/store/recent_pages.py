"""Pages of the newest jobs over several lists, each with an order of its own, and of jobs by a text in their payloads.

A page takes the newest jobs of every list, as many of each as there are, and sorts them by creation. Its cursor is a
position in each list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Attempt, Job
from windlass.core.operations import Listing, Page
from windlass.core.queue import QueueStats

from .commands import jobs as jobs_commands
from .commands.command import Flow
from .commands.jobs import IndexPage
from .job_pages import label_of, read_index_page_of_queues, split_cursor

LOOKED_AT_MAX = 2_000  # jobs, for one page
ROUNDS_MAX = 20
FIRST_ROUND = 200  # jobs that the first round reads in order to choose among them; later rounds read the rest
_END = "end"  # in place of the cursor of a list that was read to its end


class SourcePage(NamedTuple):
    """Page of one list, with the cursor behind each job and behind the page."""

    jobs: list[Job]
    cursors: list[str]
    cursor: str
    looked_at: int  # without jobs that the next page examines again
    last_attempts: dict[bytes, Attempt]


class Source(NamedTuple):
    """One of the lists that a page covers."""

    name: str
    size: int  # number of its jobs
    read: Callable[[Listing, int], Flow[SourcePage]]  # with the number of jobs to examine at most


# Which of the jobs belong on the page, in their order. Fewer answers than jobs: enough was read for one page.
Choice = Callable[[Sequence[Job]], Flow[Sequence[bool]]]


def source_of_queues(state: str, queues: Sequence[QueueStats], partition_of: Callable[[str], int]) -> Source:
    """Make the list of all jobs of a state in these queues."""

    def read(listing: Listing, looked_at: int) -> Flow[SourcePage]:
        narrowed = msgspec.structs.replace(listing, state=state)
        found = yield from read_index_page_of_queues(narrowed, queues, partition_of, looked_at)
        return _source_page(found, "", found.until.cursor if found.until else _END)

    return Source(state, sum(getattr(stats, state) for stats in queues), read)


def source_of_label(partitions: int) -> Source:
    """Make the list of all jobs of a tag or of an indexed field, partition after partition."""

    def read(listing: Listing, looked_at: int) -> Flow[SourcePage]:
        partition, rest = split_cursor(listing.cursor, partitions)
        narrowed = msgspec.structs.replace(listing, cursor=rest)
        found: IndexPage = yield jobs_commands.jobs("t", label_of(listing), narrowed, partition, looked_at)
        prefix = "" if partitions == 1 else f"{partition}:"
        following = f"{partition + 1}:" if partition + 1 < partitions else _END
        return _source_page(found, prefix, prefix + found.until.cursor if found.until else following)

    return Source("label", LOOKED_AT_MAX, read)


def _source_page(found: IndexPage, prefix: str, cursor: str) -> SourcePage:
    cursors = [prefix + position.cursor for position in found.positions]
    return SourcePage(found.jobs, cursors, cursor, found.looked_at - found.read_again, found.last_attempts)


class _Round(NamedTuple):
    """Pages that were read of the lists, and how many of their jobs were examined."""

    pages: dict[str, SourcePage]
    taken: dict[str, int]

    @property
    def looked_at(self) -> int:
        """Number of examined jobs, without those that the next page reads again."""
        return sum(page.looked_at - len(page.jobs) + self.taken[name] for name, page in self.pages.items())

    def cursors(self) -> dict[str, str]:
        """Return where each list goes on, without lists of which nothing was taken."""
        found = {name: page.cursors[self.taken[name] - 1] for name, page in self.pages.items() if self.taken[name]}
        ended = {name: page.cursor for name, page in self.pages.items() if self.taken[name] == len(page.jobs)}
        return found | ended


def read_recent_page(listing: Listing, sources: Sequence[Source], choose: Choice | None = None) -> Flow[Page]:
    """Read a page of the jobs that `choose` chooses (None: all), or the part of it that 2,000 examined jobs fill."""
    cursors = _split(listing.cursor, sources)
    jobs: list[Job] = []
    attempts: dict[bytes, Attempt] = {}
    looked_at, is_enough = 0, False
    for _ in range(ROUNDS_MAX):
        left = [source for source in sources if cursors.get(source.name) != _END]
        if not left or is_enough or len(jobs) >= listing.most or looked_at >= LOOKED_AT_MAX:
            break
        wanted = listing.most - len(jobs) if choose is None else LOOKED_AT_MAX if looked_at else FIRST_ROUND
        found = yield from _read_round(listing, left, cursors, min(wanted, LOOKED_AT_MAX - looked_at))
        is_enough = yield from _take(listing, found, jobs, choose)
        looked_at += found.looked_at
        cursors |= found.cursors()
        for page in found.pages.values():
            attempts |= page.last_attempts
    if len(sources) > 1:
        jobs.sort(key=lambda job: job.created_at_ms, reverse=listing.newest_first)
    cursor = _join(cursors) if any(cursors.get(source.name) != _END for source in sources) else ""
    return Page(jobs, cursor, looked_at, {job.id: attempts[job.id] for job in jobs if job.id in attempts})


def _read_round(listing: Listing, left: Sequence[Source], cursors: dict[str, str], wanted: int) -> Flow[_Round]:
    pages: dict[str, SourcePage] = {}
    for source, share in zip(left, _shares([source.size for source in left], wanted), strict=True):
        narrowed = msgspec.structs.replace(listing, cursor=cursors.get(source.name, ""), most=share)
        pages[source.name] = yield from source.read(narrowed, max(share, LOOKED_AT_MAX // len(left)))
    return _Round(pages, dict.fromkeys(pages, 0))


def _shares(sizes: Sequence[int], wanted: int) -> list[int]:
    """Divide a number of jobs among lists: equally, but no more for a list than it has. Every list gets at least 1."""
    shares = [1] * len(sizes)
    left = wanted - len(sizes)
    for done, at in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        more = max(0, min(sizes[at] - 1, left // (len(sizes) - done)))
        shares[at] += more
        left -= more
    return shares


def _take(listing: Listing, found: _Round, jobs: list[Job], choose: Choice | None) -> Flow[bool]:
    """Take jobs from the beginnings of the pages, the newest first, until the page is full. Return whether enough was
    read for one page."""
    order = _merge(listing, found.pages)
    offered = [job for _, job in order]
    chosen = [True] * len(offered) if choose is None else (yield from choose(offered))
    for (name, job), is_chosen in zip(order, chosen, strict=False):
        if len(jobs) == listing.most:
            break
        found.taken[name] += 1
        if is_chosen:
            jobs.append(job)
    return len(chosen) < len(offered)


def _merge(listing: Listing, pages: dict[str, SourcePage]) -> list[tuple[str, Job]]:
    """Merge pages by the creation of their jobs. Each page keeps its own order."""
    rest = {name: page.jobs[::-1] for name, page in pages.items()}
    sign = -1 if listing.newest_first else 1
    order: list[tuple[str, Job]] = []
    while rest := {name: jobs for name, jobs in rest.items() if jobs}:
        name = min(rest, key=lambda name: sign * rest[name][-1].created_at_ms)
        order.append((name, rest[name].pop()))
    return order


def _split(cursor: str, sources: Sequence[Source]) -> dict[str, str]:
    if not cursor:
        return {}
    cursors = dict(part.partition("=")[::2] for part in cursor.split(","))
    if not all(cursors.values()) or not cursors.keys() <= {source.name for source in sources}:
        raise BadInput("The cursor does not come from a page; start again without it.")
    return cursors


def _join(cursors: dict[str, str]) -> str:
    return ",".join(f"{name}={cursor}" for name, cursor in cursors.items())
