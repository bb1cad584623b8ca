"""Why a job does not run, or what became of it: reasons as data, each with a sentence for people. Ids are written as
people write them; all of it can be sent as JSON."""

from __future__ import annotations

import re
from typing import ClassVar, Literal, TypeAlias

import msgspec

from windlass.core.text.humanize import (
    humanize_age,
    humanize_duration,
    humanize_instant,
    humanize_since,
    list_first,
    pluralize,
    quote_text,
    shorten,
)

from .references import HANDING_OVER, HIDDEN, STEPS, Holder, Related, Step

_REASON_SHOWN = 300


def _tag(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class _Reason(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=_tag):
    sentence: str = ""
    is_blocking: ClassVar[bool] = True  # else it only says where the job stands

    def describe(self, now_ms: int) -> str:
        raise NotImplementedError


def _attempt(number: int, of: int) -> str:
    return f"attempt {number} of {of}" if of else f"attempt {number}"


# It waits for its time


class Scheduled(_Reason, frozen=True, kw_only=True):
    until_at_ms: int
    why: Literal["run_at", "retry", "repeat"]
    attempt: int = 0  # with `retry`: the one that ended badly
    max_attempts: int = 0  # 0: any number
    last_reason: str = ""  # with `retry`: why it did
    note: str = ""  # with `run_at`: what a worker noted that put it off

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.until_at_ms, now_ms)
        if self.until_at_ms <= now_ms:
            return f"Its time came at {at}: the next taker, or the scheduler, puts it into its queue."
        if self.why == "retry":
            ended = f"{_attempt(self.attempt, self.max_attempts)} ended badly: {shorten(self.last_reason)}"
            return f"It is tried again at {at}, since {ended}."
        if self.why == "repeat":
            return f"Its next run is planned for {at}."
        noted = f": {shorten(self.note, _REASON_SHOWN)}" if self.note else ""
        return f"It is not to start before {at}{noted}."


class Expired(_Reason, frozen=True, kw_only=True):
    """It had to start by then."""

    at_ms: int

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.at_ms, now_ms)
        return f"It had to start by {at}: whoever looks at it next ends it as failed, with reason expired."


class Expires(_Reason, frozen=True, kw_only=True):
    at_ms: int
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        return f"If it has not started by {humanize_instant(self.at_ms, now_ms)}, it fails with reason expired."


# It is held back


class Paused(_Reason, frozen=True, kw_only=True):
    scope: Literal["queue", "lane", "name"]
    queue: str
    lane: str = ""
    name: str = ""
    since_at_ms: int
    reason: str = ""

    def describe(self, now_ms: int) -> str:
        whole = f"queue {quote_text(self.queue)}"
        what = {
            "queue": "Queue " + whole.removeprefix("queue "),
            "lane": f"Lane {quote_text(self.lane)} of {whole}",
            "name": f"The name {quote_text(self.name)} in {whole}",
        }[self.scope]
        why = f": {shorten(self.reason, _REASON_SHOWN)}" if self.reason else ", no reason was given"
        return f"{what} has been paused since {humanize_since(self.since_at_ms, now_ms)}{why}."


class _LimitReason(_Reason, frozen=True, kw_only=True):
    limit: str
    key: str | None = None  # of a limit per key

    def _named(self) -> str:
        return f"Limit {quote_text(self.limit)}" + (f" for key {shorten(self.key)}" if self.key is not None else "")


class LimitFull(_LimitReason, frozen=True, kw_only=True):
    cap: int
    running: int
    holders: list[str]  # the first ten, longest first

    def describe(self, now_ms: int) -> str:
        if self.cap == 0:
            return f"{self._named()} lets no job run."
        held = f", held by {list_first(self.holders, self.running)}" if self.holders else ""
        return f"{self._named()} is full: {self.running} of {self.cap} running{held}."


class RateLimited(_LimitReason, frozen=True, kw_only=True):
    rate: int
    per_ms: int
    burst: int
    until_at_ms: int

    def describe(self, now_ms: int) -> str:
        rate = f"{pluralize(self.rate, 'start')} per {humanize_duration(self.per_ms)}"
        return f"{self._named()} allows {rate}: it has room again at {humanize_instant(self.until_at_ms, now_ms)}."


# Nobody takes it


class NoWorker(_Reason, frozen=True, kw_only=True):
    """No registered worker names its queue, and nobody waits at it."""

    queue: str
    silent_workers: int = 0  # that named it, and have not been heard of in time
    served: int = 0  # jobs of the queue that somebody has all the same

    def describe(self, now_ms: int) -> str:
        if self.served:
            taken = f"{pluralize(self.served, 'job')} of it {'is' if self.served == 1 else 'are'} taken"
            return f"Nobody waits at queue {quote_text(self.queue)} and no worker is registered for it, though {taken}."
        lost = f" ({pluralize(self.silent_workers, 'worker')} fell silent)" if self.silent_workers else ""
        return f"No worker listens to queue {quote_text(self.queue)}{lost}: start one that takes from it."


