"""Entries of a source as a reader understands them, and pages of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from windlass.core.job import Blob, NewJob
from windlass.service import Service
from windlass.store.job_source import JobSource, Place, SourceEntry

LIST_KINDS: dict[str, Place] = {"list": "right", "zset": "zset"}  # LPUSH and RPOP: the oldest is at the right end


class EndedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ended in the source and has a callback that was not delivered."""

    result: Blob | None  # of a job that succeeded
    error: Blob | None  # of a job that failed
    is_given_up: bool  # the source has stopped trying to deliver the callback


class FoundJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to move."""

    entry: SourceEntry
    identity: str  # in the source; jobs of one dialect with the same identity are the same job
    base_id: bytes  # its id, except for the partition
    keeps_id: bool = False  # clients know the id
    job: NewJob
    ended: EndedJob | None = None
    run_at_ms: int = 0  # 0: now
    is_in_flight: bool = False  # a worker had it
    content: str = ""  # of an entry that holds the whole job


class LeftEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that stays where it is."""

    entry: SourceEntry
    reason: str
    is_running: bool = False  # a worker has the job


ReadEntry: TypeAlias = FoundJob | LeftEntry


class Page(msgspec.Struct):
    """Entries that are moved together. `left` is the number of entries that stay in their list."""

    entries: Sequence[ReadEntry]
    left: int = 0


class Reader(Protocol):
    """Finds the jobs of one dialect in a source."""

    def count(self) -> int:
        """Return the number of entries that `pages` will yield, approximately."""

    def pages(self) -> Iterator[Page]:
        """Yield the entries in the order of their jobs. A page is moved before the next one is read."""

    async def prepare(self, service: Service) -> None:
        """Prepare this deployment for the jobs, as the dialect does before the first job."""

    def facts(self) -> dict[str, Any]:
        """Return facts about the source for the report, by their name in the report."""


def walk(
    source: JobSource, key: str, place: Place, read: Callable[[list[SourceEntry]], list[ReadEntry]]
) -> Iterator[Page]:
    offset = 0
    while entries := source.page(key, place, offset):
        page = Page(read(entries))
        yield page
        offset += page.left


def wrong_kind(key: str, kind: str, wanted: str) -> Page:
    """Return a page that reports a key of an unexpected type."""
    return Page([LeftEntry(entry=SourceEntry(key, "none", b""), reason=f"The key is a {kind}, not a {wanted}.")])


def text_of(member: bytes) -> str:
    """Return an id as text. Bytes that are not UTF-8 never match an id."""
    return member.decode(errors="backslashreplace")
