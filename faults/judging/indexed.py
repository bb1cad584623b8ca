"""A history, put in order for the rules: calls with their answers, and by job the leases it was given, what was
asked of it and how sure all of that is. Times are CLOCK_MONOTONIC unless their name says otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from ..history import CallName, Entry, Phase, Seen
from .identity import identity

NEVER = 1 << 63
MS = 1_000_000
# What ends a lease, or the job, or may do so.
ENDERS: frozenset[CallName] = frozenset(("finish", "fail", "release", "cancel", "requeue"))
# A call that is repeated after a lost answer finds what its first time has done: such a no may hide a yes.
OVERTAKEN = frozenset(("already_ended", "stale_lease", "wrong_state", "unknown_job", "gone"))


_USUAL = tuple(zip(Seen.__struct_fields__, Seen.__struct_defaults__, strict=True))


class Call:
    """One call: between `begun_ns` and `answered_ns` it took effect, if it did."""

    __slots__ = ("answer", "begun", "phase")

    def __init__(self, begun: Entry) -> None:
        self.begun = begun
        self.answer: Entry | None = begun if begun.phase != "begun" else None
        self.phase: Phase = "unknown" if begun.phase == "begun" else begun.phase

    def answered(self, answer: Entry) -> None:
        self.answer, self.phase = answer, answer.phase

    @property
    def begun_ns(self) -> int:
        return self.begun.at_ns

    @property
    def answered_ns(self) -> int:
        """Never, when nobody was told."""
        return NEVER if self.answer is None or self.phase == "unknown" else self.answer.at_ns

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (self.begun,) if self.answer in (None, self.begun) else (self.begun, self.answer)


class Deed:
    """What one call asked of one job, and was told."""

    __slots__ = ("call", "code", "job", "phase", "place", "seen")

    def __init__(self, call: Call, seen: Seen, job: str, place: int) -> None:
        self.call = call
        self.place = place  # among those of its call
        self.seen = seen
        self.job = job
        self.code = seen.code or (call.answer.code if call.answer is not None else "")
        self.phase: Phase = "refused" if seen.code else call.phase

    @property
    def what(self) -> CallName:
        return self.call.begun.call

    @property
    def is_ok(self) -> bool:
        return self.phase == "ok"

    @property
    def may_be_done(self) -> bool:
        return self.phase != "refused" or self.code in OVERTAKEN

    @property
    def begun_ns(self) -> int:
        return self.call.begun_ns

    @property
    def answered_ns(self) -> int:
        return self.call.answered_ns


class Lease:
    """One lease that somebody was given and knows of."""

    __slots__ = ("extensions", "given")

    def __init__(self, given: Deed) -> None:
        self.given = given
        self.extensions: list[Deed] = []

    @property
    def token(self) -> int:
        return self.given.seen.token

    def until_ms(self, before_ns: int) -> int:
        """Its deadline by the engine's clock, as it was known before an instant. 0: not known."""
        told = [one.seen.lease_until_ms for one in self.extensions if one.answered_ns < before_ns]
        return max(self.given.seen.lease_until_ms, *told, 0) if self.given.seen.lease_until_ms else 0

    def surely_until_ns(self, slack_ms: int) -> int:
        """It has not run out before: its length counts from when it was asked for at the earliest."""
        if not self.given.seen.lease_ms:
            return NEVER if self.is_bound else self.given.answered_ns
        known = [self.given, *self.extensions]
        return max(one.begun_ns + (one.seen.lease_ms - slack_ms) * MS for one in known)

    @property
    def is_bound(self) -> bool:
        """To a connection, with which it ends."""
        return bool(self.given.call.begun.link)


