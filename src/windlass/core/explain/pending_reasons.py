"""Reasons why a job has not been taken: its time, pauses, limits, workers, and its position in the queue."""

from __future__ import annotations

from typing import ClassVar, Literal

from windlass.core.text.humanize import (
    humanize_duration,
    humanize_instant,
    humanize_since,
    list_first,
    pluralize,
    quote_text,
    shorten,
)
from windlass.core.text.similar_names import describe_missing_task

from .reason import TEXT_SHOWN, ReasonBase, describe_attempt


class Scheduled(ReasonBase, frozen=True, kw_only=True):
    until_at_ms: int
    why: Literal["run_at", "retry", "repeat"]
    attempt: int = 0  # with `retry`: the attempt that failed
    max_attempts: int = 0  # 0: unlimited
    last_reason: str = ""  # with `retry`: why the attempt failed
    note: str = ""  # with `run_at`: note of the worker that postponed it

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.until_at_ms, now_ms)
        if self.until_at_ms <= now_ms:
            return f"It became due at {at}: the next taker or the scheduler moves it into its queue."
        if self.why == "retry":
            failed = f"{describe_attempt(self.attempt, self.max_attempts)} failed: {shorten(self.last_reason)}"
            return f"It is retried at {at}, because {failed}."
        if self.why == "repeat":
            return f"Its next run is planned for {at}."
        noted = f": {shorten(self.note, TEXT_SHOWN)}" if self.note else ""
        return f"It does not start before {at}{noted}."


class Expired(ReasonBase, frozen=True, kw_only=True):
    """The job had to start before this time."""

    at_ms: int

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.at_ms, now_ms)
        return f"It had to start by {at}: the next taker or loop that finds it ends it as failed, with reason expired."


class Expires(ReasonBase, frozen=True, kw_only=True):
    at_ms: int
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        return f"If it has not started by {humanize_instant(self.at_ms, now_ms)}, it fails with reason expired."


class Paused(ReasonBase, frozen=True, kw_only=True):
    scope: Literal["queue", "lane", "name"]
    queue: str
    lane: str = ""
    name: str = ""
    since_at_ms: int
    reason: str = ""

    def describe(self, now_ms: int) -> str:
        queue = quote_text(self.queue)
        what = {
            "queue": f"Queue {queue}",
            "lane": f"Lane {quote_text(self.lane)} of queue {queue}",
            "name": f"The name {quote_text(self.name)} in queue {queue}",
        }[self.scope]
        why = f": {shorten(self.reason, TEXT_SHOWN)}" if self.reason else ", no reason was given"
        return f"{what} has been paused since {humanize_since(self.since_at_ms, now_ms)}{why}."


class _LimitReason(ReasonBase, frozen=True, kw_only=True):
    limit: str
    key: str | None = None  # of a limit per key

    def _subject(self) -> str:
        return f"Limit {quote_text(self.limit)}" + (f" for key {shorten(self.key)}" if self.key is not None else "")


class LimitFull(_LimitReason, frozen=True, kw_only=True):
    cap: int
    running: int
    holders: list[str]  # the first ten, longest running first

    def describe(self, now_ms: int) -> str:
        if self.cap == 0:
            return f"{self._subject()} lets no job run."
        held = f", held by {list_first(self.holders, self.running)}" if self.holders else ""
        return f"{self._subject()} is full: {self.running} of {self.cap} running{held}."


class RateLimited(_LimitReason, frozen=True, kw_only=True):
    rate: int
    per_ms: int
    burst: int
    until_at_ms: int

    def describe(self, now_ms: int) -> str:
        rate = f"{pluralize(self.rate, 'start')} per {humanize_duration(self.per_ms)}"
        return (
            f"{self._subject()} allows {rate}: the next job can start at {humanize_instant(self.until_at_ms, now_ms)}."
        )


class NoWorker(ReasonBase, frozen=True, kw_only=True):
    """No registered worker names the queue, and no taker waits at it."""

    queue: str
    silent_workers: int = 0  # workers that named it, and whose heartbeats are overdue
    served: int = 0  # leased jobs of the queue

    def describe(self, now_ms: int) -> str:
        queue = quote_text(self.queue)
        if self.served:
            taken = f"{self.served} of its jobs {'is' if self.served == 1 else 'are'} taken"
            return f"No taker waits at queue {queue} and no worker is registered for it, although {taken}."
        lost = (
            f" ({pluralize(self.silent_workers, 'worker')} stopped sending heartbeats)" if self.silent_workers else ""
        )
        return f"No worker listens to queue {queue}{lost}: start a worker for it."


class Unwanted(ReasonBase, frozen=True, kw_only=True):
    """The takers that wait at the queue want other jobs."""

    queue: str
    name: str
    priority: int
    waiting: int
    wants: list[str]  # their filters in words; the first ten

    def describe(self, now_ms: int) -> str:
        who = "The only taker" if self.waiting == 1 else f"All {self.waiting} takers"
        wanted = list_first([shorten(filter_text) for filter_text in self.wants], len(self.wants))
        want = f"{'wants' if self.waiting == 1 else 'want'} other jobs ({wanted})"
        job = f"{quote_text(self.name)} with priority {self.priority}"
        return f"{who} waiting at queue {quote_text(self.queue)} {want}, not {job}."


class NameUnknown(ReasonBase, frozen=True, kw_only=True):
    """Workers serve the queue, and none of them knows the name."""

    queue: str
    name: str
    workers: int
    suggestion: str = ""  # a name that they know and that is spelt alike

    def describe(self, now_ms: int) -> str:
        return describe_missing_task("No worker has a", self.name, self.suggestion)


class WorkersBusy(ReasonBase, frozen=True, kw_only=True):
    """Workers serve the queue, and none of them asks for a job now."""

    queue: str
    workers: int
    slots: int
    running: int

    def describe(self, now_ms: int) -> str:
        workers = "The only worker" if self.workers == 1 else f"All {self.workers} workers"
        who = f"{workers} of queue {quote_text(self.queue)}"
        used = f"{self.running} of {pluralize(self.slots, 'slot')} in use"
        if self.running >= self.slots:
            return f"{who} {'is' if self.workers == 1 else 'are'} busy: {used}."
        return f"{who} {'has' if self.workers == 1 else 'have'} {used}, but none asks for a job at the moment."


class Ahead(ReasonBase, frozen=True, kw_only=True):
    """Exact position by the queue's order; in a fair queue, where lanes take turns, the position within the lane."""

    queue: str
    ahead: int
    blocked_lanes: int = 0  # lanes of the queue that a limit or a pause blocks: their jobs may be overtaken
    is_fair: bool = False
    lane: str = ""
    lanes: int = 1  # lanes that share the queue, including the job's lane
    weight: int = 1
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        ahead = f"{pluralize(self.ahead, 'job')} {'is' if self.ahead == 1 else 'are'} ahead of it"
        if not self.is_fair:
            blocked = ", some of them blocked by limits or pauses" if self.blocked_lanes else ""
            return f"{ahead} in queue {quote_text(self.queue)}{blocked}."
        lane = f"lane {quote_text(self.lane)}" if self.lane else "the default lane"
        turns = f"which takes turns with {pluralize(self.lanes - 1, 'other lane')}"
        turns += f", with weight {self.weight}" if self.weight != 1 else ""
        where = f"{ahead} in {lane}" if self.ahead else f"It is the first of {lane}"
        return f"{where}{', ' + turns if self.lanes > 1 else ''}."


class Next(ReasonBase, frozen=True, kw_only=True):
    queue: str
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        return f"It is the next job of queue {quote_text(self.queue)}."
