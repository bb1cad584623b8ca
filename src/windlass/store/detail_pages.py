"""Details of taken jobs, read page by page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windlass.core.errors import Refusal
from windlass.core.operations import NumberedJob, TakenDetails, TakenRef

from .commands import numbers
from .commands.command import ITEMS_MAX, Flow
from .commands.numbers import DetailsPage, DetailsRequest


class _PartialDetails:
    """Details of one job as far as they are read."""

    def __init__(self, request: TakenRef, partition: int) -> None:
        self.partition = partition
        self.following: DetailsRequest | None = numbers.first_page(request)
        self._first: DetailsPage | Refusal | None = None
        self._children: list[NumberedJob] = []

    def add(self, page: DetailsPage | Refusal) -> None:
        self._first = self._first or page
        self.following = None
        if not isinstance(page, Refusal):
            self._children += page.children
            self.following = page.following

    @property
    def result(self) -> TakenDetails | Refusal:
        first = self._first
        assert first is not None  # noqa: S101 — the flow ends when every job is answered
        if isinstance(first, Refusal):
            return first
        return TakenDetails(first.number, first.deadline_at_ms, first.parent, tuple(self._children))


def read_details(
    queue: str, requests: Sequence[TakenRef], partition_of: Callable[[bytes], int]
) -> Flow[list[TakenDetails | Refusal]]:
    """Read the details. A call answers as many jobs, and as many of their children, as its bounds allow."""
    found = [_PartialDetails(request, partition_of(request.id)) for request in requests]
    while True:
        parts: dict[int, dict[_PartialDetails, DetailsRequest]] = {}
        for details in found:
            if details.following is not None:
                parts.setdefault(details.partition, {})[details] = details.following
        if not parts:
            return [details.result for details in found]
        commands = [
            numbers.taken_details(queue, list(part.values())[:ITEMS_MAX], partition)
            for partition, part in parts.items()
        ]
        replies = (yield commands) if len(commands) > 1 else [(yield commands[0])]
        for part, pages in zip(parts.values(), replies, strict=True):
            for details, page in zip(part, pages, strict=False):
                details.add(page)