class JobHistory:
    """All that is known of one job."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.keys: set[str] = set()
        self.enqueues: list[Deed] = []
        self.leases: list[Lease] = []  # by token, where there are tokens; else as they were told
        self.deeds: list[Deed] = []  # all else, as it began

    def of(self, *what: CallName) -> list[Deed]:
        return [one for one in self.deeds if one.what in what]

    @cached_property
    def is_revived(self) -> bool:
        """Somebody may have sent it on its way again after its end."""
        return any(one.may_be_done for one in self.of("requeue"))


class Indexed:
    def __init__(self, entries: Iterable[Entry]) -> None:
        self.calls = _calls_of(entries)
        self.jobs: dict[str, JobHistory] = {}
        self.ids_of_key: dict[str, set[str]] = defaultdict(set)
        self.enqueues: list[Deed] = []
        self.deliveries: dict[str, list[Deed]] = defaultdict(list)
        self._links: dict[str, int] = {}
        merged = [(call, _merged(call)) for call in self.calls]
        for _, jobs in merged:
            self._learn_names(jobs)
        for call, jobs in merged:
            self._enter(call, jobs)
        self._put_in_order()

    def link_lived_until_ns(self, link: str) -> int:
        """A connection was whole when the last call began that was answered over it."""
        return self._links.get(link, 0)

    def of_deed(self, deed: Deed) -> list[JobHistory]:
        """The job, and all others that the same enqueue has made."""
        ids = {deed.job} | self.ids_of_key.get(deed.seen.key, set())
        return [self.jobs[one] for one in sorted(ids) if one in self.jobs]

    def _learn_names(self, jobs: Sequence[Seen]) -> None:
        for seen in jobs:
            if seen.key and seen.id:
                self.ids_of_key[seen.key].add(identity(seen.id))

    def _enter(self, call: Call, jobs: Sequence[Seen]) -> None:
        if call.begun.link and call.phase in ("ok", "refused"):
            link = call.begun.link
            self._links[link] = max(self._links.get(link, 0), call.begun_ns)
        for place, seen in enumerate(jobs):
            job = identity(seen.id) if seen.id else self._by_key(seen.key)
            deed = Deed(call, seen, job, place)
            if deed.what == "enqueue":
                self.enqueues.append(deed)
            if seen.delivery:
                self.deliveries[seen.delivery].append(deed)
            if job:
                self._enter_job(self.jobs.setdefault(job, JobHistory(job)), deed)

    def _enter_job(self, history: JobHistory, deed: Deed) -> None:
        if deed.seen.key:
            history.keys.add(deed.seen.key)
        if deed.what == "enqueue":
            history.enqueues.append(deed)
        elif deed.what == "take":
            if deed.is_ok:
                history.leases.append(Lease(deed))
        else:
            history.deeds.append(deed)

    def _by_key(self, key: str) -> str:
        """Where a front end tells no id, the key stands for the job."""
        ids = self.ids_of_key.get(key, set()) if key else set()
        return next(iter(ids)) if len(ids) == 1 else key and f"key {key}"

    def _put_in_order(self) -> None:
        for history in self.jobs.values():
            history.leases.sort(key=lambda one: (one.token, one.given.answered_ns))
            by_token = {lease.token: lease for lease in history.leases if lease.token}
            for deed in history.of("extend"):
                if deed.is_ok and deed.seen.token in by_token:
                    by_token[deed.seen.token].extensions.append(deed)


def _calls_of(entries: Iterable[Entry]) -> list[Call]:
    calls: dict[tuple[str, int], Call] = {}
    for entry in sorted(entries, key=lambda one: one.at_ns):
        known = calls.get((entry.client, entry.n))
        if known is None:
            calls[entry.client, entry.n] = Call(entry)
        elif entry.phase == "begun":
            raise ValueError(f"Two clients are called {entry.client!r}: their histories cannot be told apart.")
        else:
            known.answered(entry)
    return sorted(calls.values(), key=lambda call: call.begun_ns)


def _merged(call: Call) -> Sequence[Seen]:
    """What was asked of each job, with what was answered; of a take, what was given."""
    asked = call.begun.jobs
    if call.begun.call == "take":
        return call.answer.jobs if call.answer is not None and call.phase == "ok" else ()
    if call.answer is None or call.answer is call.begun or not call.answer.jobs:
        return asked
    return [_with_answer(*pair) for pair in zip(asked, call.answer.jobs, strict=True)]


def _with_answer(asked: Seen, answer: Seen) -> Seen:
    told = {field: value for field, usual in _USUAL if (value := getattr(answer, field)) != usual}
    return msgspec.structs.replace(asked, **told)