class Unwanted(_Reason, frozen=True, kw_only=True):
    """Those who wait at its queue want other jobs."""

    queue: str
    name: str
    priority: int
    waiting: int
    wants: list[str]  # what they want, each in words; the first ten

    def describe(self, now_ms: int) -> str:
        who = "The only taker" if self.waiting == 1 else f"All {self.waiting} takers"
        wanted = list_first([shorten(one) for one in self.wants], len(self.wants))
        want = f"{'wants' if self.waiting == 1 else 'want'} other jobs ({wanted})"
        job = f"{quote_text(self.name)} with priority {self.priority}"
        return f"{who} waiting at queue {quote_text(self.queue)} {want}, not {job}."


class NameUnknown(_Reason, frozen=True, kw_only=True):
    """It would be pushed, but no worker that jobs are pushed to knows its name."""

    queue: str
    name: str
    workers: int

    def describe(self, now_ms: int) -> str:
        who = "The only worker" if self.workers == 1 else f"None of the {self.workers} workers"
        does = "does not know" if self.workers == 1 else "knows"
        return (
            f"{who} that jobs of queue {quote_text(self.queue)} are pushed to {does} the name {quote_text(self.name)}; one "
            "that knows it must register."
        )


class WorkersBusy(_Reason, frozen=True, kw_only=True):
    """Workers take from its queue, and none of them asks for a job now."""

    queue: str
    workers: int
    slots: int
    running: int

    def describe(self, now_ms: int) -> str:
        who = f"{'The only worker' if self.workers == 1 else f'All {self.workers} workers'} of queue {quote_text(self.queue)}"
        used = f"{self.running} of {pluralize(self.slots, 'slot')} in use"
        if self.running >= self.slots:
            return f"{who} {'is' if self.workers == 1 else 'are'} busy: {used}."
        return f"{who} {'has' if self.workers == 1 else 'have'} {used}, but nobody asks for a job at this moment."


# Where it stands


class Ahead(_Reason, frozen=True, kw_only=True):
    """Exact by the queue's order; in a fair queue, where lanes take turns, within its own lane."""

    queue: str
    ahead: int
    blocked_lanes: int = 0  # lanes of the queue that a limit or a pause holds back: their jobs may be overtaken
    is_fair: bool = False
    lane: str = ""
    lanes: int = 1  # that share the queue, its own included
    weight: int = 1
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        stand = f"{pluralize(self.ahead, 'job')} {'stands' if self.ahead == 1 else 'stand'} before it"
        if not self.is_fair:
            blocked = ", some of them held back by limits or pauses" if self.blocked_lanes else ""
            return f"{stand} in queue {quote_text(self.queue)}{blocked}."
        lane = f"lane {quote_text(self.lane)}" if self.lane else "the default lane"
        turns = f"which takes turns with {pluralize(self.lanes - 1, 'other lane')}"
        turns += f", with weight {self.weight}" if self.weight != 1 else ""
        where = f"{stand} in {lane}" if self.ahead else f"It is the first of {lane}"
        return f"{where}{', ' + turns if self.lanes > 1 else ''}."


class Next(_Reason, frozen=True, kw_only=True):
    queue: str
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        return f"It is the next job of queue {quote_text(self.queue)}."


# It waits for others


class HeldByParent(_Reason, frozen=True, kw_only=True):
    parent: Related

    def describe(self, now_ms: int) -> str:
        if self.parent.state == HIDDEN:
            return f"Its parent {self.parent.id}, which is in another queue, holds it."
        parent = f"Its parent {self.parent.id} ({self.parent.state})"
        if self.parent.state in HANDING_OVER:
            return f"{parent} holds it until it hands over."
        return f"{parent} has handed over or is no more, and is about to let it go."


class AwaitsMembers(_Reason, frozen=True, kw_only=True):
    count: int  # that have not ended, deleted ones left out
    members: list[Related]  # the first ten
    is_group: bool = False

    def describe(self, now_ms: int) -> str:
        which = list_first([f"{one.id} ({one.state})" for one in self.members], self.count)
        what = (
            f"{pluralize(self.count, 'member')} of this group"
            if self.is_group
            else f"{pluralize(self.count, 'job')} it waits for"
        )
        return f"{what} {'has' if self.count == 1 else 'have'} not ended: {which}."


class DeletedMembers(_Reason, frozen=True, kw_only=True):
    count: int
    members: list[str]  # the first ten

    def describe(self, now_ms: int) -> str:
        what = f"{pluralize(self.count, 'job')} it waits for {'was' if self.count == 1 else 'were'} deleted"
        return f"{what} and will never end ({list_first(self.members, self.count)}): wake lets it go on."


class NothingLeft(_Reason, frozen=True, kw_only=True):
    """Its last member was deleted, which tells nobody."""

    def describe(self, now_ms: int) -> str:
        return "Nothing that it waits for is left, and no end will tell it so: wake lets it go on."


class InSteps(_Reason, frozen=True, kw_only=True):
    """Work on a large family that idle takers and the scheduler go on with."""

    steps: list[Step]

    def describe(self, now_ms: int) -> str:
        return f"Its family is still worked on in steps: {', and '.join(STEPS[step] for step in self.steps)}."


