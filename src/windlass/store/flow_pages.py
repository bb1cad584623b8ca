"""Pages of flows over all partitions, newest first."""

from __future__ import annotations

from collections.abc import Callable

from windlass.core.flow import FlowPage, FlowSummary

from .commands import flows as flows_commands
from .commands.command import Flow
from .commands.flows import SummaryPage
from .commands.jobs import IndexPosition

READ_MAX = 2_000  # flows that one page reads, however few of them match
READ_AT_ONCE = 200


def read_flow_page(matches: Callable[[FlowSummary], bool], most: int, cursor: str, partitions: int) -> Flow[FlowPage]:
    """Read a page of the flows that match. It may be empty although more pages follow.

    The cursor is a position in the order that the partitions share. A round ends at the position of the partition that
    was read least far; the next round reads all partitions from there."""
    share = max(2, READ_AT_ONCE // partitions)
    found: list[tuple[IndexPosition, FlowSummary]] = []
    read = 0
    while True:
        pages: list[SummaryPage] = yield [
            flows_commands.flows(share, cursor, partition) for partition in range(partitions)
        ]
        bound = max((page.until for page in pages if page.until), default=None)
        entries = _entries(pages, bound)
        found += [entry for entry in entries if matches(entry[1])]
        read += share * partitions
        if len(found) > most:
            return FlowPage([flow for _, flow in found[:most]], found[most - 1][0].cursor)
        cursor = bound.cursor if bound else ""
        if not cursor or len(found) == most or read >= READ_MAX:
            return FlowPage([flow for _, flow in found], cursor)


def _entries(pages: list[SummaryPage], bound: IndexPosition | None) -> list[tuple[IndexPosition, FlowSummary]]:
    entries = (entry for page in pages for entry in zip(page.positions, page.flows, strict=True))
    within = [entry for entry in entries if bound is None or entry[0] >= bound]
    return sorted(within, key=lambda entry: entry[0], reverse=True)
