"""Failure groups: failed jobs grouped by the same error."""

from __future__ import annotations

import msgspec

from windlass.core.operations import Listing, Page
from windlass.core.stats.failure_groups import LOOKED_AT_MAX, FailureGrouping, Failures
from windlass.core.validation.bounds import PAGE_MAX, QUEUE_MAX
from windlass.core.validation.tokens import check_queue_patterns
from windlass.core.validation.values import check_glob, check_integer, check_text
from windlass.store.commands.command import Flow
from windlass.store.operation import Operation

from .jobs import JobOperations

REMEMBERED_MS = 5_000


class FailureGroupOperations(JobOperations):
    def failures(
        self, *, queue: str = "", name: str = "", looked_at: int = 2_000, queues: tuple[str, ...] = ()
    ) -> Operation[Failures]:
        """Return the last failed jobs (of a queue, of matching names), grouped by error. Jobs that failed because of
        another job are counted for the group of that job. The jobs are read in bounded steps, and this process caches
        an answer for 5 seconds. `queues`: patterns of the queues that the caller may see (none: all); failures in other
        queues are not counted."""
        check_text("queue", queue, QUEUE_MAX, may_be_empty=True)
        check_glob(name)
        check_integer("looked_at", looked_at, 1, LOOKED_AT_MAX)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._cached_failures_flow(queue, name, looked_at, queues))

    def _cached_failures_flow(self, queue: str, name: str, looked_at: int, queues: tuple[str, ...]) -> Flow[Failures]:
        return (
            yield from self.store.ttl_cache.read(
                ("failures", queue, name, looked_at, queues),
                REMEMBERED_MS,
                lambda at_ms: self._failures_flow(queue, name, looked_at, queues, at_ms),
            )
        )

    def _failures_flow(self, queue: str, name: str, most: int, queues: tuple[str, ...], at_ms: int) -> Flow[Failures]:
        listing = Listing(queue=queue, state="failed", name=name, newest_first=True, with_errors=True, most=PAGE_MAX)
        grouping = FailureGrouping()
        looked_at = 0
        while looked_at < most:
            page: Page = yield from self._jobs_flow(listing, queues, is_surveyed=True)
            looked_at += max(1, page.looked_at)
            grouping.add(page.jobs, page.last_attempts)
            listing = msgspec.structs.replace(listing, cursor=page.cursor)
            if not page.cursor:
                break
        groups, other_consequences = grouping.result()
        return Failures(
            groups=groups,
            other_consequences=other_consequences,
            looked_at=looked_at,
            is_all=not listing.cursor,
            at_ms=at_ms,
        )