# Somebody has it


def _holder(holder: Holder | None) -> str:
    return f"Worker {holder.describe()}" if holder else "A taker without a worker id"


class Dispatched(_Reason, frozen=True, kw_only=True):
    worker: Holder | None
    since_at_ms: int
    accept_until_at_ms: int
    attempt: int
    max_attempts: int
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        until = humanize_instant(self.accept_until_at_ms, now_ms)
        got = f"got it {humanize_age(self.since_at_ms, now_ms)}"
        return f"{_holder(self.worker)} {got} and has to accept it by {until}, else it goes back to its queue."


class Running(_Reason, frozen=True, kw_only=True):
    worker: Holder | None
    since_at_ms: int
    attempt: int
    max_attempts: int  # 0: any number
    deadline_at_ms: int | None  # None: until somebody reports
    lease_renewed_at_ms: int | None = None  # if the lease is as long as the job's or the queue's says
    timeout_at_ms: int | None = None  # of the execution
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        started = f"{humanize_since(self.since_at_ms, now_ms)}, {_attempt(self.attempt, self.max_attempts)}"
        running = f"{_holder(self.worker)} has been running it since {started}"
        return running + self._lease(now_ms) + self._heard(now_ms) + "."

    def _lease(self, now_ms: int) -> str:
        if self.deadline_at_ms is None:
            return "; its lease has no deadline"
        if self.deadline_at_ms <= now_ms:
            return ""
        return f"; its lease holds until {humanize_instant(self.deadline_at_ms, now_ms)}"

    def _heard(self, now_ms: int) -> str:
        beat_at_ms = self.worker.beat_at_ms if self.worker else None
        if beat_at_ms is not None:
            return f", and the worker's last heartbeat was {humanize_age(beat_at_ms, now_ms)}"
        if self.lease_renewed_at_ms is None or self.lease_renewed_at_ms <= self.since_at_ms:
            return ""
        return f", and was renewed {humanize_age(self.lease_renewed_at_ms, now_ms)}"


class Overdue(_Reason, frozen=True, kw_only=True):
    since_at_ms: int
    why: Literal["lease", "timeout", "accept"]
    may_be_retaken: bool = False  # it stays running, and may be taken by another

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.since_at_ms, now_ms)
        if self.why == "timeout":
            return f"It has exceeded its execution timeout, at {at}: the recoverer ends this attempt."
        if self.why == "accept":
            return f"It was not accepted by {at}: the next taker, or the recoverer, puts it back."
        if self.may_be_retaken:
            return f"Its lease ran out at {at}: another may take it, and until then its holder may still report."
        return f"Its lease ran out at {at}: the next taker, or the recoverer, takes it from its holder."


class WorkerSilent(_Reason, frozen=True, kw_only=True):
    since_at_ms: int

    def describe(self, now_ms: int) -> str:
        at = humanize_instant(self.since_at_ms, now_ms)
        return f"Its worker should have been heard of by {at}: it counts as lost, and the recoverer takes the job back."


class StopRequested(_Reason, frozen=True, kw_only=True):
    def describe(self, now_ms: int) -> str:
        return "It was asked to stop, and its worker has not reported yet."


# It has ended


class Ended(_Reason, frozen=True, kw_only=True):
    how: Literal["finished", "failed", "cancelled"]
    at_ms: int
    reason: str = ""  # of a bad end
    attempt: int
    max_attempts: int
    kept: Literal["until", "always", "history", "needed"]
    kept_until_at_ms: int | None = None
    is_blocking: ClassVar[bool] = False

    def describe(self, now_ms: int) -> str:
        how = {"finished": "It finished", "failed": "It failed", "cancelled": "It was cancelled"}[self.how]
        why = f": {shorten(self.reason)}" if self.reason else ""
        return f"{how} at {humanize_instant(self.at_ms, now_ms)}{self._tried()}{why}; {self._keeping(now_ms)}."

    def _tried(self) -> str:
        return f" in {_attempt(self.attempt, self.max_attempts)}" if self.attempt else ""

    def _keeping(self, now_ms: int) -> str:
        if self.kept == "until" and self.kept_until_at_ms is not None:
            return f"it is kept until {humanize_instant(self.kept_until_at_ms, now_ms)}"
        return {
            "history": "it stays in its queue's history while there is room",
            "needed": "it is kept while another job needs its outcome",
        }.get(self.kept, "it is kept until somebody deletes it")


Reason: TypeAlias = (
    Scheduled | Expired | Expires | Paused | LimitFull | RateLimited | NoWorker | NameUnknown | Unwanted | WorkersBusy
    | Ahead | Next | HeldByParent | AwaitsMembers | DeletedMembers | NothingLeft | InSteps | Dispatched | Running
    | Overdue | WorkerSilent | StopRequested | Ended
)  # fmt: skip


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """As things stood at one instant."""

    id: str
    queue: str
    name: str
    state: str
    at_ms: int
    summary: str
    reasons: list[Reason]  # most decisive first
